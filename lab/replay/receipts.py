"""Receipts and timings of a conversation as tables, for one Parquet file each.

Receipts have one row for each arm and recall point. They are a function of the input alone, so two runs can be compared
byte by byte. They hold keys and ids of memories, never texts. So whatever needs a text is counted here, while the
replay still has it: how much of a block repeats, and how much of it the receipt explains.

The safety checks of every recall use only the recording and the injected block, and nothing that the system reports,
so that a faulty system cannot hide its faults.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.columns import booleans, lists, numbers, strings
from lab.base.formatting import folded
from lab.base.regex import regex
from lab.base.token_estimate import tokens
from lab.base.utf16 import js_length
from lab.recordings.model import GLOBAL, MUST, Memory, Recording
from lab.replay.answer_recall import answer_shares
from lab.replay.loop import Answered
from lab.replay.writes import Aligned
from lab.runs.tables import ANSWER_SHARE, ITEMS, READINGS, SAFETY
from lab.systems.contract import Item, Recall
from lab.systems.openclaw.memory import engine_id, is_hard_rule
from lab.systems.openclaw.recall.block import CLOSE, FRAME, OPEN
from lab.systems.openclaw.recall.screen import screen_rows
from lab.systems.openclaw.seed.exact_hit import exact_hit

if TYPE_CHECKING:
    import pyarrow as pa

_MARKUP = regex("[<>&]")
_BARE = regex(r"[<>]|&(?!(?:amp|lt|gt|quot|#39);)")
# Remainder of an entity that a budget cut.
_CUT = regex(r"&[a-z#0-9]{0,4}\Z")


class Checked(NamedTuple):
    """How many injected memories of one recall fail each check; see the columns of :mod:`lab.replay.receipts`.

    ``future`` counts memories that do not exist yet, or are forgotten. ``outdated`` is not a failure: it counts all
    memories superseded by then.
    """

    future: int
    duplicate_items: int
    unescaped: int
    superseded: int
    stale: int
    outdated: int


# What is said of an injected memory: by the golden set, by its scope, and by the recording.
MISLEADING, RELEVANT, ANOTHER_SCOPE = "misleading", "relevant", "another scope"
STALE, SUPERSEDED, DUPLICATE = "superseded, before or without its successor", "superseded", "duplicate"


class SafetyChecks:
    """Checks recalls against the memories of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._known = {memory.key: memory for memory in recording.memories}
        # Of memories that were recalled: most of a large store never are.
        self._folded: dict[str, str] = {}
        # For each superseded memory: since when, and by which memories, transitively.
        self._until: dict[str, int] = {}
        self._newer: defaultdict[str, set[str]] = defaultdict(set)
        older: dict[str, set[str]] = {}
        for memory in (memory for memory in recording.memories if memory.supersedes):
            older[memory.key] = {*memory.supersedes}.union(*(older.get(key, ()) for key in memory.supersedes))
            for key in older[memory.key]:
                self._newer[key].add(memory.key)
                self._until[key] = min(self._until.get(key, memory.visible_from), memory.visible_from)
        self._ends = sorted(self._until.values())

    def check(self, recall: Recall, seq: int, *, fed: bool = True) -> Checked:
        """Check what was recalled at the time ``seq``.

        If the system was not ``fed`` memories, all items are its own, even under keys of the recording, and
        :mod:`lab.replay.guarded` has checked that it wrote them.
        """
        known = self._known if fed else {}
        injected = recall.items[: recall.injected]
        keys = [item.id for item in injected]
        texts = [self._fold(item.id) if item.id in known else folded(item.text) for item in injected]
        superseded = [rank for rank, key in enumerate(keys) if self.superseded(key, seq)]
        return Checked(
            sum(key in known and not known[key].is_visible_at(seq) for key in (*keys, *recall.pinned)),
            len(texts) - len(set(texts)),
            _unescaped([text for item in injected if (text := self._escaped_text(item, known))], recall.context),
            len(superseded),
            sum(self.unreplaced(keys[rank], (*recall.pinned, *keys[:rank])) for rank in superseded),
            bisect_right(self._ends, seq),
        )

    def _fold(self, key: str) -> str:
        return self._folded.get(key) or self._folded.setdefault(key, folded(self._known[key].text))

    @staticmethod
    def _escaped_text(item: Item, known: Mapping[str, Memory]) -> str | None:
        """Return the escaped text of an item; None if its text has no markup.

        It is not escaped by the engine's code, which is what is checked.
        """
        text = known[item.id].text if item.id in known else item.text
        return _escaped(text) if _MARKUP.search(text) else None

    def marks(self, key: str, seq: int, before: Sequence[str]) -> Iterator[str]:
        """Yield what the recording says of a memory that is injected after those ``before``."""
        if self.superseded(key, seq):
            yield STALE if self.unreplaced(key, before) else SUPERSEDED
        known = self._known
        if key in known and any(self._fold(key) == self._fold(other) for other in before if other in known):
            yield DUPLICATE

    def superseded(self, key: str, seq: int) -> bool:
        """Return whether a memory that exists at ``seq`` supersedes this one."""
        return self._until.get(key, inf) <= seq

    def unreplaced(self, key: str, before: Iterable[str]) -> bool:
        """Return whether none of the memories ``before`` supersedes this one."""
        return self._newer[key].isdisjoint(before)


