"""The page of a league in a browser: one script, allowed by its hash, that sorts; no requests, no overflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.report.league import write_page
from lab.studies.league.contest import Against, Contest
from lab.studies.league.league import League, Standing
from lab.studies.league.table import Cell, Row

ATTACK = "<script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=\"document.title='owned'\">"
ARMS = {"bm25": (0.5, 0.25), "hybrid": (0.6, 0.2), f"own {ATTACK}": (0.1, 0.9)}
BUDGETS = (128, 256)


def rows(set_name: str) -> tuple[Row, ...]:
    return tuple(
        Row(
            set_name,
            arm,
            budget,
            8,
            {
                "hit": Cell(hit, 90, hit - 0.1, hit + 0.1),
                **({"whole": Cell(hit, 90)} if budget else {}),
                "RepeatRate": Cell(again, 80),
                "tokens": Cell((budget or 300) - 5.0, 90),
                "items": Cell(4.5, 90),
            },
        )
        for budget in (None, *BUDGETS)
        for arm, (hit, again) in ARMS.items()
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league with an arm and a set whose names would like to be markup."""
    against = tuple(Against(arm, hit, 0.6 - hit, 0.01, 0.2, 0.04, arm != "bm25") for arm, (hit, _) in ARMS.items())
    contests = tuple(
        Contest("s", tokens, "whole", "hybrid", Cell(0.6, 90, 0.5, 0.7), 8, against, 3) for tokens in BUDGETS
    )
    standings = (
        *(Standing(arm, arm, "ranked") for arm in ARMS),
        Standing("lost", "x", "refused", f"embedder: {ATTACK}"),
    )
    league = League({"s": ATTACK}, BUDGETS, standings, (), rows("s"), (), contests, (), "given", ("a trial",), ATTACK)
    return write_page(league, tmp_path_factory.mktemp("league"))[0]


def test_league_page_runs_its_own_script_only(browser: Any, page: Path) -> None:
    browser.open(page.as_uri())
    assert browser.asked == [page.as_uri()]
    assert browser.said == []
    assert browser.ask("document.title") == "League of memory systems (trial)"
    assert browser.ask("document.scripts.length") == 1
    assert browser.ask("document.images.length + document.querySelectorAll('[onerror]').length") == 0
    stopped = "const one = document.createElement('script'); one.textContent = \"document.title='owned'\"; "
    browser.ask(f"{{ {stopped} document.body.append(one); }}")
    assert browser.ask("document.title") == "League of memory systems (trial)"


def test_league_table_sorts_by_the_pressed_column(browser: Any, page: Path) -> None:
    browser.open(page.as_uri())
    table = "[...document.querySelectorAll('#tables table')][0]"
    first = f"[...{table}.tBodies[0].rows].map(row => row.cells[0].textContent.slice(0, 6))"
    assert browser.ask(first) == ["hybrid", "bm25", "own <s"]
    press = f"[...{table}.querySelectorAll('thead button')].find(one => one.textContent === 'RepeatRate').click()"
    browser.ask(press)
    assert browser.ask(first) == ["own <s", "bm25", "hybrid"]
    assert browser.ask(f"{table}.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending"
    browser.ask(press)
    assert browser.ask(first) == ["hybrid", "bm25", "own <s"]
    assert browser.ask(f"{table}.querySelectorAll('[aria-sort]').length") == 1


def test_league_table_sorts_a_column_of_words(browser: Any, page: Path) -> None:
    browser.open(page.as_uri())
    table = "document.querySelector('#arms table')"
    browser.ask(f"[...{table}.querySelectorAll('thead button')].find(one => one.textContent === 'takes part').click()")
    column = f"[...{table}.tHead.rows[0].cells].findIndex(head => head.ariaSort)"
    words = browser.ask(f"[...{table}.tBodies[0].rows].map(row => row.cells[{column}].textContent)")
    assert len(set(words)) > 1
    assert words == sorted(words, reverse=True)


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, False), (1280, True)])
def test_league_page_has_no_overflow(browser: Any, page: Path, width: int, dark: bool) -> None:
    browser.open(page.as_uri(), width=width, dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    beyond = """[...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll, pre, .skip')
        && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.tagName)"""
    assert browser.ask(beyond) == []
    names = browser.ask("[...document.querySelectorAll('thead button')].filter(one => !one.textContent.trim()).length")
    assert names == 0
    # On a narrow screen each cell is named by its column.
    unnamed = browser.ask("[...document.querySelectorAll('.wide td')].filter(one => !one.dataset.head).length")
    assert (browser.ask("document.querySelectorAll('.wide td').length") > 0, unnamed) == (True, 0)


def test_league_tables_are_whole_without_the_script(browser: Any, page: Path) -> None:
    browser.open(page.as_uri(), scripts=False)
    assert browser.ask("document.querySelectorAll('thead button').length") == 0
    rows = "[...document.querySelectorAll('#tables table')].map(table => table.tBodies[0].rows.length)"
    assert browser.ask(rows) == [len(ARMS)] * (1 + len(BUDGETS))
    names = "[...document.querySelectorAll('#tables table')][0].tBodies[0].rows[0].cells[0].textContent"
    assert browser.ask(names) == "hybrid"
