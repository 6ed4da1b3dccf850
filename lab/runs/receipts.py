"""What measures read of a run: the columns of one conversation's receipts, and counts of what an arm wrote."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lab.base.columns import codes_of, lists_of, numbers_of
from lab.recordings.model import GLOBAL, MUST, NICE
from lab.runs.directory import RunDirectory
from lab.runs.tables import ANSWER_SHARE, READINGS, read_table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from lab.base.columns import Flags, Floats, Ints

    Texts = NDArray[np.object_]

NUMBERS = ("is_recall_turn", "injected", "chars", "visible_nice", "hard_rules", "hard_kept", "duplicates")
# Columns on the injected block; see :func:`lab.replay.receipts.receipts_table`.
BLOCK = ("tokens", "evicted", "future", "duplicate_items", "unescaped", "stale", "outdated")
TEXTS = ("arm", "turn", "scope", "probe", "pinned", "item_key", "item_label", "item_scope", "item_exempt")


def read_receipts(run: RunDirectory, conversation: str, left_out: Container[str] | None = None) -> Receipts:
    """Return the receipts of one conversation of a run; raise what :meth:`RunDirectory.read_receipts` raises.

    ``left_out`` are keys of turns whose rows are ignored, by default those that the run leaves out.
    """
    table = run.read_receipts(conversation, (*NUMBERS, *BLOCK, *READINGS, ANSWER_SHARE, *TEXTS), TEXTS)
    return Receipts(table, conversation, run.left_out if left_out is None else left_out)


class Injected(NamedTuple):
    """The items that some rows injected, as flat columns: ``[items]`` except ``sizes``, ``[rows]``.

    ``sizes`` counts the items of each row; ``row`` is the row of each item, from 0; ``memory`` numbers the memories.
    ``nice`` and ``foreign`` flag items labelled nice_to_have, and items of another scope than their row. ``must`` flags
    items labelled must_remember that are neither exempt from repeat suppression nor pinned.
    """

    sizes: Ints
    row: Ints
    memory: Ints
    nice: Flags
    foreign: Flags
    must: Flags

    def by_row(self, flags: Flags) -> Ints:
        """Return how many flagged items each row injected, ``[rows]``."""
        import numpy as np

        return np.bincount(self.row[flags], minlength=len(self.sizes))


class Receipts:
    """Columns of receipts, one value for each row (an arm at a recall point), in the order of the file.

    ``units`` are the keys of the turns, then the conversation; ``turn`` holds positions in it, and
    ``conversation_unit`` that of the conversation. ``block`` has the columns of :data:`BLOCK` and
    :data:`READINGS` by name. ``answer_share`` is NaN where a probe has no answer.
    """

    def __init__(self, table: pa.Table, conversation: str, left_out: Container[str] = ()) -> None:
        """``left_out`` are keys of turns whose rows are ignored."""
        import numpy as np

        self.is_recall_turn: Flags
        self.duplicates: Floats
        self.is_recall_turn, self.injected, self.chars, *counts = (numbers_of(table[name]) for name in NUMBERS)
        self.visible_nice, self.hard_rules, self.hard_kept, self.duplicates = counts
        self.block = {name: numbers_of(table[name]) for name in (*BLOCK, *READINGS)}
        answered = ANSWER_SHARE in table.column_names
        self.answer_share: Floats = numbers_of(table[ANSWER_SHARE]) if answered else np.full(len(table), np.nan)
        self.turn, turns = codes_of(table["turn"])
        self.units = [turn or "" for turn in turns[:-1]] + [conversation]
        self._left_out = np.array([unit in left_out for unit in self.units], bool)
        self.conversation_unit = np.array([len(turns) - 1])
        self.arm, self.scope, self.probe = (_texts(*codes_of(table[name])) for name in ("arm", "scope", "probe"))
        pinned, self._pinned_from = lists_of(table["pinned"])
        self._pinned = _texts(*codes_of(pinned)).tolist()
        (items, self._from), (labels, _), (scopes, _), (exempt, _) = (
            lists_of(table[name]) for name in ("item_key", "item_label", "item_scope", "item_exempt")
        )
        self._memory, keys = codes_of(items)
        self._key = _texts(self._memory, keys).tolist()
        label, rule = _texts(*codes_of(labels)), _texts(*codes_of(exempt))
        self._nice = label == NICE
        self._must = (label == MUST) & (rule == np.array(None, object))
        self._scope = _texts(*codes_of(scopes))

    def rows_of(self, arm: str) -> Ints:
        """Return the row numbers of an arm, without turns that are left out."""
        import numpy as np

        rows = np.flatnonzero(self.arm == arm)
        return rows[~self._left_out[self.turn[rows]]] if self._left_out.any() else rows

    def keys_of(self, rows: Ints, cutoff: int | None = None) -> list[list[str]]:
        """Return the ranking of each row; with ``cutoff``, only what counts towards measures at that cutoff.

        An arm that injects fewer than ``cutoff`` of the items it ranked gets no credit for the others.
        """
        import numpy as np

        begins, ends, injected = self._from[rows], self._from[rows + 1], self.injected[rows].astype(np.int64)
        if cutoff is None:
            return _cut(self._key, begins, ends)
        short = injected < np.minimum(cutoff, ends - begins)
        return _cut(self._key, begins, np.where(short, begins + injected, ends))

    def injected_keys_of(self, rows: Ints) -> list[list[str]]:
        """Return the keys of the memories that each row injected."""
        return _cut(self._key, self._from[rows], self._from[rows] + self.injected[rows])

    def pinned_keys_of(self, rows: Ints) -> list[list[str]]:
        """Return the keys of the memories that the Working Set of each row holds."""
        return _cut(self._pinned, self._pinned_from[rows], self._pinned_from[rows + 1])

    def pinned_of(self, rows: Ints) -> Ints:
        """Return how many memories the Working Set of each row holds."""
        return self._pinned_from[rows + 1] - self._pinned_from[rows]

    def injected_of(self, rows: Ints) -> Injected:
        """Return the items that some rows injected."""
        import numpy as np

        sizes = self.injected[rows].astype(np.int64)
        row = np.repeat(np.arange(len(rows)), sizes)
        item = np.arange(len(row)) + np.repeat(self._from[rows] - np.cumsum(sizes) + sizes, sizes)
        scope = self._scope[item]
        # A global memory belongs to every scope; a memory without a scope is not counted as foreign.
        foreign = (scope != self.scope[rows][row]) & (scope != GLOBAL) & (scope != np.array(None, object))
        return Injected(
            sizes,
            row,
            self._memory[item],
            self._nice[item],
            foreign,
            self._must[item] & ~self._are_pinned(rows[row], item),
        )

    def _are_pinned(self, rows: Ints, items: Ints) -> Flags:
        """Return whether the Working Set of each row holds its item."""
        import numpy as np

        begins, ends = self._pinned_from[rows], self._pinned_from[rows + 1]
        pinned = np.zeros(len(items), bool)
        for at in np.flatnonzero(begins < ends).tolist():
            pinned[at] = self._key[items[at]] in self._pinned[begins[at] : ends[at]]
        return pinned


def _texts(codes: Ints, names: list[str | None]) -> Texts:
    import numpy as np

    return np.array(names, object)[codes]


def _cut(flat: list[str], begins: Ints, ends: Ints) -> list[list[str]]:
    return [flat[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


WRITTEN_COLUMNS = ("arm", "what", "memory", "keep", "gold", "echo", "again", "leak", "derived")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of one arm in a conversation of ``turns`` turns, without what its recalls derived.

    Of the ``created`` memories, ``echoes`` repeat what was injected at their turn, ``repeats`` what was stored before,
    and ``leaks`` hold a secret; ``judged`` are aligned to a judged candidate, and ``kept`` to one that should be kept.
    ``held`` are left at the end. ``candidates`` should be kept, and ``found`` of them were. Probes need ``gold``
    memories, of which ``gold_found`` have an item.
    """

    turns: int
    created: int
    echoes: int
    held: int
    repeats: int
    leaks: int
    judged: int
    kept: int
    candidates: int
    found: int
    gold: int
    gold_found: int


