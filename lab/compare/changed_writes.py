"""Exact comparison of what arms wrote in two runs, turn by turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import NotComparable
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "writes."
# What identifies the rows of a turn, and what follows from the turn.
_PLACE = ("arm", "turn", "seq")


class WrittenTurn(NamedTuple):
    """A turn at which an arm wrote in either run, and the columns that differ, such as ``writes.id``."""

    arm: str
    turn: str
    columns: tuple[str, ...]


def written_turns(
    before: RunDirectory, after: RunDirectory, conversation: str, arms: Sequence[str]
) -> list[WrittenTurn]:
    """Return every turn at which one of the arms wrote in either run, in the order of the conversation.

    A run without a file of writes wrote nothing. Raises :class:`NotComparable` if the files have different columns.
    """
    tables = [_table(run, conversation) for run in (before, after)]
    names = [table.schema.names for table in tables if table is not None]
    if not names:
        return []
    if names[0] != names[-1]:
        raise NotComparable(
            f"{before.path} and {after.path} cannot be compared: their files of writes have different columns; replay "
            "the older run again"
        )
    left, right = map(_by_turn, tables)
    columns = [name for name in names[0] if name not in _PLACE]
    places = sorted({place for place in (*left, *right) if place[0] in arms}, key=lambda at: (arms.index(at[0]), at))
    return [
        WrittenTurn(arm, turn, _differing(left.get((arm, seq, turn), ()), right.get((arm, seq, turn), ()), columns))
        for arm, seq, turn in places
    ]


def _table(run: RunDirectory, conversation: str) -> pa.Table | None:
    path = run.writes(conversation)
    return read_table(run.check(path)) if run.name_of(path) in run.digests else None


def _by_turn(table: pa.Table | None) -> Mapping[tuple[str, int, str], Sequence[Mapping[str, Any]]]:
    rows: defaultdict[tuple[str, int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in [] if table is None else table.to_pylist():
        rows[row["arm"], row["seq"], row["turn"]].append(row)
    return rows


def _differing(
    left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the columns in which the rows of a turn differ; by ``repr``, so that NaN equals NaN."""
    return tuple(
        f"{PREFIX}{name}" for name in columns if [repr(row[name]) for row in left] != [repr(row[name]) for row in right]
    )