def marks_of(
    key: str,
    judged: tuple[Container[str], Container[str]] | None,
    scopes: tuple[str | None, str | None],
    safety: Iterable[str],
) -> tuple[str, ...]:
    """Return what is said of an injected memory, for every place that shows one.

    ``judged`` are the misleading and the relevant memories of the probe. ``scopes`` are those of the memory and of the
    turn, None if not known. ``safety`` is what :meth:`SafetyChecks.marks` says.
    """
    own, home = scopes
    misleading, relevant = judged or ((), ())
    said = ((MISLEADING, key in misleading), (RELEVANT, key in relevant))
    strange = home is not None and own not in (None, home, GLOBAL)
    return (*(mark for mark, holds in said if holds), *([ANOTHER_SCOPE] if strange else []), *safety)


def _escaped(text: str) -> str:
    return escape(text).replace("&#x27;", "&#39;")


def _unescaped(escaped: Sequence[str], context: str) -> int:
    # A text that is missing may have been cut by a budget, which is not a failure.
    missing = sum(text not in context for text in escaped)
    return missing if missing and _BARE.search(_CUT.sub("", _body(context))) else 0


def _body(context: str) -> str:
    """Return the lines of memories in the block; a budget may have cut its end, even within the closing tag."""
    body = context.partition(OPEN)[2]
    lines, tag, _ = body.rpartition("\n" + CLOSE)
    if tag:
        return lines
    cut = body.rpartition("\n")
    return cut[0] if CLOSE.startswith(cut[2]) else body


# Plain lists of search hits: an id that occurs nowhere else in a receipt has no reason there.
HIT_LISTS = frozenset(("ftsTop", "vecTop", "fusedTop"))
# Values that hold no text, and memories that nothing names.
_PLAIN, _NOBODY = (int, float, type(None)), frozenset[int]()
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
        # Several arms inject the same memory at a recall point: by its text, and whether it ranks first in its tier.
        self._query, self._found = "", dict[tuple[str, bool], str | None]()
        self._before: dict[str, tuple[str, Counter[str]]] = {}

    def read(self, answer: Answered, receipt_text: str) -> Reading:
        """Return the reading of the next recall, whose receipt is logged as ``receipt_text``."""
        recall = answer.recall
        lines = body_lines(recall.context)
        lengths = {line: js_length(line) for line in lines}
        prefix = stable = None
        before = self._before.get(answer.arm)
        if before is not None:
            prefix = tokens(common_prefix(before[0], recall.context))
            stable = sum(lengths[line] * min(lines[line], before[1][line]) for line in lines.keys() & before[1].keys())
        if answer.point.is_recall_turn:
            self._before[answer.arm] = recall.context, lines
        has_receipt = bool(recall.receipt)
        ids = list(to_explain(recall))
        return Reading(
            prefix,
            stable,
            sum(lengths[line] * count for line, count in lines.items()),
            len(receipt_text.encode("utf-8", "surrogatepass")) if has_receipt else None,
            (screen_rows(recall.receipt) or rows_of(receipt_text)) if has_receipt else None,
            len(ids),
            explained(recall.receipt, ids) if has_receipt else None,
            [self._exempt(answer, item) for item in recall.items],
        )

    def _exempt(self, answer: Answered, item: Item) -> str | None:
        """Return why a must_remember item may repeat: hard_rule, or the rule of an exact hit; None if it may not."""
        if item.signals.label != MUST:
            return None
        if answer.fed and item.id in self._hard_rules:
            return "hard_rule"
        query, text, rank = answer.point.text, item.text, item.signals.fts_rank
        if query is not self._query:
            self._query, self._found = query, {}
        key = text, rank == 1
        if key not in self._found:
            self._found[key] = "hard_rule" if is_hard_rule(text) else exact_hit(query, text, rank)
        return self._found[key]


