"""axe-core, and what it finds on a page.

axe-core is no dependency of the project. To run these tests: ``npm install axe-core`` in a folder, and ``AXE_CORE`` set
to its ``axe.min.js``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Serious = Callable[..., list[list[str]]]
SERIOUS = ("serious", "critical")
RUN = """axe.run(document, { resultTypes: ["violations"] }).then(found => found.violations.map(
    one => [one.id, one.impact, one.nodes[0].html.slice(0, 200)]))"""
OPEN_DETAILS = "document.querySelectorAll('details').forEach(one => { one.removeAttribute('name'); one.open = true; })"


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    path = os.environ.get("AXE_CORE")
    if not path or not Path(path).is_file():
        pytest.skip("axe-core is not at hand: npm install axe-core, and set AXE_CORE to its axe.min.js")
    return Path(path).read_text("utf-8")


@pytest.fixture
def serious(browser: Any, axe: str) -> Serious:
    """Opens an address with all details open; returns the serious findings: rule, impact and element."""

    def find(address: str, width: int, *, dark: bool) -> list[list[str]]:
        browser.open(address, width=width, dark=dark)
        browser.ask(OPEN_DETAILS)
        browser.ask(f"{axe};0")
        found = browser("Runtime.evaluate", expression=RUN, awaitPromise=True, returnByValue=True)["result"]["value"]
        return [violation for violation in found if violation[1] in SERIOUS]

    return find
