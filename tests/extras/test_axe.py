"""The accessibility of the report, as axe-core sees it in a headless Chromium.

axe-core is no dependency of the project. To run this test: ``npm install axe-core`` in a folder, and ``AXE_CORE`` set
to its ``axe.min.js``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lab.gate.outputs import write_verdict
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.replay.plan import ReplayRequest
from lab.replay.run import run_replay
from lab.report.build import build_report

SERIOUS = ("serious", "critical")
RUN = """axe.run(document, { resultTypes: ["violations"] }).then(found => found.violations.map(
    one => [one.id, one.impact, one.nodes[0].html.slice(0, 200)]))"""


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core."""
    path = os.environ.get("AXE_CORE")
    if not path or not Path(path).is_file():
        pytest.skip("axe-core is not at hand: npm install axe-core, and set AXE_CORE to its axe.min.js")
    return Path(path).read_text("utf-8")


@pytest.fixture(scope="module")
def page(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a judged run over six shipped conversations, with texts."""
    arms = ("tier_first_v1", "tier_quota_v1", "hybrid", "random")
    request = ReplayRequest(str(operators), "lab", arms, embedder="hashing", scope="recorded", haystack=0)
    run = run_replay(request, tmp_path_factory.mktemp("axe") / "run").run
    write_verdict(judge(read_policy("rollout"), run), run.path)
    build_report(run, with_text=True)
    return run.path / "report.html"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_report_has_no_serious_finding(browser: Any, axe: str, page: Path, width: int, dark: bool) -> None:
    browser.open(page.as_uri(), width=width, dark=dark)
    browser.ask(
        "document.querySelectorAll('details').forEach(one => { one.removeAttribute('name'); one.open = true; })"
    )
    browser.ask(f"{axe};0")
    found = browser("Runtime.evaluate", expression=RUN, awaitPromise=True, returnByValue=True)["result"]["value"]
    assert [one for one in found if one[1] in SERIOUS] == []