def body_lines(context: str) -> Counter[str]:
    """Return the lines of a block with their counts, without those that every block has and without item numbers."""
    return Counter(_unnumbered(line) for line in context.split("\n") if line and line not in FRAME)


def _unnumbered(line: str) -> str:
    number, dot, rest = line.partition(". [")
    return f"[{rest}" if dot and number.isascii() and number.isdigit() else line


def common_prefix(one: str, other: str) -> str:
    """Return the longest common prefix of two texts."""
    lengths = range(1, min(len(one), len(other)) + 1)
    return one[: bisect_left(lengths, True, key=lambda length: one[:length] != other[:length])]


def rows_of(text: str) -> int:
    """Return the number of rows that a text fills on a terminal of 80 columns."""
    return sum(max(1, math.ceil(len(line) / COLUMNS)) for line in text.split("\n"))


def to_explain(recall: Recall) -> Iterator[tuple[str, str]]:
    """Yield the two possible ids of each memory that a receipt should explain: injected, pinned, and displaced ones."""
    for item in recall.items[: recall.injected]:
        yield item.id, item.signals.id or item.id
    for key in (*recall.pinned, *recall.displaced):
        yield key, engine_id(key)


def explained(receipt: Mapping[str, Any], ids: Sequence[tuple[str, str]]) -> int:
    """Return how many memories a receipt names by one of their ids.

    A name is any string that is a key or a value, outside plain lists of search hits.
    """
    named: dict[str, set[int]] = {}
    for at, names in enumerate(ids):
        for name in names:
            named.setdefault(name, set()).add(at)
    found: set[int] = set()
    pending: list[Any] = [receipt]
    # The commonest types come first: checking an abstract one takes longer than all the rest.
    while pending and len(found) < len(ids):
        value = pending.pop()
        if isinstance(value, str):
            found |= named.get(value, _NOBODY)
        elif isinstance(value, _PLAIN):
            continue
        elif isinstance(value, dict | Mapping):
            if not named.keys().isdisjoint(value):
                found.update(*(named[name] for name in named.keys() & value.keys()))
            pending += [part for name, part in value.items() if name not in HIT_LISTS]
        elif isinstance(value, list | Sequence):
            pending += value
    return len(found)


KIND, VERSION = "lab.receipts", "4"


class Listed(NamedTuple):
    """The columns of one item in a receipt; see :func:`receipts_table`."""

    key: str
    id: str
    tier: str | None
    label: str | None
    scope: str | None
    score: float
    fts_rank: int | None
    vec_rank: int | None
    decision: str | None


_NO_LABELS: Mapping[str, str] = MappingProxyType({})
# Prefix of the id of a captured item that is aligned to no memory of the recording.
OWN = "own:"


