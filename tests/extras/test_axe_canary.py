"""The accessibility of the page of a canary, as axe-core sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.base.shape import deep_merge
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.report.canary import write_page
from tests.extras.conftest import Serious
from tests.gate.conftest import audit, run

__all__ = ["audit", "run"]

# The errors among 400 recalls that lead to each verdict; none of the keys leaves the audit as it is.
STATES: dict[str, dict[str, Any]] = {
    "pass": {},
    "fail": {"errors": {"attempts": 400, "rate": 0.1}},
    "inconclusive": {"errors": {"attempts": 400, "rate": 0.0175}},
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_canary_page_has_no_serious_finding(
    browser: Any,
    serious: Serious,
    audit: dict[str, Any],
    state: str,
    width: int,
    dark: bool,
    tmp_path: Path,
) -> None:
    seen = deep_merge(audit, STATES[state])
    verdict = judge(read_policy("stage-b"), audit=seen)
    assert verdict.status == state
    page = write_page(verdict, seen, tmp_path, audit)
    assert serious(page.as_uri(), width, dark=dark) == []
    assert browser.ask("document.documentElement.scrollWidth") <= width
