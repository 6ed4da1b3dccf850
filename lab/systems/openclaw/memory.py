"""Rows of the memories table: normalised fields (E-1, E-2), ages of TODOs (E-33), rows newest first (E-27)."""

from __future__ import annotations

import math
import re
import uuid
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from lab.base.regex import regex
from lab.base.utf16 import WHITESPACE
from lab.recordings.model import GLOBAL, IGNORE, LABELS, MUST, NICE, UNKNOWN, Memory
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row, TablePositions
from lab.systems.openclaw.js import js_number

# Scores from which a memory is must_remember, and nice_to_have.
MUST_FROM, NICE_FROM = 0.8, 0.5
CATEGORIES = ("preference", "fact", "decision", "entity", "todo", "other")
_ALIASES = {
    **{label: label for label in LABELS},
    "none": UNKNOWN,
    "high": MUST,
    "medium": NICE,
    "low": IGNORE,
    "trivial": IGNORE,
}
_SPACES = regex(f"[{WHITESPACE}-]+")
# The project's own namespace: a key has the same id in every run and on every machine.
_NAMESPACE = uuid.UUID("6f1b6a5e-9f0b-5a39-8f39-3a1c7f7c2d10")
_UUID = regex(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
# The tag of a hard rule, as people write it. Code is skipped, because it quotes tags without meaning them.
_HARD_TAG = regex(r"\[(?:HARD|ALWAYS[_ -]?PIN)\]", re.IGNORECASE)
_FENCE = regex(r"[ \t]*(?:```|~~~)")
_INLINE_CODE = regex(r"`[^`\n]*`")


# Cached because a replay needs each id several times.
@lru_cache(maxsize=1 << 16)
def engine_id(key: str) -> str:
    """Return the engine's id of a memory key, a UUIDv5 of the key.

    A key that is a UUID is the id of a stored row and is returned unchanged.
    """
    return key if is_uuid(key) else str(uuid.uuid5(_NAMESPACE, key))


def is_uuid(value: object) -> bool:
    """Whether a value is text in the form of a UUID, in any case; its version is not checked."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def importance_score(value: object) -> float | None:
    """Return a finite number, or a string that JavaScript reads as one, clamped to 0..1; None for anything else.

    A blank string is 0, as in JavaScript.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    number = js_number(value) if isinstance(value, str) else value
    try:
        finite = number is not None and math.isfinite(number)
    except OverflowError:  # an integer too large for a double is Infinity in JavaScript
        finite = False
    return float(min(1, max(0, number))) if number is not None and finite else None


def label_of_score(score: float | None, must_from: float = MUST_FROM, nice_from: float = NICE_FROM) -> str:
    """Return the label of a score: must_remember from 0.8, nice_to_have from 0.5, else ignore; unknown for None."""
    if score is None:
        return UNKNOWN
    return MUST if score >= must_from else NICE if score >= nice_from else IGNORE


def normal_label(value: object) -> str | None:
    """Return the label that a value or alias names, ignoring case and spacing; None for anything else."""
    if not isinstance(value, str):
        return None
    # Stored labels match exactly; the second lookup is for labels that people write.
    return _ALIASES.get(value) or _ALIASES.get(label_key(value))


def label_key(label: str) -> str:
    """Return a label as it is looked up: lower-cased, with one underscore for each run of spaces and hyphens."""
    return _SPACES.sub("_", label.strip(WHITESPACE).lower())


def resolve_label(label: object, score: object = None) -> str:
    """Return the recognised label, else the label of the score."""
    return normal_label(label) or label_of_score(importance_score(score))


def normal_category(value: object) -> str:
    """Return a known category, trimmed and lower-cased; unknown ones become ``other``."""
    category = value.strip(WHITESPACE).lower() if isinstance(value, str) else ""
    return category if category in CATEGORIES else "other"


def normal_row(
    key: str,
    text: str,
    index_text: str,
    created_at: int,
    *,
    category: object,
    label: object,
    scope: object,
    importance: object = None,
    trust: object = "user",
    hard_rule: bool = False,
    position: int | None = None,
    embedded: bool = True,
) -> Row:
    """Return a row with every field normalised (E-1, E-2).

    A text with the tag ``[HARD]`` or ``[ALWAYS_PIN]`` is also a hard rule (E-58).
    """
    score = importance_score(importance)
    return Row(
        engine_id(key),
        key,
        text,
        index_text,
        created_at,
        normal_category(category),
        resolve_label(label, score),
        scope if isinstance(scope, str) and scope else GLOBAL,
        trust if isinstance(trust, str) and trust else "unknown",
        score,
        hard_rule or is_hard_rule(text),
        position,
        embedded,
    )


def is_hard_rule(text: str) -> bool:
    """Whether a text contains the tag of a hard rule, in any case, outside code fences and inline code (E-58)."""
    if _HARD_TAG.search(text) is None:
        return False
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and _HARD_TAG.search(_INLINE_CODE.sub(" ", line)):
            return True
    return False


def id_of(memory: Memory) -> str:
    """Return the id of a memory's row: its key if it was read from a store, whatever its form, for ties go by it."""
    return engine_id(memory.key) if memory.place is None else memory.key


def row_of(memory: Memory) -> Row:
    """Return the row of a memory of the recording."""
    row = normal_row(
        memory.key,
        memory.text,
        memory.index_text,
        memory.created_at,
        category=memory.category,
        label=memory.label or UNKNOWN,
        scope=memory.scope,
        trust=memory.trust,
        hard_rule=memory.hard_rule,
        position=memory.place,
        embedded=memory.embedded,
    )
    return row if row.id == id_of(memory) else replace(row, id=id_of(memory))


class Near(NamedTuple):
    """A row near a vector, with its squared L2 distance."""

    row: Row
    distance: float


HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def dedupe_cutoff_ms(now_ms: float, hours: float) -> float:
    """Return the time before which a TODO is no duplicate of one recorded now, in epoch milliseconds."""
    return now_ms - _whole(hours) * HOUR_MS


def stale_cutoff_ms(now_ms: float, days: float) -> float:
    """Return the time before which recorded TODOs are no longer injected, in epoch milliseconds."""
    return now_ms - _whole(days) * DAY_MS


def is_within_dedupe_window(created_at: float, now_ms: float, hours: float) -> bool:
    """Whether a TODO is recent enough to be a duplicate of a new one; never without a time."""
    return math.isfinite(created_at) and created_at > 0 and created_at >= dedupe_cutoff_ms(now_ms, hours)


def is_stale(created_at: float, now_ms: float, days: float) -> bool:
    """Whether a TODO is older than ``days``; never without a time."""
    return math.isfinite(created_at) and 0 < created_at < stale_cutoff_ms(now_ms, days)


def _whole(value: float) -> int:
    """Return a window in whole units, at least 1; 1 for values that are not finite."""
    return max(1, math.floor(value)) if math.isfinite(value) else 1


_Entry = tuple[tuple[float, str], int, Row]
_Stored = tuple[tuple[int, int], Row]


class Listing:
    """An index of rows by scope and category. A row keeps its number, its index in the order of adding.

    Unless ``eager``, rows are sorted in when a list is read. Most configurations read none in a recall, which is timed.
    """

    def __init__(self, *, eager: bool = True) -> None:
        self._eager = eager
        self._waiting: list[list[Row]] = []
        self._newest: dict[tuple[str | None, str], list[_Entry]] = {}
        self._stored: dict[tuple[str | None, str], list[_Stored]] = {}
        self._positions = TablePositions()
        self._hard: dict[str | None, list[Row]] = {}
        self._count = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows in the order in which they become visible."""
        self._waiting.append(list(rows))
        if self._eager:
            self._sort_in()

    def _sort_in(self) -> None:
        waiting, self._waiting = self._waiting, []
        for rows in waiting:
            self._sort(rows)

    def _sort(self, rows: Sequence[Row]) -> None:
        entries = [((-row.created_at, id_order(row.id)), number, row) for number, row in enumerate(rows, self._count)]
        for _, number, row in entries:
            stored = ((self._positions.next(row), number), row)
            for scope in (row.scope, None):
                insort(self._stored.setdefault((scope, row.category), []), stored, key=itemgetter(0))
                if row.hard_rule:
                    insort(self._hard.setdefault(scope, []), row, key=lambda rule: (rule.created_at, id_order(rule.id)))
        # Insert newest first, so that each entry is inserted after the one before and none has to be moved.
        for entry in sorted(entries, key=itemgetter(0, 1)):
            for scope in (entry[2].scope, None):
                insort(self._newest.setdefault((scope, entry[2].category), []), entry, key=itemgetter(0, 1))
        self._count += len(entries)

    def remove(self, row: Row) -> None:
        """Remove a row that was deleted or replaced."""
        self._sort_in()
        for scope in (row.scope, None):
            key = (scope, row.category)
            self._newest[key] = [entry for entry in self._newest[key] if entry[2].id != row.id]
            self._stored[key] = [entry for entry in self._stored[key] if entry[1].id != row.id]
            self._hard[scope] = [rule for rule in self._hard.get(scope, ()) if rule.id != row.id]

    def recent(self, scope: str | None, categories: Sequence[str], limit: int) -> list[Row]:
        """Return the newest rows of a scope (None: any): newest first, then by id."""
        self._sort_in()
        lists = [self._newest.get((scope, category), []) for category in categories]
        return [row for _, _, row in islice(merge(*lists, key=itemgetter(0, 1)), limit)]

    def recent_of_first(
        self, scope: str | None, categories: Sequence[str], limit: int, since: float = -math.inf
    ) -> list[Row]:
        """List as the public plugin does: it reads unsorted, so it sees only the first ``4 * limit`` stored rows.

        Rows before ``since``, in epoch milliseconds, are not read.
        """
        self._sort_in()
        lists = [self._stored.get((scope, category), []) for category in categories]
        stored = (row for _, row in merge(*lists, key=itemgetter(0)) if row.created_at >= since)
        read = islice(stored, min(1024, 4 * limit))
        return sorted(read, key=lambda row: (-row.created_at, id_order(row.id)))[:limit]

    def hard_rules(self, scope: str | None) -> list[Row]:
        """Return every hard rule in force in a scope (None: any): its own, then those of scope ``global``.

        Each group is sorted oldest first, then by id.
        """
        self._sort_in()
        everywhere = [] if scope in (None, GLOBAL) else self._hard.get(GLOBAL, [])
        return [*self._hard.get(scope, ()), *everywhere]