def receipts_table(
    answers: Sequence[Answered], recording: Recording, aligned: Aligned, labels: Mapping[str, str] = _NO_LABELS
) -> pa.Table:
    """Return the receipts of one conversation, with one row for each arm and recall point.

    ``labels`` are the importance labels of its memories by key. A given memory has its label whether or not the system
    reads it, so an item without one gets it from there.

    Columns: ``arm, turn, seq, scope, is_recall_turn, probe, status, failure`` (the reason of a failed recall, else
    null), ``injected, visible, visible_nice, chars, hard_rules, hard_kept, pinned, duplicates``, a list column
    ``item_…`` for each of :data:`lab.runs.tables.ITEMS`, ``log, receipt``, and the columns of the injected block that
    are listed below.
    ``item_key`` is the memory's key. For a captured item it is the key of the judged memory that the item is aligned
    to, unless an earlier item of the row has that key; otherwise it is the item's id, prefixed with ``own:``.

    * ``block``: first 16 hexadecimal digits of the sha256 of the injected text; ``tokens``: its estimated tokens
    * ``evicted``: items dropped by the budget; null where the receipt does not say
    * ``future``: injected or pinned memories that are created after this recall point, or forgotten before it
    * ``duplicate_items``: injected memories with the text of an earlier item, ignoring case and spaces
    * ``unescaped``: injected memories whose markup (``< > &``) is not escaped in the block
    * ``superseded``: injected memories that a memory created by then supersedes; ``stale``: those of them that no
      superseding memory precedes in the block; ``outdated``: all memories of the conversation superseded by then
    * ``prefix_tokens``: estimated tokens that the block shares with the start of the block of the arm's previous recall
      turn; ``body_chars``: UTF-16 units in the lines of the block, without those that every block has and without the
      numbers of items; ``stable_chars``: those in lines that the previous block also has. Null at the first recall turn
    * ``receipt_bytes``: the receipt as logged, in bytes of UTF-8; ``receipt_lines``: the rows of 80 columns in which
      an operator is shown it, those of its JSON where only that can be; ``to_explain``: memories that are injected,
      pinned or displaced (:class:`lab.systems.contract.Recall`); ``explained``: those of them with a reason in the
      receipt. Null without a receipt
    * ``item_exempt``: why a must_remember item may repeat: ``hard_rule``, or the rule of an exact hit, else null
    * ``answer_share``: the share of the gold answer that the block has (:mod:`lab.replay.answer_recall`), null where
      there is none; the column is missing if no probe of the conversation has an answer
    """
    import pyarrow as pa

    safety_checks = SafetyChecks(recording)
    checked = [safety_checks.check(answer.recall, answer.point.seq, fed=answer.fed) for answer in answers]
    recalls = [answer.recall for answer in answers]
    counts = [len(recall.items) for recall in recalls]
    scopes = {turn.key: turn.scope for turn in recording.turns}
    scopes |= {memory.key: memory.scope for memory in recording.memories}
    flat = [values for answer in answers for values in _items(answer, aligned, scopes, labels)]
    columns = list(zip(*flat, strict=True)) if flat else [()] * len(ITEMS)
    texts = [_receipt(answer) for answer in answers]
    readings = Readings(recording)
    read = [readings.read(answer, text) for answer, text in zip(answers, texts, strict=True)]
    listed = {
        f"item_{name}": lists(counts, strings(column) if kind == "string" else numbers(column, kind))
        for (name, kind), column in zip(ITEMS.items(), columns, strict=True)
    }
    table = pa.table(
        {
            "arm": strings([answer.arm for answer in answers]),
            "turn": strings([answer.point.key for answer in answers]),
            "seq": numbers([answer.point.seq for answer in answers], "int32"),
            "scope": strings([answer.scope for answer in answers]),
            "is_recall_turn": booleans([answer.point.is_recall_turn for answer in answers]),
            "probe": strings([answer.point.probe.id if answer.point.probe else None for answer in answers]),
            "status": strings([recall.status for recall in recalls]),
            "failure": strings([str(answer.failure) if answer.failure else None for answer in answers]),
            "injected": numbers([recall.injected for recall in recalls], "int32"),
            "visible": numbers([answer.visible for answer in answers], "int32"),
            "visible_nice": numbers([answer.visible_nice for answer in answers], "int32"),
            "chars": numbers([js_length(recall.context) for recall in recalls], "int32"),
            "hard_rules": numbers([answer.hard_rules for answer in answers], "int32"),
            "hard_kept": numbers([answer.hard_kept for answer in answers], "int32"),
            "pinned": _texts([recall.pinned for recall in recalls]),
            "duplicates": numbers([recall.duplicates for recall in recalls], "int32"),
            **listed,
            "log": _texts([recall.log for recall in recalls]),
            "receipt": strings(texts),
            "block": strings([block_hash(recall.context) for recall in recalls]),
            "tokens": numbers([tokens(recall.context) for recall in recalls], "int32"),
            "evicted": numbers([recall.evicted for recall in recalls], "int32"),
            **{name: numbers([counts[at] for counts in checked], "int32") for at, name in enumerate(SAFETY)},
            **{name: numbers([reading[at] for reading in read], "int32") for at, name in enumerate(READINGS)},
            "item_exempt": lists(counts, strings([rule for reading in read for rule in reading.exempt])),
        }
    )
    shares = answer_shares(answers, recording)
    if shares is not None:
        table = table.append_column(ANSWER_SHARE, numbers(shares, "double"))
    return table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION})


