"""Systems that raise or break the contract: failures with kind, stage and position, without messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.golden.model import Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.guarded import Failure
from lab.replay.loop import Answered, TurnWrites
from lab.replay.receipts import latency_table, receipts_table
from lab.retrieval.faults import FaultPlan
from lab.systems.contract import ArmInfo, Ask, Item, MemorySystem, Recall, Stored, Writes
from lab.systems.fixed import FixedArm, recall_of
from lab.systems.kit import Kit
from tests.playing import arms_named, keys_of, played

TURNS = tuple(Turn(f"c/s/{seq}", seq, "s", "user", f"plums {seq}", 1000 + seq) for seq in range(4))
MEMORIES = (
    Memory("c/s#0", "plums are blue", "plums are blue", 0, 1, visible_until=2),
    Memory("c/s#1", "plums are ripe", "plums are ripe", 1, 2),
    Memory("c/s#2", "plums are gone", "plums are gone", 3, 3),
)
RECORDING = Recording("c", TURNS, MEMORIES)
AFTER = Probe("c/after", "c", None, "plums", (Judgement("c/s#1"),))
SECRET = "hunter2 said to nobody"
HERE = __name__


def item(key: str) -> Item:
    return Item(key, SECRET)


@dataclass(frozen=True)
class RaisingArm:
    """Raises an error in one call, at a given turn if the call has one."""

    stage: str
    error: Exception = field(default_factory=lambda: ValueError(SECRET))
    at: int = 1
    name: str = "raising"
    writes: bool = False

    def describe(self) -> ArmInfo:
        return ArmInfo(self.name, "raising", 6, 6, writes=self.writes)

    def open(self, kit: Kit) -> MemorySystem:
        if self.stage == "open":
            raise self.error
        return Raising(self, kit)


class Raising(MemorySystem):
    def __init__(self, arm: RaisingArm, kit: Kit) -> None:
        self.arm, self.kit, self.closed = arm, kit, 0

    def _called(self, stage: str, seq: int) -> None:
        if self.arm.stage == stage and seq == self.arm.at:
            raise self.arm.error

    def remember(self, memories: Sequence[Memory]) -> None:
        self._called("remember", memories[0].visible_from)

    def forget(self, keys: Sequence[str]) -> None:
        self._called("forget", self.arm.at)

    def recall(self, ask: Ask) -> Recall:
        self._called("recall", self.kit.clock.now_ms - 1000)
        return Recall(context="nothing")

    def observe(self, turn: Turn) -> Writes:
        self._called("observe", turn.seq)
        return Writes()

    def close(self) -> None:
        self._called("close", self.arm.at)


def failures(result: Sequence[Answered], arm: str = "raising") -> list[str | None]:
    return [str(one.failure) if one.failure else None for one in result if one.arm == arm]


def place_of(failure: Failure | None) -> str:
    assert failure is not None
    return failure.place


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("stage", "failed"),
    [
        # Failed recall points: 0 to 3 are turns, 4 is a probe. An error outside of a recall fails all later ones.
        ("open", [0, 1, 2, 3, 4]),
        ("remember", [1, 2, 3, 4]),
        ("forget", [2, 3, 4]),
        ("observe", [2, 3, 4]),
        ("recall", [1]),
        ("close", []),
    ],
)
def test_seat_exception_fails_its_arm_only(stage: str, failed: list[int]) -> None:
    result = played(RECORDING, [RaisingArm(stage), *arms_named("recency")], [AFTER])
    mine = [one for one in result if one.arm == "raising"]
    assert [at for at, one in enumerate(mine) if one.failure] == failed
    for one in mine:
        if not one.failure:
            assert (one.recall.status, one.recall.context) == ("ok", "nothing")
            continue
        assert (one.failure.kind, one.failure.stage) == ("ValueError", stage)
        module, _, line = one.failure.place.rpartition(":")
        assert module == HERE
        assert "raise self.arm.error" in _line(line) or (stage == "open" and "raise self.error" in _line(line))
        assert str(one.failure) == f"ValueError in {stage} at {one.failure.place}"
        assert (one.recall.status, one.recall.items, one.recall.injected, one.recall.context) == ("failed", (), 0, "")
        assert one.recall.receipt == {"failed": one.failure._asdict()}
    theirs = [one for one in result if one.arm == "recency"]
    assert {answer.recall.status for answer in theirs} == {"ok"}
    assert [keys_of(their) for their in theirs] == [["c/s#0"], ["c/s#1", "c/s#0"], ["c/s#1"], *[["c/s#2", "c/s#1"]] * 2]


def _line(number: str) -> str:
    return Path(__file__).read_text("utf-8").splitlines()[int(number) - 1]


class AskingTheLab(RaisingArm):
    """Calls code of the lab that raises a LabError."""

    error = property(lambda self: FaultPlan(("nonsense",)).check(), lambda self, value: None)  # type: ignore[assignment]  # a field there


@pytest.mark.parametrize("stage", ["open", "remember", "observe", "forget", "recall", "close"])
def test_seat_lab_error_is_raised_again(stage: str) -> None:
    with pytest.raises(UnusableInput, match="unknown fault 'nonsense'"):
        played(RECORDING, [AskingTheLab(stage)], [AFTER])


def test_seat_lab_error_raised_by_a_system_is_a_failure() -> None:
    result = played(RECORDING, [RaisingArm("recall", CannotMeasure(SECRET))], [AFTER])
    assert [one.failure.kind for one in result if one.failure] == ["CannotMeasure"]


def test_seat_keyboard_interrupt_is_raised_again() -> None:
    class Stopped(RaisingArm):
        def open(self, kit: Kit) -> MemorySystem:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        played(RECORDING, [Stopped("open")], [AFTER])


def broken(answer: Recall, *, at: int = 1, cutoff: int = 6, **changes: Any) -> list[Answered]:
    arm = FixedArm("raising", {f"c/s/{at}": answer}, cutoff=cutoff, **changes)
    return played(RECORDING, [arm], [AFTER])


@pytest.mark.parametrize(
    ("at", "answer", "kind"),
    [
        (1, recall_of(item("c/s#1"), item("nowhere")), "unknown_item"),
        # Also below the injected items, because rankings are measured.
        (1, recall_of(item("c/s#1"), item("nowhere"), injected=1), "unknown_item"),
        (1, recall_of(item("c/s#2")), "item_not_there"),
        (2, recall_of(item("c/s#0")), "item_not_there"),
        (1, Recall(pinned=("c/s#2",)), "item_not_there"),
        (1, Recall(pinned=("nowhere",)), "unknown_item"),
        (1, replace(recall_of(item("c/s#1")), injected=2), "injected_out_of_range"),
        (1, replace(recall_of(item("c/s#1")), injected=-1), "injected_out_of_range"),
        (1, recall_of(*[item("c/s#0")] * 3), "too_many_items"),
        (1, None, "no_recall"),
        (1, {"items": []}, "no_recall"),
    ],
)
def test_seat_breach_of_contract_fails_only_that_recall(at: int, answer: Any, kind: str) -> None:
    result = broken(answer, at=at, cutoff=2)
    assert failures(result) == [f"{kind} in recall" if turn == at else None for turn in range(5)]
    assert [one.recall.status for one in result] == ["failed" if turn == at else "ok" for turn in range(5)]
    assert place_of(result[at].failure) == ""


def test_seat_visible_memory_may_be_returned() -> None:
    said = {
        f"c/s/{at}": recall_of(*map(item, keys)) for at, keys in enumerate((["c/s#0"], ["c/s#1", "c/s#0"], ["c/s#1"]))
    }
    result = played(RECORDING, [FixedArm("raising", said, recall_of(item("c/s#2")))], [AFTER])
    assert failures(result) == [None] * 5
    # The maximum number injected, with more in the ranking.
    assert failures(broken(recall_of(item("c/s#0"), item("c/s#1"), injected=1), cutoff=1)) == [None] * 5
    assert failures(broken(recall_of(*[item("c/s#0")] * 2)))[1] == "item_twice in recall"
    assert failures(broken(Recall((item("c/s#0"),), 1)))[1] == "nothing_injected in recall"


class Promising(FixedArm):
    """Declares no maximum number of items."""

    def describe(self) -> ArmInfo:
        return replace(super().describe(), at_most=None)


def test_seat_arm_without_item_limit_may_inject_any_number() -> None:
    arm = Promising("raising", {"c/s/1": recall_of(item("c/s#0"), item("c/s#1"))}, cutoff=1)
    assert failures(played(RECORDING, [arm])) == [None] * 4


CREATED = Stored("own", SECRET, ("c/s/1",))


@pytest.mark.parametrize(
    ("writes", "kind"),
    [
        ({1: Writes(created=(CREATED, CREATED))}, "created_twice"),
        ({0: Writes(created=(CREATED,)), 1: Writes(created=(CREATED,))}, "created_twice"),
        ({1: Writes(updated=(CREATED,))}, "updated_unknown"),
        ({1: Writes(deleted=("own",))}, "deleted_unknown"),
        ({1: Writes(created=(CREATED,), deleted=("own", "own"))}, "deleted_unknown"),
        # A system may not update given memories, even if it knows their keys.
        ({1: Writes(deleted=("c/s#1",))}, "deleted_unknown"),
    ],
)
def test_seat_invalid_writes_break_the_system(writes: dict[int, Writes], kind: str) -> None:
    wrote: list[TurnWrites] = []
    arm = FixedArm("raising", writes={f"c/s/{at}": one for at, one in writes.items()})
    result = played(RECORDING, [arm], [AFTER], source="captured", on_writes=wrote.append)
    assert failures(result) == [None, None, *[f"{kind} in observe"] * 3]
    # Only valid writes are reported.
    assert [one.turn.seq for one in wrote] == [at for at in writes if at < 1]


def test_seat_written_items_may_be_returned_updated_and_deleted() -> None:
    changed = Stored("own", "plums are sweet", ("c/s/2",))
    writes = {
        "c/s/0": Writes(created=(CREATED,)),
        "c/s/1": Writes(updated=(changed,)),
        "c/s/2": Writes(deleted=("own",)),
        "c/s/3": Writes(created=(CREATED,)),
    }
    arm = FixedArm("raising", otherwise=recall_of(item("own")), writes=writes)
    wrote: list[TurnWrites] = []
    result = played(RECORDING, [arm], [AFTER], source="captured", on_writes=wrote.append)
    # Not before it was written, nor after it was deleted; valid again once created anew.
    assert failures(result) == ["unknown_item in recall", None, None, "unknown_item in recall", None]
    assert [one.visible for one in result] == [0, 1, 1, 0, 1]
    assert [(one.arm, one.turn.key, one.writes, one.context) for one in wrote] == [
        ("raising", "c/s/0", writes["c/s/0"], ""),
        ("raising", "c/s/1", writes["c/s/1"], SECRET),
        ("raising", "c/s/2", writes["c/s/2"], SECRET),
        ("raising", "c/s/3", writes["c/s/3"], ""),
    ]


def test_seat_capturing_system_may_not_return_given_memories() -> None:
    arm = FixedArm("raising", {"c/s/1": recall_of(item("c/s#1"))}, writes={"c/s/3": Writes(created=(CREATED,))})
    result = played(RECORDING, [arm], source="captured")
    assert failures(result) == [None, "item_not_there in recall", None, None]


@pytest.mark.parametrize("source", ["given", "tools"])
def test_seat_fed_system_may_not_write(source: Any) -> None:
    arm = FixedArm("raising", writes={"c/s/1": Writes(created=(CREATED,))})
    result = played(RECORDING, [arm], [AFTER], source=source)
    assert failures(result) == [None, None, *["captured_what_was_given in observe"] * 3]
    # The same holds for writes during a recall.
    recalling = FixedArm("raising", {"c/s/1": Recall(writes=Writes(created=(CREATED,)))})
    result = played(RECORDING, [recalling], [AFTER], source=source)
    assert failures(result) == [None, "captured_what_was_given in recall", None, None, None]


def test_seat_write_at_a_probe_is_refused() -> None:
    writing = Recall(writes=Writes(created=(CREATED,)))
    arm = FixedArm("raising", {"c/after": writing}, writes={"c/s/0": Writes(created=(Stored("one", "x"),))})
    result = played(RECORDING, [arm], [AFTER], source="captured")
    assert failures(result) == [None] * 4 + ["trace_of_a_probe in recall"]
    # A recall at a turn may write, once.
    arm = FixedArm(
        "raising", {"c/s/1": writing, "c/s/2": writing}, writes={"c/s/0": Writes(created=(Stored("one", "x"),))}
    )
    wrote: list[TurnWrites] = []
    result = played(RECORDING, [arm], [AFTER], source="captured", on_writes=wrote.append)
    assert failures(result) == [None, None, "created_twice in recall", None, None]
    assert [(one.turn.key, one.writes.created[0].id) for one in wrote] == [("c/s/0", "one"), ("c/s/1", "own")]


def columns(result: Sequence[Answered]) -> str:
    tables = (receipts_table(result, RECORDING, {}), latency_table(result))
    return json.dumps([table.to_pylist() for table in tables])


BREAKS: list[Callable[[], list[Answered]]] = [
    *(partial(played, RECORDING, [RaisingArm(stage)], [AFTER]) for stage in ("open", "observe", "recall")),
    lambda: broken(recall_of(item("nowhere"))),
    lambda: played(RECORDING, [FixedArm("raising", writes={"c/s/1": Writes(updated=(CREATED,))})], source="captured"),
]


@pytest.mark.parametrize("breaks", BREAKS)
def test_seat_exception_message_is_in_no_receipt(breaks: Callable[[], list[Answered]]) -> None:
    result = breaks()
    said = columns(result)
    assert SECRET not in said
    assert "hunter2" not in repr([one.failure for one in result])
    rows = receipts_table(result, RECORDING, {}).to_pylist()
    failed = [row for row in rows if row["status"] == "failed"]
    assert failed
    assert all(row["failure"] in failures(result) for row in failed)
    assert [row["failure"] is None for row in rows] == [row["status"] != "failed" for row in rows]
    assert {(row["injected"], row["chars"], len(row["item_key"]), row["hard_rules"]) for row in failed} == {
        (0, 0, 0, 0)
    }


def test_seat_scratch_folder_is_private_and_removed() -> None:
    folders: list[Path] = []

    class Scratching(RaisingArm):
        def open(self, kit: Kit) -> MemorySystem:
            (kit.scratch / "kept.txt").write_text("x")
            folders.append(kit.scratch)
            return Raising(self, kit)

    played(RECORDING, [Scratching("close", name="one"), Scratching("none", name="two")])
    assert len(set(folders)) == 2
    assert [folder.exists() for folder in folders] == [False, False]
