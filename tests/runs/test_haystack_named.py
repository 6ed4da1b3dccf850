"""Outputs name the memories that a replay added: in the header of a score, in the report and in its command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.report.material import source_of
from lab.runs.directory import RunDirectory
from lab.runs.manifest import Haystack, HaystackCounts
from lab.runs.request import ReplayRequest
from tests.commands import without_charts

if TYPE_CHECKING:
    from tests.runs.conftest import Lab

ADDED = "100 memories of other conversations added to each"
NONE = "no memories of other conversations added"


@pytest.fixture(scope="module")
def filled(replay_request: ReplayRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The run of the neighbouring tests with a haystack of 100."""
    request = replace(replay_request, haystack=100, arms=("tier_first_v1", "tier_quota_v1"))
    return run_replay(request, tmp_path_factory.mktemp("filled") / "run").run


def test_haystack_text_names_number_and_other_sets() -> None:
    counts = {"a": HaystackCounts(100, 0, 0, 7), "b": HaystackCounts(100, 0, 0)}
    assert str(Haystack(100, 0, counts, {"realmem": "abc"})) == f"{ADDED}, up to 7 of them from realmem"
    assert str(Haystack(100, 0, {"b": counts["b"]}, {"realmem": "abc"})) == ADDED


def test_score_begins_with_the_haystack(filled: RunDirectory, sound: RunDirectory, lab: Lab) -> None:
    for run, haystack in ((filled, ADDED), (sound, NONE)):
        printed = lab("score", run.path).out.splitlines()
        at = printed.index("3 conversations, labels recorded")
        assert printed[at + 1] == haystack
        assert printed[at + 2].startswith("arm ")


def test_report_names_the_haystack_in_run_list_and_command(filled: RunDirectory) -> None:
    # As if the default of the set had chosen it: the arguments do not name it.
    manifest = replace(filled.manifest, asked=dict(filled.manifest.asked) | {"haystack": None})
    run = RunDirectory(filled.path, manifest)
    with without_charts():
        build_report(run)
    page = (run.path / "report.md").read_text("utf-8")
    assert f"* haystack: {ADDED}" in page
    assert f"labels recorded, {ADDED}: " in page.replace("\\", "")
    assert " --haystack 100 " in page
    assert ADDED in source_of(run)
    assert ADDED in (run.path / "report.html").read_text("utf-8")
