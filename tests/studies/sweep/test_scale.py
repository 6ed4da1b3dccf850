"""``lab study scale``: one replay with haystacks of several sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, OtherArguments, UnusableInput
from lab.measures.score import score_run, summarise
from lab.report.build import build_report
from lab.runs.directory import open_run
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.runs.tables import read_table
from lab.studies.points import ScalePoint
from lab.studies.scale import Scale, scale

ARMS = ("hybrid", "random")


def scaled(path: Path, out: Path, sizes: Sequence[int], form: str = "lab", **options: Any) -> Scale:
    return scale(ReplayRequest(str(path), form, ARMS, embedder="hashing", **options), out, sizes)


@pytest.fixture(scope="module")
def shipped(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Scale, Path]:
    """Six shipped conversations, which can be given about 300 memories each."""
    out = tmp_path_factory.mktemp("scale") / "out"
    return scaled(operators, out, (100, 0, 25, 100, 6_400, 100_000)), out


def test_scale_points_are_the_means_of_its_runs(shipped: tuple[Scale, Path]) -> None:
    result, out = shipped
    assert [(point.memories, point.arm) for point in result.points] == [
        (size, arm) for size in (0, 25, 100) for arm in ARMS
    ]
    for point in result.points:
        run = open_run(out / f"haystack-{point.memories}")
        haystack = run.manifest.resolved.haystack
        assert (haystack.memories if haystack else 0) == point.memories
        means = summarise(score_run(run), read_gold(run), run.arms)["arms"][point.arm]["measures"]
        expected = tuple(means[name] for name in ("Success@6", "CleanHit@6", "RepeatRate"))
        assert (point.hit, point.clean_hit, point.repeat) == expected
        assert point.p50 is not None
        assert point.p50 > 0


def test_scale_more_memories_are_in_reach_and_random_hits_less(shipped: tuple[Scale, Path]) -> None:
    points = [point for point in shipped[0].points if point.arm == "random"]
    reach, hits = [point.in_reach or 0 for point in points], [point.hit or 0 for point in points]
    assert reach == sorted(set(reach))
    # A memory of the haystack is created at its relative position, so probes see about half of them.
    assert 0.3 * 100 < reach[2] - reach[0] < 0.9 * 100
    assert hits == sorted(set(hits), reverse=True)


def test_scale_names_sizes_that_are_not_available(shipped: tuple[Scale, Path]) -> None:
    result, out = shipped
    assert result.unavailable == (6_400, 100_000)
    assert result.most is not None
    assert 100 < result.most < 6_400
    assert result.notes()[0] == (
        f"haystack 6,400: not available (at most {result.most:,}); --haystack-from adds another set"
    )
    written = json.loads((out / "scale.json").read_bytes())
    assert (written["kind"], written["most"], written["unavailable"]) == ("lab.scale", result.most, [6_400, 100_000])
    rows = [ScalePoint(**row) for row in read_table(out / "scale.parquet").to_pylist()]
    assert tuple(rows) == result.points


def test_scale_again_keeps_receipts_and_refuses_other_arguments(shipped: tuple[Scale, Path], operators: Path) -> None:
    result, out = shipped
    before = {path: path.stat().st_mtime_ns for path in out.glob("haystack-*/receipts/*.parquet")}
    again = scaled(operators, out, (0, 25, 100))
    assert again.points == result.points
    assert {path: path.stat().st_mtime_ns for path in out.glob("haystack-*/receipts/*.parquet")} == before
    with pytest.raises(OtherArguments):
        scaled(operators, out, (25,), seed=1)


def test_report_of_a_scaled_run_has_the_chart(shipped: tuple[Scale, Path]) -> None:
    run = open_run(shipped[1] / "haystack-25")
    files = build_report(run, None, None, slides=True)
    assert run.path / "figures" / "scale.svg" in files
    assert "From 0 to 100 added memories" in (run.path / "report.html").read_text("utf-8")


def test_scale_filled_from_another_set_says_how_many(operators: Path, locomo: Path, tmp_path: Path) -> None:
    result = scaled(operators, tmp_path / "out", (25, 600), limit=1, haystack_from=(f"{locomo}:locomo",))
    assert (result.unavailable, result.sets) == ((), ("locomo5_dev",))
    assert result.filled is not None
    assert list(result.filled) == [600]
    assert 0 < result.filled[600] < 600
    assert result.notes() == [f"haystack 600: up to {result.filled[600]} of a conversation's come from locomo5_dev"]


@pytest.mark.parametrize(("form", "data"), [("realmem", "realmem"), ("locomo", "locomo")])
def test_scale_of_public_sets(form: str, data: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    result = scaled(request.getfixturevalue(data), tmp_path / "out", (0, 400), form, limit=1)
    few, many = (point for point in result.points if point.arm == "hybrid")
    assert few.hit
    assert many.hit
    # LoCoMo asks after the end, where every added memory is in reach; RealMem asks throughout.
    added = (many.in_reach or 0) - (few.in_reach or 0)
    assert added == 400 if form == "locomo" else 150 < added < 300


def test_scale_without_gold_or_sizes_is_refused(operators: Path, tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="give whole numbers from 0"):
        scaled(operators, tmp_path / "out", ())
    alone = tmp_path / "two-desks.jsonl"
    alone.write_bytes((operators / "two-desks.jsonl").read_bytes())
    with pytest.raises(UnusableInput, match="has no probe with relevant memories"):
        scaled(alone, tmp_path / "out", (0,))
    with pytest.raises(UnusableInput, match=r"no haystack is available \(at most 0\)"):
        scaled(operators / "two-desks.jsonl", tmp_path / "out", (25,))


def test_scale_with_a_failed_conversation_cannot_measure(
    operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.replay.executors.run_task", lambda task: f"{task.conversation} is broken")
    with pytest.raises(CannotMeasure, match="6 conversations failed"):
        scaled(operators, tmp_path / "out", (0,))
