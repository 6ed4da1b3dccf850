"""The report in a browser: no requests, no script but its own, no overflow, accessible."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.runs.request import ReplayRequest

# Would change the title of a page in which it ran.
ATTACK = "<script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=\"document.title='owned'\">"
NAME = "半山 <img src=x onerror=alert(1)> &amp; 茶"

TITLE = "Recall report (trial: embedder hashing, which is for tests): recency against none"


def _recording(name: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{"kind": "recording", "schema": "lab.recording.v1", "conversation": name}]
    for number in range(1, 7):
        time = f"2026-03-{number:02}T09:00:00+00:00"
        lines.append({"kind": "session", "session": f"s{number:02}", "time": time, "scope": "shop"})
        lines.append({"kind": "turn", "turn": "t01", "role": "user", "text": f"{ATTACK} which lamp {number - 1}?"})
        lines += [
            {
                "kind": "memory",
                "text": f"{ATTACK} lamp {number} shelf {part}",
                "importance_label": ("must_remember", "nice_to_have")[part % 2],
                "scope": "shop",
            }
            for part in range(6)
        ]
        lines.append({"kind": "turn", "turn": "t02", "role": "assistant", "text": "fine"})
    return lines


def _probes(name: str) -> list[dict[str, Any]]:
    return [
        {
            "kind": "probe",
            "turn": f"{name}/s{number:02}/t01",
            "type": "a <i>kind</i>",
            "reason": "it was said",
            "relevant": [{"memory": f"{name}/s{number - 1:02}/t01#{part}", "grade": 2, "reason": "said"}],
        }
        for part, number in enumerate(range(2, 7))
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with the texts of turns and memories, all of which would like to be markup."""
    folder = tmp_path_factory.mktemp("page")
    for name, lines in (("datasets", _recording), ("golden", _probes)):
        (folder / name / "set").mkdir(parents=True)
        for place, conversation in enumerate((NAME, "den")):
            text = "".join(json.dumps(line) + "\n" for line in lines(conversation))
            (folder / name / "set" / f"{place}.jsonl").write_text(text, "utf-8")
    arms = ("tier_first_v1", "tier_quota_v1", "recency", "none")
    request = ReplayRequest(
        str(folder / "datasets/set"),
        "lab",
        arms,
        golden=str(folder / "golden/set"),
        embedder="hashing",
        scope="recorded",
    )
    run = run_replay(request, folder / "run").run
    # Recency against nothing: every turn flips.
    build_report(run, "none", "recency", with_text=True)
    return run.path / "report.html"


