"""The study of growth: its fit, and inputs that the lab reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from growth import SERIES, Desk, Shipped, exponent

from lab.recordings.model import equal_conversations
from lab.replay.plan import make_plan
from lab.runs.request import ReplayRequest

SIZES = (86, 1_022, 10_011, 100_049)


@pytest.mark.parametrize("power", [1, 1.5, 2])
def test_exponent_leaves_out_what_the_smallest_size_takes(power: float) -> None:
    costs = [(size, 3 + 0.01 * size**power) for size in SIZES]
    assert exponent(costs) == pytest.approx(power, abs=0.05)


def test_exponent_of_costs_that_hardly_grow_is_none() -> None:
    assert exponent([(size, 3 + size / 1e5) for size in SIZES]) is None


def test_recordings_of_the_study_are_read_and_no_copies(tmp_path: Path) -> None:
    count = Shipped().recordings(4_000, tmp_path)
    golden = str(tmp_path / "golden")
    plan = make_plan(ReplayRequest(str(tmp_path / "set"), "lab", ("bm25",), golden=golden, embedder="hashing"))
    assert sum(len(recording.turns) for recording in plan.recordings) == count
    assert abs(count - 4_000) < 60
    assert len(plan.recordings) > 38
    assert equal_conversations(plan.recordings) == []
    assert all(map(plan.probes, plan.recordings))


@pytest.mark.process
def test_commands_over_lines_run_on_the_smallest_input(tmp_path: Path) -> None:
    (lines,) = (series for series in SERIES if series.counted == "lines")
    lines.make(Shipped(), 100, tmp_path)
    assert all(work(Desk(tmp_path, 100)).seconds > 0 for work in lines.commands.values())
