"""Grading thresholds: every point is a replay that could have been run by itself, with the labels of that grade."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.cli.main import app
from lab.measures.score import score_run, summarise
from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.runs.tables import read_table, write_points
from lab.studies.governance import MUST_FROM, Grading, governance
from lab.studies.points import POLICIES, distinct, grading_finding
from lab.studies.points import GovernancePoint as Point

FEW = ("harbor-release", "juniper-clinic", "tea-mountain")
SMALL: dict[str, Any] = {"embedder": "hashing", "conversation": FEW, "haystack": 50}


@pytest.fixture(scope="module")
def asked(operators: Path) -> ReplayRequest:
    return ReplayRequest(str(operators), "lab", (), categories="detected", **SMALL)


@pytest.fixture(scope="module")
def points(asked: ReplayRequest) -> list[Point]:
    return governance(asked, graders=("heuristic-v1", "category"), thresholds=(1.0, 0.8, 0.7, 0.3))


def test_the_threshold_of_the_engine_is_a_replay_with_graded_labels(
    asked: ReplayRequest, points: list[Point], tmp_path: Path
) -> None:
    plain = ReplayRequest(asked.path, "lab", (*POLICIES, "hybrid", "random"), labels="heuristic-v1", **SMALL)
    run = run_replay(plain, tmp_path / "run").run
    arms = summarise(score_run(run), read_gold(run), run.arms)["arms"]
    graded = {one.arm: one for one in points if (one.grader, one.must_from) == ("heuristic-v1", MUST_FROM)}
    for arm, point in (graded | {one.arm: one for one in points if not one.grader}).items():
        assert point.hit == pytest.approx(arms[arm]["measures"]["Success@6"], abs=1e-12)
        assert point.repeat == pytest.approx(arms[arm]["measures"]["RepeatRate"], abs=1e-12)
    plan = make_plan(plain)
    labels = [label for one in plan.recordings for label in plan.labels_of(one).values()]
    first = graded[POLICIES[0]]
    shares = [labels.count(label) / len(labels) for label in (MUST, NICE, IGNORE, UNKNOWN)]
    assert [first.must, first.nice, first.ignored, first.unknown] == pytest.approx(shares)


def test_full_counts_recalls_that_inject_must_alone(points: list[Point]) -> None:
    full = {(one.grader, one.must_from, one.arm): one.full for one in points}
    # Nothing is must_remember at 1.0 by category; at the score of decisions, the first policy injects nothing else.
    assert full["category", 1.0, POLICIES[0]] == 0.0
    assert (full["category", 0.8, POLICIES[0]] or 0) > (full["category", 0.8, POLICIES[1]] or 0)
    assert full["heuristic-v1", 0.3, POLICIES[0]] == 1.0
    assert all(one.full is None and one.must is None for one in points if not one.grader)


@pytest.mark.parametrize(
    ("score", "label"), [(None, UNKNOWN), (0.9, MUST), (0.8, MUST), (0.79, NICE), (0.5, NICE), (0.49, IGNORE)]
)
def test_labels_of_the_engine_are_the_default(score: float | None, label: str) -> None:
    assert Grading("category").label(score) == label


def test_thresholds_that_change_no_label_are_shown_once(points: list[Point]) -> None:
    shown = [one.must_from for one in distinct(points, "category") if one.arm == POLICIES[0]]
    assert shown == [1.0, 0.8, 0.7]
    assert "No threshold" in grading_finding([one for one in points if one.must_from == 1.0], "category")
    assert grading_finding(points, "category").startswith("Graded by category, tier_first_v1 is saturated from")


def test_points_come_back_from_disk(points: list[Point], tmp_path: Path) -> None:
    write_points(Point, points, tmp_path / "governance.parquet")
    assert [Point(**row) for row in read_table(tmp_path / "governance.parquet").to_pylist()] == points


@pytest.mark.parametrize(
    ("options", "said"),
    [({"graders": ("judge",)}, "--grader 'judge' is unknown"), ({"thresholds": (1.5,)}, "threshold 1.5 is not")],
)
def test_unusable_options_are_refused(asked: ReplayRequest, options: dict[str, tuple[object]], said: str) -> None:
    with pytest.raises(UnusableInput, match=said):
        governance(asked, **options)  # type: ignore[arg-type]  # wrong values are the point


def test_command_writes_table_and_chart(
    operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ("study", "governance", str(operators), "--format", "lab", "--conversation", FEW[0], "--haystack", "0")
    monkeypatch.setattr(
        sys, "argv", ["lab", *words, "--threshold", "0.8", "--jobs", "1", "--json", "--slides", "--out", str(out)]
    )
    app(standalone_mode=False)
    answer = json.loads(capsys.readouterr().out)
    assert {Path(file).suffix for file in answer["figures"]} == {".svg", ".png"}
    assert all(Path(file).stat().st_size > 1000 for file in answer["figures"])
    assert [point["arm"] for point in answer["points"]] == [*POLICIES, "hybrid", "random"]
