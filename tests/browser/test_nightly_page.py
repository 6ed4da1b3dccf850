"""The page of a nightly run in a browser: overflow is marked, and name columns stay visible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.compare.changes import ArmChanges, Changed, Changes
from lab.gate.line import FAIL, PASS, Line
from lab.gate.verdict import Verdict
from lab.nightly.nightly_run import NightlyRun, SetResult
from lab.report.nightly import write_pages

ARMS = ("tier_first_v1", "tier_quota_v1")
EVIL = "<script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A nightly run of one set whose receipts changed, with rules that say much."""
    lines = (
        Line("exact", f"{ARMS[1]} receipts", FAIL, True, f"12 of 800 receipts changed ({EVIL} {'in places ' * 30})"),
        Line("guard", f"{ARMS[1]} against {ARMS[0]} Success@6", PASS, True, "shown not to be worse " * 9),
        Line("limit", f"{ARMS[0]} Duplicates", FAIL, False, "0.3 over 800; the policy requires at most 0"),
    )
    changed = tuple(Changed("c", f"c/s{number:02}/t01", ("item_key", "chars")) for number in range(12))
    arms = tuple(ArmChanges(arm, 800, changed, {"item_key": 12, "chars": 12}) for arm in ARMS)
    exact = Changes("baselines/0123456789abcdef", "sets/own/run", arms, (), (), ("numpy 2.3.1 -> 2.3.2",))
    names = ("Success@6", "R@6", "nDCG@6", "GoldNice@6", "RepeatRate", "LongestStreak", "NicePresence")
    means = {arm: dict.fromkeys(names, 0.5) for arm in ARMS}
    verdict = Verdict("plan/own", "what it guards", "run", "own", None, FAIL, lines)
    own = SetResult("<b>own</b>", verdict, exact, exact, "0" * 64, means, names)
    folder = tmp_path_factory.mktemp("night")
    return write_pages(NightlyRun("plan", "what it guards", "2026-03-01", folder, None, (own,), folder / "baselines"))[
        0
    ]


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_nightly_page_has_no_overflow_and_keeps_names_visible(browser: Any, page: Path, width: int, dark: bool) -> None:
    browser.open(page.as_uri(), width=width, dark=dark)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("document.title") == "Nightly run of 2026-03-01: fail"
    assert browser.said == []
    assert {one for one in browser.asked if not one.startswith(("file:", "data:"))} == set()
    tables = browser.ask(
        """[...document.querySelectorAll('.scroll')].map(one => {
            one.scrollLeft = 1000;
            const name = one.querySelector('tbody th');
            return {
                beyond: one.scrollLeft, left: name.getBoundingClientRect().left - one.getBoundingClientRect().left,
                share: name.offsetWidth / one.clientWidth, is_rules: !!one.querySelector('.reasons'),
                shade: getComputedStyle(one).backgroundImage.split('linear-gradient').length - 1,
            };
        })"""
    )
    assert [(one["left"], one["shade"]) for one in tables] == [(0, 4)] * 4
    # On a phone every rule is a block of its own, and nothing scrolls.
    assert all(one["share"] < 0.6 for one in tables if not (one["is_rules"] and width == 390))
    assert any(one["beyond"] for one in tables) == (width == 390)