def read_writes(run: RunDirectory, conversation: str) -> dict[str, Written]:
    """Return the counts of every arm that captures; empty if the run has no writes."""
    path = run.writes(conversation)
    if run.name_of(path) not in run.digests:
        return {}
    table = read_table(run.check(path), WRITTEN_COLUMNS)
    metadata = table.schema.metadata or {}
    turns, candidates, gold = (int(metadata.get(name, b"0")) for name in (b"turns", b"candidates", b"gold"))
    rows = [row for row in table.to_pylist() if not row["derived"]]
    counts = {}
    for arm in (info.name for info in run.manifest.resolved.arms if info.writes):
        created = [row for row in rows if (row["arm"], row["what"]) == (arm, "created")]
        stored = [row for row in rows if row["arm"] == arm and row["what"] in ("created", "updated")]
        deleted = sum((row["arm"], row["what"]) == (arm, "deleted") for row in rows)
        counts[arm] = Written(
            turns=turns,
            created=len(created),
            echoes=sum(row["echo"] for row in created),
            held=len(created) - deleted,
            repeats=sum(row["again"] for row in created),
            leaks=sum(row["leak"] for row in stored),
            judged=sum(row["keep"] is not None for row in created),
            kept=sum((row["keep"] or 0) > 0 for row in created),
            candidates=candidates,
            found=len({row["memory"] for row in stored if (row["keep"] or 0) > 0}),
            gold=gold,
            gold_found=len({row["memory"] for row in stored if row["gold"]}),
        )
    return counts
