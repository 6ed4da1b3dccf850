"""The accessibility of the report, as axe-core sees it in a headless Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.gate.outputs import write_verdict
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.runs.request import ReplayRequest
from tests.extras.conftest import Serious


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
def test_report_has_no_serious_finding(serious: Serious, page: Path, width: int, dark: bool) -> None:
    assert serious(page.as_uri(), width, dark=dark) == []
