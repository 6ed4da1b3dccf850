"""What the receipts store of each recall besides the safety checks: repeats of the block, and how it is explained.

Texts are not kept in receipts, so whatever needs a text is counted here, while the replay still has it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lab.base.token_estimate import tokens
from lab.base.utf16 import js_length
from lab.recordings.model import MUST, Recording
from lab.replay.loop import Answered
from lab.systems.contract import Item, Recall
from lab.systems.openclaw.memory import engine_id, is_hard_rule
from lab.systems.openclaw.recall.wrap import CLOSE, OPEN, POLICY
from lab.systems.openclaw.seed.exact_hit import exact_hit

# Lines of every block, which say nothing about its memories.
FRAME = frozenset((OPEN, POLICY, CLOSE))
# Plain lists of search hits: an id that occurs nowhere else in a receipt has no reason there.
HIT_LISTS = frozenset(("ftsTop", "vecTop", "fusedTop"))
# The width of a terminal, in columns.
COLUMNS = 80


class Reading(NamedTuple):
    """Counts of one recall; None where there is no value. See the columns of :mod:`lab.replay.receipts`.

    ``exempt`` has one entry for each listed item.
    """

    prefix_tokens: int | None
    stable_chars: int | None
    body_chars: int
    receipt_bytes: int | None
    receipt_lines: int | None
    to_explain: int
    explained: int | None
    exempt: Sequence[str | None]


class Readings:
    """Reads the recalls of one conversation in order. It keeps the last block of every arm."""

    def __init__(self, recording: Recording) -> None:
        self._hard_rules = {memory.key for memory in recording.memories if memory.hard_rule}
        self._before: dict[str, tuple[str, Counter[str]]] = {}

    def read(self, answer: Answered, receipt_text: str) -> Reading:
        """Return the reading of the next recall, whose receipt is logged as ``receipt_text``."""
        recall = answer.recall
        lines = body_lines(recall.context)
        prefix = stable = None
        before = self._before.get(answer.arm)
        if before is not None:
            prefix = tokens(common_prefix(before[0], recall.context))
            kept = lines & before[1]
            stable = sum(js_length(line) * count for line, count in kept.items())
        if answer.point.is_recall_turn:
            self._before[answer.arm] = recall.context, lines
        has_receipt = bool(recall.receipt)
        ids = list(to_explain(recall))
        named = reasons_in(recall.receipt) if has_receipt else frozenset()
        return Reading(
            prefix,
            stable,
            sum(js_length(line) * count for line, count in lines.items()),
            len(receipt_text.encode("utf-8", "surrogatepass")) if has_receipt else None,
            rows_of(receipt_text) if has_receipt else None,
            len(ids),
            sum(not named.isdisjoint(names) for names in ids) if has_receipt else None,
            [self._exempt(answer, item) for item in recall.items],
        )

    def _exempt(self, answer: Answered, item: Item) -> str | None:
        """Return why a must_remember item may repeat: hard_rule, or the rule of an exact hit; None if it may not."""
        if item.signals.label != MUST:
            return None
        if (answer.fed and item.id in self._hard_rules) or is_hard_rule(item.text):
            return "hard_rule"
        return exact_hit(answer.point.text, item.text, item.signals.fts_rank)


def body_lines(context: str) -> Counter[str]:
    """Return the lines of a block with their counts, without those that every block has and without item numbers."""
    return Counter(_unnumbered(line) for line in context.split("\n") if line and line not in FRAME)


def _unnumbered(line: str) -> str:
    number, dot, rest = line.partition(". [")
    return f"[{rest}" if dot and number.isascii() and number.isdigit() else line


def common_prefix(one: str, other: str) -> str:
    """Return the longest common prefix of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return one[:low]


def rows_of(text: str) -> int:
    """Return the number of rows that a text fills on a terminal of 80 columns."""
    return sum(max(1, math.ceil(len(line) / COLUMNS)) for line in text.split("\n"))


def to_explain(recall: Recall) -> Iterator[frozenset[str]]:
    """Yield the possible ids of each memory that a receipt should explain: injected, pinned, and displaced ones."""
    for item in recall.items[: recall.injected]:
        yield frozenset((item.id, item.signals.id or item.id))
    for key in (*recall.pinned, *recall.displaced):
        yield frozenset((key, engine_id(key)))


def reasons_in(receipt: Mapping[str, Any]) -> frozenset[str]:
    """Return every string that a receipt has as a key or a value, outside plain lists of search hits."""
    names: set[str] = set()
    pending: list[Any] = [receipt]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            names.add(value)
        elif isinstance(value, Mapping):
            names.update(value)
            pending += [part for name, part in value.items() if name not in HIT_LISTS]
        elif isinstance(value, Sequence):
            pending += value
    return frozenset(names)
