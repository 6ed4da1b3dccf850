"""Sweeps refuse what they cannot do or measure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.runs.request import ReplayRequest
from lab.studies import saturation as of_saturation
from lab.studies.sweep import sweep as of_sweep
from lab.studies.sweep.grid import grid_of
from lab.studies.sweep.sweep import notes_of, sweep
from lab.systems.contract import Arm, ArmInfo, Ask, MemorySystem, Recall
from lab.systems.kit import Kit
from lab.systems.spec import ArmSpec

GRID = {"arm": "none", "grid": {"autoRecall.maxItems": [2, 4]}}


@dataclass(frozen=True)
class Raising:
    """An arm that raises at one turn, with a text of the recording in its error."""

    name: str

    def describe(self) -> ArmInfo:
        return ArmInfo(self.name, "raising", 6, 6, labelled=True)

    def open(self, kit: Kit) -> MemorySystem:
        return RaisingSystem()


class RaisingSystem(MemorySystem):
    def recall(self, ask: Ask) -> Recall:
        if ask.turn == "two-desks/s02/t01":
            raise KeyError("a word of a memory")
        return Recall()


def test_sweep_with_a_failed_recall_names_arm_turn_and_failure(
    operators: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(spec: ArmSpec) -> Arm:
        return Raising(spec.name)

    monkeypatch.setattr(of_sweep, "make_arm", make)
    asked = ReplayRequest(str(operators), "lab", (), conversation=("two-desks",), embedder="hashing")
    with pytest.raises(CannotMeasure) as caught:
        sweep(asked, grid_of(GRID, "here"), tmp_path / "sweep")
    said = str(caught.value)
    assert said.startswith("two-desks/s02/t01: arm none#0 failed: KeyError in recall at ")
    assert "a word" not in said
    assert not list((tmp_path / "sweep" / "parts").glob("*"))


def test_saturation_with_a_failed_recall_raises(operators: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = of_saturation.make_plan

    def with_raising(asked: ReplayRequest) -> object:
        from dataclasses import replace

        plan = plain(asked)
        arm = Raising("raising")
        return replace(plan, arms=(*plan.arms, arm), infos=(*plan.infos, arm.describe()))

    monkeypatch.setattr(of_saturation, "make_plan", with_raising)
    asked = ReplayRequest(str(operators / "two-desks.jsonl"), "lab", (), embedder="hashing")
    with pytest.raises(CannotMeasure, match="two-desks/s02/t01: arm raising failed: KeyError in recall"):
        of_saturation.saturation(asked, seeds=1)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"source": "captured"}, "a sweep needs given memories"),
        ({"faults": ("fts_error",)}, "does not simulate faults"),
    ],
)
def test_captured_memories_and_faults_are_refused(
    operators: Path, tmp_path: Path, asked: dict[str, object], said: str
) -> None:
    with pytest.raises(UnusableInput, match=said):
        sweep(ReplayRequest(str(operators), "lab", (), **asked), grid_of(GRID, "here"), tmp_path / "sweep")  # type: ignore[arg-type]  # options by name
    assert not (tmp_path / "sweep").exists()


def test_sweep_notes_another_embedder(operators: Path, tmp_path: Path) -> None:
    value = {**GRID, "arm": "tier_quota_v1", "config": {"embedding": {"model": "text-embedding-3-small"}}}
    asked = ReplayRequest(str(operators), "lab", (), conversation=("two-desks",), embedder="hashing")
    sweep(asked, grid_of(value, "here"), tmp_path / "sweep")
    (note,) = notes_of(tmp_path / "sweep")
    assert note.startswith("embedder: the configuration of arm tier_quota_v1 names text-embedding-3-small; ")


@pytest.mark.parametrize(
    "grid",
    [
        {"grid": {"docsColdLane.ingestOnStart": [True, False]}},
        {"grid": {"autoRecall.maxItems": [4, 5]}, "config": {"docsColdLane": {"ingestOnStart": True}}},
    ],
)
def test_sweep_of_an_unimplemented_knob_is_refused(operators: Path, tmp_path: Path, grid: dict[str, Any]) -> None:
    asked = ReplayRequest(str(operators), "lab", (), conversation=("two-desks",), embedder="hashing")
    said = r"^configuration 0 of the grid: docsColdLane.ingestOnStart: not implemented, so its value has no effect"
    with pytest.raises(UnusableInput, match=said):
        sweep(asked, grid_of(grid, "here"), tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_sweep_of_a_knob_of_capture_is_refused(operators: Path, tmp_path: Path) -> None:
    asked = ReplayRequest(str(operators), "lab", (), conversation=("two-desks",), embedder="hashing")
    value = {"grid": {"autoCapture.maxItemsPerTurn": [1, 2]}}
    with pytest.raises(UnusableInput, match=r"^grid: autoCapture.maxItemsPerTurn: a sweep replays given memories"):
        sweep(asked, grid_of(value, "here"), tmp_path / "sweep")
