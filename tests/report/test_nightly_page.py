"""The page of a nightly run: one look for every state, and a history whose links lead somewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from lab.gate.line import AGAIN, PASS, SKIPPED, Line
from lab.gate.verdict import Verdict
from lab.nightly.against import Apart
from lab.nightly.nightly_run import NightlyRun, SetResult
from lab.nightly.trend import past_of
from lab.report.nightly import write_pages
from tests.report.nightly_states import ARMS, SETS, STEP_AT, make

TAGS = re.compile(r"<style>.*?</style>|<script>.*?</script>|<svg.*?</svg>|<[^>]+>", re.DOTALL)


def _words(page: Path) -> str:
    return " ".join(unescape(TAGS.sub(" ", page.read_text("utf-8"))).split())


@pytest.mark.parametrize(
    ("state", "said", "action"),
    [
        ("pass", "PASS as approved Why No change that the policy forbids", "Nothing has to be done."),
        (
            "fail",
            (
                "FAIL not as approved Why Since the baseline: arm tier_quota_v1: config.autoRecall.quotas.mustMax "
                "2 -> 3; numpy 2.3.1 -> 2.3.2. operators: 12 of 684 receipts of tier_quota_v1 changed"
            ),
            "lab explain sets/operators/run choir-tour/s01/t01 --arm tier_quota_v1",
        ),
        (
            "inconclusive",
            "INCONCLUSIVE nothing to compare with Why operators: there is no baseline 'operators' in reports/baselines",
            "lab nightly baseline approve sets/operators/run --name operators --baselines reports/baselines",
        ),
        (
            "error",
            "ERROR something was not measured Why operators: the replay is nondeterministic: 3 of 2052 receipts differ",
            "lab diff baselines/ecfe793ae75cbfc4 sets/operators/run",
        ),
    ],
)
def test_first_screen_says_state_cause_and_action(state: str, said: str, action: str, tmp_path: Path) -> None:
    page = make(tmp_path, state, 3)
    words = _words(page)
    assert said in words
    assert action in words.partition("Sets")[0]
    assert f'<div class="verdict {state}">' in page.read_text("utf-8")
    # What the plan hopes for is no finding.
    assert "The same memories as approved" not in words.partition("the plan requires")[0]


def test_night_that_passes_on_what_was_measured_says_so(tmp_path: Path) -> None:
    stale = Line("guard", "StaleRecall", SKIPPED, True, "not measurable here: no memory is superseded", unmeasured=True)
    passed = (Line(AGAIN, "receipts", PASS, True, "two replays gave the same receipts"), stale)
    verdict = Verdict("mine/own", "as approved", "sets/own/run", "own", None, PASS, passed)
    made = NightlyRun(
        *("mine", "The same memories as approved.", "2026-11-24", tmp_path, "0123", ()), tmp_path / "baselines"
    )
    for lines, means in ((passed, "PASS on what was measured"), (passed[:1], "PASS as approved")):
        result = SetResult("own", replace(verdict, lines=lines), None, None, None, {}, ())
        assert means in _words(write_pages(replace(made, sets=(result,)), tmp_path / "trend")[0])


def test_first_night_has_one_sign_and_no_charts(tmp_path: Path) -> None:
    page = make(tmp_path, "inconclusive")
    text = page.read_text("utf-8")
    assert len(re.findall(r'<li><a href="#past-', text)) == 1
    assert "This is the first nightly run of the plan" in text
    assert 'class="canvas"' not in text


def test_thirty_nights_can_be_followed(tmp_path: Path) -> None:
    page = make(tmp_path, "pass", 30)
    text = page.read_text("utf-8")
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    links = re.findall(r'href="([^"]+)"', text)
    assert {link for link in links if link.startswith("#") and link[1:] not in ids} == set()
    others = [link for link in links if not link.startswith("#")]
    # All but this one, and but the pages that were not written.
    assert len(others) == 29
    assert {(page.parent / link).parent.is_dir() for link in others} == {True}
    states = re.findall(r'<li><a href="#past-[^"]+"(?: aria-current="page")? class="(\w+)( stepped)?"', text)
    assert [state for state, _ in states].count("pass") == 28
    assert states[9] == ("error", "")
    assert states[STEP_AT] == ("fail", " stepped")


def test_step_says_levels_and_what_else_changed(tmp_path: Path) -> None:
    words = _words(make(tmp_path, "pass", 30))
    for name in SETS:
        assert f"2026-10-25 Success@6 of tier_quota_v1 in {name} 61.0 % to 52.7 %" in words
    assert "What else changed after 2026-10-24 commit a1b2c3d4e5f6 -> b2c3d4e5f607 code codeFalse -> codeTrue" in words
    assert "Levels 61.0 % from 2026-10-05 to 2026-10-24 52.7 % from 2026-10-25 to 2026-11-03" in words
    assert "Success@6 of tier_quota_v1 in operators 52.7 % 2026-10-25" in words


def test_night_without_measures_is_in_the_history(tmp_path: Path) -> None:
    """A replay that differs from itself adds nothing to the store."""
    page = make(tmp_path, "error", 5)
    past = past_of(tmp_path / "trend", "mine", page.parent)
    assert [night.status for night in past.shown] == ["pass"] * 4 + ["error"]
    assert "nondeterministic" in past.shown[-1].failing[0]
    assert {line.arm for line in past.series} == set(ARMS)


def test_history_is_of_the_plan_alone(tmp_path: Path) -> None:
    page = make(tmp_path, "pass", 2)
    other = page.parents[1] / "2026-10-01-ffffffff"
    other.mkdir()
    (other / "nightly.json").write_text((page.parent / "nightly.json").read_text().replace('"mine"', '"other"'))
    damaged = page.parents[1] / "2026-10-02-ffffffff"
    damaged.mkdir()
    (damaged / "nightly.json").write_text("{")
    assert [night.date for night in past_of(tmp_path / "trend", "mine", page.parent).shown] == [
        "2026-10-05",
        "2026-10-06",
    ]
    assert past_of(None, "other", page.parent).shown[0].status == "pass"


def test_conversations_apart_say_why_nothing_is_compared(tmp_path: Path) -> None:
    row = {"conversation": "new", "what": "added", "turns": "2", "recalls": 1}
    means = {"hybrid": {"RepeatRate": None, "R@6": None, "InjectedChars": 700.0}}
    since, copied = "the snapshot 2026-11-20", "2026-11-23 14:03:05 UTC"
    apart = Apart(since, (row, {"conversation": "old", "what": "removed", "turns": "6"}), (), means, copied=copied)
    same = Line(AGAIN, "receipts", PASS, True, "two replays gave the same 2 receipts", n=2)
    verdict = Verdict("mine/host", "as approved", "sets/host/run", "host", None, PASS, (same,))
    host = SetResult("host", verdict, None, None, None, {}, ("R@6", "RepeatRate", "InjectedChars"), apart)
    out = tmp_path / "nightly" / "2026-11-23-0a1b2c3d"
    out.mkdir(parents=True)
    page, markdown = write_pages(NightlyRun("mine", "", "2026-11-23", out, None, (host,), tmp_path), None)
    text = markdown.read_text("utf-8")
    assert "| new | added | 2 | 1 | nothing: first nightly run with it | – |" in text
    assert "| old | removed | 6 | – | – | – |" in text
    for words in (_words(page), " ".join(text.split())):
        assert f"Copy of the home taken {copied}; the same command again" in words
        assert "RepeatRate, apart: where there is no value, there were too few recalls" in words
        assert "R@6, apart: where there is no value, no recall could be measured or judged." in words
