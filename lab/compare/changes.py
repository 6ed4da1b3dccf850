"""Exact comparison of two runs: every column of their receipts and of what arms wrote, bit for bit.

A replay is a function of its inputs, so this needs no statistics: any difference is reported. Compared are the
conversations that are the same in both runs; those that were added, removed or changed are named (IN-9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.columns import codes_of, numbers
from lab.base.errors import CannotMeasure, NotComparable
from lab.compare.changed_writes import PREFIX, written_turns
from lab.compare.comparable import NO_CONVERSATIONS, Common, common
from lab.compare.manifest_changes import moved
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 5
# The columns that hold what is injected; the others say how it was chosen.
RECALLED = frozenset({"item_key", "pinned", "block"})


class Changed(NamedTuple):
    """One turn whose receipts or writes differ, and the columns that differ; those of writes begin with ``writes.``."""

    conversation: str
    turn: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmChanges:
    """One arm of both runs: turns compared, changed turns in the order of the run, and changed turns by column."""

    arm: str
    turns: int
    changed: tuple[Changed, ...]
    columns: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Changes:
    """The result of an exact comparison.

    ``arms`` are in both runs, ``only_before`` and ``only_after`` in one. ``moved`` lists manifest differences that
    could explain a change, see :func:`lab.compare.manifest_changes.moved`. ``common`` says which conversations were
    compared.
    """

    before: str
    after: str
    arms: tuple[ArmChanges, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    moved: tuple[str, ...]
    common: Common = NO_CONVERSATIONS

    @property
    def turns(self) -> int:
        """Return the number of turns compared, each counted once per arm."""
        return sum(arm.turns for arm in self.arms)

    @property
    def changed(self) -> int:
        """Return the number of turns whose receipts or writes differ, each counted once per arm."""
        return sum(len(arm.changed) for arm in self.arms)

    def first(self, count: int = SHOWN) -> list[dict[str, Any]]:
        """Return the first changed turns, each with the commands that explain it in both runs; see :func:`foremost`."""
        return [
            {
                "arm": arm,
                "conversation": change.conversation,
                "turn": change.turn,
                "columns": list(change.columns),
                # Where an arm only wrote, no recall is to be explained.
                "explain": [
                    join(["lab", "explain", run, change.turn, "--arm", arm])
                    for run in (self.before, self.after)
                    if not all(column.startswith(PREFIX) for column in change.columns)
                ],
            }
            for arm, change in foremost(self.arms)[:count]
        ]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with the first few changed turns."""
        return {
            "before": self.before,
            "after": self.after,
            "turns": self.turns,
            "changed": self.changed,
            "arms": {
                arm.arm: {"turns": arm.turns, "changed": len(arm.changed), "columns": dict(arm.columns)}
                for arm in self.arms
            },
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "conversations": self.common.as_json(),
            "first": self.first(),
            "moved": list(self.moved),
        }


def foremost(arms: Iterable[ArmChanges]) -> list[tuple[str, Changed]]:
    """Return the changed turns of some arms, those whose injected memories or text changed first."""
    changed = [(arm.arm, change) for arm in arms for change in arm.changed]
    return sorted(changed, key=lambda pair: RECALLED.isdisjoint(pair[1].columns))


def changes(before: RunDirectory, after: RunDirectory) -> Changes:
    """Compare the receipts and writes of two runs exactly, in all columns, arm by arm.

    A turn at which an arm only wrote, such as the reply at which it captured, counts as a turn.

    Raises :class:`NotComparable` if the runs differ in settings, share no conversation or no arm, or have receipts of
    different versions, and :class:`lab.base.errors.CannotMeasure` for a damaged file.
    """
    both_have = common(before, after)
    for run in (before, after):
        run.require_done()
    both = [arm for arm in before.arms if arm in after.arms]
    if not both:
        raise NotComparable(f"{before.path} and {after.path} cannot be compared: they have no arm in common")
    turns, changed = Counter[str](), {arm: list[Changed]() for arm in both}
    for conversation in both_have.same:
        for arm, turn, columns in _of_conversation(before, after, conversation, both, turns):
            changed[arm].append(Changed(conversation, turn, columns))
    arms = tuple(
        ArmChanges(arm, turns[arm], tuple(rows), dict(Counter(column for row in rows for column in row.columns)))
        for arm, rows in changed.items()
    )
    return Changes(
        str(before.path),
        str(after.path),
        arms,
        tuple(arm for arm in before.arms if arm not in both),
        tuple(arm for arm in after.arms if arm not in both),
        moved(before.manifest, after.manifest),
        both_have,
    )


def _of_conversation(
    before: RunDirectory, after: RunDirectory, conversation: str, arms: Sequence[str], turns: Counter[str]
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the arm, turn and columns of each row that differs; adds the rows of each arm to ``turns``."""
    paths = [run.receipts(conversation) for run in (before, after)]
    left, right = (_rows_of(run.read_receipts(conversation), arms) for run in (before, after))
    versions = [(table.schema.metadata or {}).get(b"schema_version", b"none").decode() for table in (left, right)]
    if versions[0] != versions[1] or left.schema.names != right.schema.names:
        raise NotComparable(
            f"{before.path} and {after.path} cannot be compared: their receipts are of versions {versions[0]} and "
            f"{versions[1]}, which have different columns; replay the older run again"
        )
    if not (left["arm"].equals(right["arm"]) and left["turn"].equals(right["turn"])):
        raise CannotMeasure(f"{paths[0]} and {paths[1]}: do not hold the same turns; replay one of the runs again")
    codes, names = codes_of(left["arm"])
    turns.update(names[code] or "" for code in codes.tolist())
    differs: dict[int, list[str]] = {}
    for column in left.schema.names:
        for row in _differing(left[column], right[column]):
            differs.setdefault(row, []).append(column)
    at = {(left["arm"][row].as_py(), left["turn"][row].as_py()): tuple(names) for row, names in sorted(differs.items())}
    recalled = set(zip(left["arm"].to_pylist(), left["turn"].to_pylist(), strict=True))
    for written in written_turns(before, after, conversation, arms):
        place = (written.arm, written.turn)
        turns[written.arm] += place not in recalled
        if written.columns:
            at[place] = (*at.get(place, ()), *written.columns)
    return [(arm, turn, columns) for (arm, turn), columns in at.items()]


def _rows_of(table: pa.Table, arms: Sequence[str]) -> pa.Table:
    """Return the rows of some arms, arm by arm in this order, each arm's rows in the order of the file."""
    import numpy as np

    codes, names = codes_of(table["arm"])
    known = {name: code for code, name in enumerate(names)}
    rows = np.concatenate([np.flatnonzero(codes == known.get(arm, -2)) for arm in arms])
    return table.take(numbers(rows, "int64")).combine_chunks()


def _differing(left: pa.ChunkedArray, right: pa.ChunkedArray) -> list[int]:
    """Return the rows in which two columns differ. Floats are compared by their bits, so that NaN equals NaN."""
    if left.type != right.type:
        return list(range(len(left)))
    ours, theirs = _bits(left), _bits(right)
    if ours.equals(theirs):
        return []
    return [
        row for row, (mine, other) in enumerate(zip(ours.to_pylist(), theirs.to_pylist(), strict=True)) if mine != other
    ]


def _bits(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    array = column.combine_chunks()
    if pa.types.is_float64(array.type):
        return array.view(pa.int64())
    if pa.types.is_list(array.type) and pa.types.is_float64(array.type.value_type):
        return array.view(pa.list_(pa.int64()))
    return array