def latency_table(answers: Sequence[Answered]) -> pa.Table:
    """Return the timings of one conversation: columns ``arm, turn, stage, ns, cold``.

    ``cold`` flags the first recall point of the conversation.
    """
    import pyarrow as pa

    first = answers[0].point.key if answers else None
    timed = [(answer, stage, spent) for answer in answers for stage, spent in answer.recall.timings.items()]
    table = pa.table(
        {
            "arm": strings([answer.arm for answer, _, _ in timed]),
            "turn": strings([answer.point.key for answer, _, _ in timed]),
            "stage": strings([stage for _, stage, _ in timed]),
            "ns": numbers([spent for _, _, spent in timed], "int64"),
            "cold": booleans([answer.point.key == first for answer, _, _ in timed]),
        }
    )
    return table.replace_schema_metadata({"kind": "lab.studies.latency", "schema_version": VERSION})


def _items(
    answer: Answered, aligned: Aligned, scopes: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[Listed]:
    """Yield the columns of the items of an answer; an item without a scope or label gets that of its sources."""
    if answer.fed:
        for identity, _, _, score, (own_id, label, scope, fts_rank, vec_rank, decision), tier in answer.recall.items:
            # Equal to Listed(…), in half the time.
            scope = scopes.get(identity) if scope is None else scope
            label = labels.get(identity) if label is None else label
            row = (identity, own_id or identity, tier, label, scope, score, fts_rank, vec_rank, decision)
            yield tuple.__new__(Listed, row)
        return
    taken: set[str] = set()
    for item in answer.recall.items:
        alignment = aligned.get((answer.arm, item.id))
        # A system's own id must never be mistaken for a memory's key.
        key = alignment.memory if alignment is not None and alignment.memory not in taken else f"{OWN}{item.id}"
        taken.add(key)
        own_id, label, scope, fts_rank, vec_rank, decision = item.signals
        if scope is None:
            scope = next((scopes[source] for source in item.sources if source in scopes), None)
        yield Listed(key, own_id or item.id, item.tier, label, scope, item.score, fts_rank, vec_rank, decision)


def _receipt(answer: Answered) -> str:
    """Return the receipt as the system wrote it, else as JSON."""
    import orjson

    recall = answer.recall
    return orjson.dumps(recall.receipt).decode() if recall.receipt_text is None else recall.receipt_text


def block_hash(context: str) -> str:
    """Return the first 16 hexadecimal digits of the sha256 of an injected text."""
    # A budget of the plugin may have cut a surrogate pair.
    return sha256(context.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _texts(values: Sequence[Sequence[str]]) -> pa.Array:
    return lists([len(texts) for texts in values], strings([text for texts in values for text in texts]))


def listed(row: Mapping[str, Any], rank: int) -> Listed:
    """Return the item at a rank (from 0) of a row read with ``to_pylist``."""
    return Listed(*(row[f"item_{name}"][rank] for name in ITEMS))
