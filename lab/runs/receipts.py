"""The receipts of one conversation as columns: what the measures read of them, and no more."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, NamedTuple

from lab.columns import codes_of, lists_of, numbers_of
from lab.recordings.model import GLOBAL, NICE
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from lab.columns import Flags, Floats, Ints

    Texts = NDArray[np.object_]

NUMBERS = ("is_recall_turn", "injected", "chars", "visible_nice", "hard_rules", "hard_kept", "duplicates")
# What is told of the injected block; see :func:`lab.replay.receipts.receipts_table`.
BLOCK = ("tokens", "evicted", "future", "duplicate_items", "unescaped", "stale", "outdated")
TEXTS = ("arm", "turn", "scope", "probe", "pinned", "item_key", "item_label", "item_scope")


def read_receipts(run: RunDirectory, conversation: str) -> Receipts:
    """The receipts of one conversation of a run; raises what :meth:`RunDirectory.read_receipts` does."""
    table = run.read_receipts(conversation, (*NUMBERS, *BLOCK, *TEXTS), TEXTS)
    return Receipts(table, conversation, run.left_out)


class Injected(NamedTuple):
    """The items that some rows injected, end to end: how many each did, and of each item its row (counted from 0).

    ``nice`` and ``foreign`` are those labelled nice, and those of another scope than the row's.
    """

    sizes: Ints
    row: Ints
    memory: Ints
    nice: Flags
    foreign: Flags

    def by_row(self, which: Flags) -> Ints:
        """How many of the items that each row injected are these."""
        import numpy as np

        return np.bincount(self.row[which], minlength=len(self.sizes))


class Receipts:
    """A row an arm and recall point, in the order of the file.

    ``turn`` numbers the ``places``; ``whole`` is the number of the conversation, which is the last of them. ``block``
    holds what is told of the injected blocks, by name; the other columns are arrays under their own names.
    """

    def __init__(self, table: pa.Table, conversation: str, left_out: Container[str] = ()) -> None:
        """``left_out`` are turns of which no arm has rows."""
        import numpy as np

        self.is_recall_turn: Flags
        self.duplicates: Floats
        self.is_recall_turn, self.injected, self.chars, *counts = (numbers_of(table[name]) for name in NUMBERS)
        self.visible_nice, self.hard_rules, self.hard_kept, self.duplicates = counts
        self.block = {name: numbers_of(table[name]) for name in BLOCK}
        self.turn, turns = codes_of(table["turn"])
        self.places = [turn or "" for turn in turns[:-1]] + [conversation]
        self._left_out = np.array([place in left_out for place in self.places], bool)
        self.whole = np.array([len(turns) - 1])
        self.arm, self.scope, self.probe = (_texts(*codes_of(table[name])) for name in ("arm", "scope", "probe"))
        pinned, self._pinned_from = lists_of(table["pinned"])
        self._pinned = _texts(*codes_of(pinned)).tolist()
        (items, self._from), (labels, _), (scopes, _) = (
            lists_of(table[name]) for name in ("item_key", "item_label", "item_scope")
        )
        self._memory, keys = codes_of(items)
        self._key = _texts(self._memory, keys).tolist()
        self._nice = _texts(*codes_of(labels)) == NICE
        self._scope = _texts(*codes_of(scopes))

    def rows_of(self, arm: str) -> Ints:
        """The rows of an arm, less those of turns that are left out."""
        import numpy as np

        rows = np.flatnonzero(self.arm == arm)
        return rows[~self._left_out[self.turn[rows]]] if self._left_out.any() else rows

    def keys_of(self, rows: Ints, cutoff: int | None = None) -> list[list[str]]:
        """The ranking of each row; with ``cutoff`` as it counts.

        An arm that may inject ``cutoff`` items and injects fewer of those it ranked is not credited with the others.
        """
        import numpy as np

        begins, ends, injected = self._from[rows], self._from[rows + 1], self.injected[rows].astype(np.int64)
        if cutoff is None:
            return _cut(self._key, begins, ends)
        short = injected < np.minimum(cutoff, ends - begins)
        return _cut(self._key, begins, np.where(short, begins + injected, ends))

    def injected_keys_of(self, rows: Ints) -> list[list[str]]:
        """The keys of the memories that each row injected."""
        return _cut(self._key, self._from[rows], self._from[rows] + self.injected[rows])

    def pinned_keys_of(self, rows: Ints) -> list[list[str]]:
        """The keys of the memories that each row's digest holds."""
        return _cut(self._pinned, self._pinned_from[rows], self._pinned_from[rows + 1])

    def pinned_of(self, rows: Ints) -> Ints:
        """How many memories each row's digest holds."""
        return self._pinned_from[rows + 1] - self._pinned_from[rows]

    def injected_of(self, rows: Ints) -> Injected:
        """What some rows injected."""
        import numpy as np

        sizes = self.injected[rows].astype(np.int64)
        row = np.repeat(np.arange(len(rows)), sizes)
        item = np.arange(len(row)) + np.repeat(self._from[rows] - np.cumsum(sizes) + sizes, sizes)
        scope = self._scope[item]
        # A global memory is of every scope, and of one without any nothing is known.
        foreign = (scope != self.scope[rows][row]) & (scope != GLOBAL) & (scope != np.array(None, object))
        return Injected(sizes, row, self._memory[item], self._nice[item], foreign)


def _texts(codes: Ints, names: list[str | None]) -> Texts:
    import numpy as np

    return np.array(names, object)[codes]


def _cut(flat: list[str], begins: Ints, ends: Ints) -> list[list[str]]:
    return [flat[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
