"""Whether anything changed between two runs: their receipts, compared exactly.

A replay is a function of its inputs, so this needs no statistics: every column of every turn of every arm is equal, bit
for bit, or it is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.columns import codes_of, numbers
from lab.compare.comparable import require_comparable
from lab.compare.moved import moved
from lab.errors import CannotMeasure, NotComparable
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 5
# What of a receipt is what the model is told; the rest says how it came about.
RECALLED = frozenset({"item_key", "pinned", "block"})


class Changed(NamedTuple):
    """One turn whose receipts differ, and in which columns."""

    conversation: str
    turn: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmChanges:
    """One arm of both runs: turns, those that changed in the order of the run, and turns changed by column."""

    arm: str
    turns: int
    changed: tuple[Changed, ...]
    columns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything that an exact comparison found.

    ``arms`` are those of both runs, ``only_before`` and ``only_after`` those of one; ``moved`` what could explain a
    change, see :func:`lab.compare.moved.moved`.
    """

    before: str
    after: str
    arms: tuple[ArmChanges, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    moved: tuple[str, ...]

    @property
    def turns(self) -> int:
        """Turns compared, each once an arm."""
        return sum(arm.turns for arm in self.arms)

    @property
    def changed(self) -> int:
        """Turns whose receipts differ, each once an arm."""
        return sum(len(arm.changed) for arm in self.arms)

    def first(self, count: int = SHOWN) -> list[dict[str, Any]]:
        """The first changed turns, each with the command that explains it in either run; see :func:`foremost`."""
        return [
            {
                "arm": arm,
                "conversation": one.conversation,
                "turn": one.turn,
                "columns": list(one.columns),
                "explain": [join(["lab", "explain", run, one.turn, "--arm", arm]) for run in (self.before, self.after)],
            }
            for arm, one in foremost(self.arms)[:count]
        ]

    def as_json(self) -> dict[str, Any]:
        """Plain values; of changed turns the first few."""
        return {
            "before": self.before,
            "after": self.after,
            "turns": self.turns,
            "changed": self.changed,
            "arms": {
                one.arm: {"turns": one.turns, "changed": len(one.changed), "columns": dict(one.columns)}
                for one in self.arms
            },
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "first": self.first(),
            "moved": list(self.moved),
        }


def foremost(arms: Iterable[ArmChanges]) -> list[tuple[str, Changed]]:
    """The changed turns of some arms: those that recall something else before those told otherwise alone."""
    found = [(arm.arm, one) for arm in arms for one in arm.changed]
    return sorted(found, key=lambda one: RECALLED.isdisjoint(one[1].columns))


def changes(before: RunDirectory, after: RunDirectory) -> Changes:
    """Compare the receipts of two runs exactly, all columns, arm by arm.

    Raises :class:`NotComparable` where the runs differ in recordings, gold or turns, have no arm in common, or their
    receipts are of different versions, and :class:`lab.errors.CannotMeasure` for a file that is damaged.
    """
    require_comparable(before, after)
    for run in (before, after):
        run.require_done()
    both = [arm for arm in before.arms if arm in after.arms]
    if not both:
        raise NotComparable(f"{before.path} and {after.path} cannot be compared: they have no arm in common")
    turns, found = Counter[str](), {arm: list[Changed]() for arm in both}
    for conversation in before.conversations:
        for arm, turn, columns in _of_conversation(before, after, conversation, both, turns):
            found[arm].append(Changed(conversation, turn, columns))
    arms = tuple(
        ArmChanges(arm, turns[arm], tuple(some), dict(Counter(column for one in some for column in one.columns)))
        for arm, some in found.items()
    )
    return Changes(
        str(before.path),
        str(after.path),
        arms,
        tuple(arm for arm in before.arms if arm not in both),
        tuple(arm for arm in after.arms if arm not in both),
        moved(before.manifest, after.manifest),
    )


def _of_conversation(
    before: RunDirectory, after: RunDirectory, conversation: str, arms: Sequence[str], turns: Counter[str]
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Arm, turn and columns of each row that differs; ``turns`` counts the rows of each arm."""
    paths = [run.receipts(conversation) for run in (before, after)]
    left, right = (_rows_of(run.read_receipts(conversation), arms) for run in (before, after))
    versions = [(table.schema.metadata or {}).get(b"schema_version", b"none").decode() for table in (left, right)]
    if versions[0] != versions[1] or left.schema.names != right.schema.names:
        raise NotComparable(
            f"{before.path} and {after.path} cannot be compared: their receipts are of versions {versions[0]} and "
            f"{versions[1]}, with other columns; replay the older one again"
        )
    if not (left["arm"].equals(right["arm"]) and left["turn"].equals(right["turn"])):
        raise CannotMeasure(f"{paths[0]} and {paths[1]}: do not hold the same turns; replay one of them again")
    codes, names = codes_of(left["arm"])
    turns.update(names[code] or "" for code in codes.tolist())
    differs: dict[int, list[str]] = {}
    for column in left.schema.names:
        for row in _differing(left[column], right[column]):
            differs.setdefault(row, []).append(column)
    return [
        (left["arm"][row].as_py(), left["turn"][row].as_py(), tuple(columns))
        for row, columns in sorted(differs.items())
    ]


def _rows_of(table: pa.Table, arms: Sequence[str]) -> pa.Table:
    """The rows of some arms, arm by arm in this order, each arm's in the order of the file."""
    import numpy as np

    codes, names = codes_of(table["arm"])
    known = {name: code for code, name in enumerate(names)}
    rows = np.concatenate([np.flatnonzero(codes == known.get(arm, -2)) for arm in arms])
    return table.take(numbers(rows, "int64")).combine_chunks()


def _differing(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[int]:
    """Rows in which two columns differ. Numbers with a fraction are compared by their bits, so that NaN is NaN."""
    if left.type != right.type:
        return list(range(len(left)))
    ours, theirs = _bits(left), _bits(right)
    if ours.equals(theirs):
        return []
    return [
        row for row, (one, other) in enumerate(zip(ours.to_pylist(), theirs.to_pylist(), strict=True)) if one != other
    ]


def _bits(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    whole = column.combine_chunks()
    if pa.types.is_float64(whole.type):
        return whole.view(pa.int64())
    if pa.types.is_list(whole.type) and pa.types.is_float64(whole.type.value_type):
        return whole.view(pa.list_(pa.int64()))
    return whole
