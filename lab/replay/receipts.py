"""Receipts and timings of a conversation as tables, for one Parquet file each.

Receipts have one row for each arm and recall point. They are a function of the input alone, so two runs can be compared
byte by byte. They hold keys and ids of memories, never texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.columns import booleans, lists, numbers, strings
from lab.base.token_estimate import tokens
from lab.base.utf16 import js_length
from lab.recordings.model import Recording
from lab.replay.loop import Answered
from lab.replay.readings import Readings
from lab.replay.safety_checks import SafetyChecks
from lab.replay.writes import Aligned
from lab.runs.shapes import ITEMS, READINGS, SAFETY

if TYPE_CHECKING:
    import pyarrow as pa

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
    ``item_…`` for each of :data:`lab.runs.shapes.ITEMS`, ``log, receipt``, and the columns of the injected block that
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
    * ``receipt_bytes``, ``receipt_lines``: the receipt as logged, in bytes of UTF-8 and in rows of an 80-column
      terminal; ``to_explain``: memories that are injected, pinned or displaced (:class:`lab.systems.contract.Recall`);
      ``explained``: those of them with a reason in the receipt. Null without a receipt
    * ``item_exempt``: why a must_remember item may repeat: ``hard_rule``, or the rule of an exact hit, else null
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
