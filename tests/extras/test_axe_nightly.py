"""The accessibility of the pages of nightly runs and canaries, as axe-core sees it; see ``test_axe``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.extras.test_axe import RUN, SERIOUS, axe
from tests.report.nightly_states import make

__all__ = ["axe"]


@pytest.mark.parametrize("state", ["pass", "fail", "inconclusive", "error"])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_nightly_page_has_no_serious_finding(
    browser: Any,
    axe: str,
    state: str,
    width: int,
    dark: bool,
    tmp_path: Path,
) -> None:
    page = make(tmp_path, state, 24)
    browser.open(page.as_uri(), width=width, dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    browser.ask(f"{axe};0")
    found = browser("Runtime.evaluate", expression=RUN, awaitPromise=True, returnByValue=True)["result"]["value"]
    assert [one for one in found if one[1] in SERIOUS] == []
