"""The accessibility of the pages of nightly runs and canaries, as axe-core sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.extras.conftest import Serious
from tests.report.nightly_states import make


@pytest.mark.parametrize("state", ["pass", "fail", "inconclusive", "error"])
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_nightly_page_has_no_serious_finding(
    browser: Any,
    serious: Serious,
    state: str,
    width: int,
    dark: bool,
    tmp_path: Path,
) -> None:
    page = make(tmp_path, state, 24)
    assert serious(page.as_uri(), width, dark=dark) == []
    assert browser.ask("document.documentElement.scrollWidth") <= width
