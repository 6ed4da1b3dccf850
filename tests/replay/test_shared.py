"""A shared retriever that raises fails the recalls of the arms that share it, and of no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.recordings.model import Memory, Recording, Turn
from lab.retrieval.faults import FaultPlan
from lab.systems.contract import ArmInfo, Ask, MemorySystem, Recall
from lab.systems.kit import Kit
from tests.playing import arms_named, played

TURNS = tuple(Turn(f"c/s/{seq}", seq, "s", "user", f"plums {seq}", 1000 + seq) for seq in range(4))
MEMORIES = (
    Memory("c/s#0", "plums are blue", "plums are blue", 0, 1, visible_until=2),
    Memory("c/s#1", "plums are ripe", "plums are ripe", 1, 2),
)
RECORDING = Recording("c", TURNS, MEMORIES)
STAGES = ("open_retriever", "retriever.expect", "retriever.observe", "retriever.forget", "retrieve", "close")


def error_of(error: Exception | None) -> Exception:
    """Raise an error, by default a LabError from code of the lab."""
    if error is None:
        FaultPlan(("nonsense",)).check()
    return error or AssertionError("it should have been raised")


class Finding:
    """Raises in one of its calls: in ``retrieve`` at one turn, in others at every call."""

    def __init__(self, stage: str, error: Exception | None) -> None:
        self.stage, self.error = stage, error

    def observe(self, memories: Sequence[Memory]) -> None:
        self._did("retriever.observe", born=memories[0].key == "c/s#1")

    def forget(self, keys: Sequence[str]) -> None:
        self._did("retriever.forget")

    def expect(self, texts: Sequence[str]) -> None:
        self._did("retriever.expect")

    def retrieve(self, ask: Ask) -> str:
        self._did("retrieve", born=ask.turn == "c/s/1")
        return ask.turn

    def close(self) -> None:
        self._did("close")

    def _did(self, stage: str, *, born: bool = True) -> None:
        if stage == self.stage and born:
            raise error_of(self.error)


@dataclass(frozen=True)
class Sharing:
    stage: str
    name: str
    error: Exception | None = field(default_factory=lambda: RuntimeError("words of a memory"))

    def describe(self) -> ArmInfo:
        return ArmInfo(self.name, "sharing", 6, 6)

    def open(self, kit: Kit) -> System:
        return System(self)


class System(MemorySystem):
    def __init__(self, arm: Sharing) -> None:
        self.arm = arm
        self.retrieval_key: str | None = "plums"

    def open_retriever(self) -> Finding:
        if self.arm.stage == "open_retriever":
            raise error_of(self.arm.error)
        return Finding(self.arm.stage, self.arm.error)

    def select(self, ask: Ask, result: str) -> Recall:
        if self.arm.stage == "other key":
            self.retrieval_key = "pears"
        return Recall(context=result)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("stage", "failed"),
    [
        ("open_retriever", [0, 1, 2, 3]),
        ("retriever.expect", [0, 1, 2, 3]),
        ("retriever.observe", [1, 2, 3]),
        ("retriever.forget", [2, 3]),
        ("retrieve", [1]),
        ("close", []),
    ],
)
def test_shared_search_exception_fails_every_sharing_arm(stage: str, failed: list[int]) -> None:
    result = played(RECORDING, [Sharing(stage, "one"), *arms_named("recency"), Sharing(stage, "two")])
    for arm in ("one", "two"):
        mine = [one for one in result if one.arm == arm]
        assert [at for at, one in enumerate(mine) if one.failure] == failed
        assert {(one.failure.kind, one.failure.stage) for one in mine if one.failure} <= {("RuntimeError", stage)}
        assert [one.recall.context for one in mine if not one.failure] == [
            turn.key for at, turn in enumerate(TURNS) if at not in failed
        ]
    assert {one.recall.status for one in result if one.arm == "recency"} == {"ok"}
    assert "words" not in str([one.failure for one in result])


@pytest.mark.parametrize("stage", STAGES)
def test_shared_search_lab_error_is_raised_again(stage: str) -> None:
    with pytest.raises(UnusableInput, match="unknown fault 'nonsense'"):
        played(RECORDING, [Sharing(stage, "one", None)])


def test_shared_search_changed_key_is_refused() -> None:
    result = played(RECORDING, [Sharing("other key", "one")])
    assert [str(one.failure) if one.failure else None for one in result] == [
        None,
        *["other_retrieval_key in retrieval_key"] * 3,
    ]