def test_report_loads_nothing_and_runs_no_script(browser: Any, page: Path) -> None:
    browser.open(page.as_uri())
    assert browser.asked == [page.as_uri()]
    assert browser.said == []
    assert browser.ask("document.title") == TITLE
    assert (
        browser.ask("document.scripts.length + document.images.length + document.querySelectorAll('[onerror]').length")
        == 1
    )
    # The texts are there, as texts.
    assert browser.ask(
        "[...document.querySelectorAll('.card .text')].some(one => one.textContent.includes('<script>document'))"
    )
    # Whatever came in would be stopped by the page's own policy.
    stopped = "const one = document.createElement('script'); one.textContent = \"document.title='owned'\"; "
    browser.ask(f"{{ {stopped} document.body.append(one); }}")
    browser.ask("{ const one = new Image(); one.src = 'http://127.0.0.1:9/x'; document.body.append(one); }")
    assert browser.ask("document.title") == TITLE
    assert browser.wait("Network.loadingFailed")["blockedReason"] == "csp"


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False), (1280, True)])
def test_report_has_no_overflow_in_light_or_dark(browser: Any, page: Path, width: int, dark: bool) -> None:
    browser.open(page.as_uri(), width=width, dark=dark)
    browser.ask(
        "document.querySelectorAll('details').forEach(one => { one.removeAttribute('name'); one.open = true; })"
    )
    assert browser.ask("document.documentElement.scrollWidth") <= width
    beyond = """[...document.querySelectorAll('body *')].filter(one =>
        !one.closest('.scroll, pre, .skip, summary, .hidden')
        && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.tagName)"""
    assert browser.ask(beyond) == []
    colours = browser.ask("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    ink, paper = (sum(int(one) for one in colour.strip("rgb()").split(",")) for colour in colours)
    assert (ink > paper) is dark
    # The letters of figures take the page's ink.
    assert browser.ask("getComputedStyle(document.querySelector('.chart svg text')).fill") == colours[0]


@pytest.mark.parametrize("width", [390, 1280])
def test_figures_are_readable_at_any_width(browser: Any, page: Path, width: int) -> None:
    browser.open(page.as_uri(), width=width)
    figures = browser.ask("""[...document.querySelectorAll('figure')].map(one => ({
        said: one.querySelector('.finding').textContent.trim(),
        fits: one.querySelector('.finding').scrollWidth <= innerWidth,
        name: one.querySelector('[role=group]').getAttribute('aria-label'),
        scrolls: one.querySelectorAll('.scroll').length,
        letters: [...one.querySelectorAll('svg text')].filter(text => text.getClientRects().length).map(
            text => ({ size: parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a,
                       right: text.getBoundingClientRect().right }))}))""")
    assert len(figures) > 5
    for one in figures:
        assert one["fits"]
        assert one["name"].startswith(one["said"])
        assert one["scrolls"] == 0, "a chart takes the width of the page"
        assert [letter for letter in one["letters"] if letter["size"] < 11 or letter["right"] > width] == []
    assert sum(len(one["letters"]) for one in figures) > 40


def test_table_of_arms_sorts_and_marks_the_best(browser: Any, page: Path) -> None:
    order = "[...document.querySelectorAll('table.arms tbody th')].map(one => one.textContent)"
    browser.open(page.as_uri(), scripts=False)
    assert browser.ask("document.querySelectorAll('table.arms button').length") == 0
    browser.open(page.as_uri())
    before = browser.ask(order)
    assert before == ["tier_first_v1", "tier_quota_v1", "recency", "none"]
    browser.ask("document.querySelectorAll('table.arms thead button')[1].click()")
    assert browser.ask("document.querySelector('table.arms [aria-sort]').getAttribute('aria-sort')") == "descending"
    values = browser.ask(
        "[...document.querySelectorAll('table.arms tbody tr')].map(one => +one.cells[1].dataset.value)"
    )
    assert values == sorted(values, reverse=True)
    best = browser.ask("[...document.querySelectorAll('table.arms td.best')].map(one => one.textContent.trim()[0])")
    assert best
    assert set(best) == {"★"}


def test_link_to_a_turn_opens_its_card(browser: Any, page: Path) -> None:
    browser.open(f"{page.as_uri()}#gained-2")
    opened = browser.ask("[...document.querySelectorAll('details.card[open]')].map(one => one.id)")
    assert opened == ["gained-2"]
    said = browser.ask("document.querySelector('#gained-2').innerText")
    assert "which lamp" in said
    assert all(part in said for part in ("Asked", "Relevant", "none injected", "recency injected", "✓ relevant"))
    assert browser.ask("document.querySelector('#gained-2').closest('details.group').open")


def test_print_is_light_and_unfolded(browser: Any, page: Path) -> None:
    browser.open(page.as_uri(), dark=True, media="print")
    assert browser.ask("getComputedStyle(document.body).color") == "rgb(29, 29, 31)"
    assert browser.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
    charts = "[...document.querySelectorAll('details:not(.long) .canvas > svg')]"
    heights = f"{charts}.map(one => one.getBoundingClientRect().height)"
    assert browser.ask(heights)
    assert min(browser.ask(heights)) > 100


def test_links_resolve_and_landmarks_exist(browser: Any, page: Path) -> None:
    browser.open(page.as_uri())
    links = browser.ask("[...document.querySelectorAll('a')].map(one => one.getAttribute('href'))")
    inside = [one for one in links if one.startswith("#")]
    assert len(inside) > 6
    assert [one for one in inside if not browser.ask(f"!!document.querySelector('{one}')")] == []
    assert [
        one
        for one in links
        if not one.startswith(("#", "http://127.0.0.1:8642/turn?")) and not (page.parent / one).is_file()
    ] == []
    ids = browser.ask("[...document.querySelectorAll('[id]')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    levels = browser.ask("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert browser.ask("['header', 'nav', 'main'].map(one => document.querySelectorAll(one).length)") == [1, 1, 1]
    names = browser.ask("[...document.querySelectorAll('figure [role=group]')].map(one => one.ariaLabel)")
    assert names
    assert all(len(name) > 40 for name in names)
    assert browser.ask("[...document.querySelectorAll('th')].every(one => one.scope)")
    # What scrolls can be scrolled by keyboard, and shows where the focus is.
    assert browser.ask("[...document.querySelectorAll('.scroll, pre')].every(one => one.tabIndex === 0)")
    browser.press("Tab")
    assert browser.ask("document.activeElement.className") == "skip"
    assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
