"""Receipts on disk: one Parquet file a conversation, one row an arm and moment; timings in a file of their own.

Receipts are a function of the input alone, so two runs can be compared byte for byte. Memories appear by key and id,
never by text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.columns import booleans, lists, numbers, strings
from lab.recordings.model import Recording
from lab.replay.loop import Answered
from lab.replay.safety_checks import Checked, SafetyChecks, tokens
from lab.replay.writes import Aligned
from lab.utf16 import js_length

if TYPE_CHECKING:
    import pyarrow as pa

KIND, VERSION = "lab.receipts", "4"


class Listed(NamedTuple):
    """An item as a receipt lists it; see :func:`receipts_table`."""

    key: str
    id: str
    tier: str | None
    label: str | None
    scope: str | None
    score: float
    fts_rank: int | None
    vec_rank: int | None
    decision: str | None


ITEM_FIELDS = Listed._fields
# Fields that are kept as numbers of a kind, and not as text.
NUMBERS = {"score": "float64", "fts_rank": "int32", "vec_rank": "int32"}


# Before the id of a captured item that stands for no memory of the recording.
OWN = "own:"


def receipts_table(answers: Sequence[Answered], recording: Recording, aligned: Aligned) -> pa.Table:
    """The receipts of one conversation, a row an answer.

    Columns ``arm, turn, seq, scope, recalls, probe, status, failure`` (why the recall failed; else null), ``injected,
    visible, visible_nice, chars, hard_rules, hard_kept, pinned, duplicates``, a list column ``item_…`` for each of
    :data:`ITEM_FIELDS`, ``log, receipt``, and of the block what follows. ``item_key`` is the memory's key; of a
    captured item the judged memory that it stands for, where no item before it stands for the same, else its
    own id behind ``own:``.

    * ``block``: 16 hexadecimal digits of the sha256 of the injected text; ``tokens``: its estimate
    * ``evicted``: what the budget dropped; null where no receipt tells
    * ``future``: injected or pinned memories that are born after the moment, or forgotten before it
    * ``duplicates``: injected memories that say, but for case and spaces, what an earlier one of the block says
    * ``raw``: injected memories with markup (``< > &``) that stands in the block as it is
    * ``superseded``: injected memories that one born by then supersedes; ``stale``: those of them before which none
      that supersedes them stands; ``outdated``: memories of the conversation that are superseded by then
    """
    import pyarrow as pa

    safety_checks = SafetyChecks(recording)
    checked = [safety_checks.check(one.recall, one.point.seq, fed=one.fed) for one in answers]
    recalls = [one.recall for one in answers]
    counts = [len(recall.items) for recall in recalls]
    scopes = {turn.key: turn.scope for turn in recording.turns} | {one.key: one.scope for one in recording.memories}
    flat = [values for one in answers for values in _items(one, aligned, scopes)]
    columns = list(zip(*flat, strict=True)) if flat else [()] * len(ITEM_FIELDS)
    listed = {
        f"item_{name}": lists(counts, numbers(column, NUMBERS[name]) if name in NUMBERS else strings(column))
        for name, column in zip(ITEM_FIELDS, columns, strict=True)
    }
    table = pa.table(
        {
            "arm": strings([one.arm for one in answers]),
            "turn": strings([one.point.key for one in answers]),
            "seq": numbers([one.point.seq for one in answers], "int32"),
            "scope": strings([one.scope for one in answers]),
            "recalls": booleans([one.point.recalls for one in answers]),
            "probe": strings([one.point.probe.id if one.point.probe else None for one in answers]),
            "status": strings([recall.status for recall in recalls]),
            "failure": strings([str(one.failure) if one.failure else None for one in answers]),
            "injected": numbers([recall.injected for recall in recalls], "int32"),
            "visible": numbers([one.visible for one in answers], "int32"),
            "visible_nice": numbers([one.visible_nice for one in answers], "int32"),
            "chars": numbers([js_length(recall.context) for recall in recalls], "int32"),
            "hard_rules": numbers([one.hard_rules for one in answers], "int32"),
            "hard_kept": numbers([one.hard_kept for one in answers], "int32"),
            "pinned": _texts([recall.pinned for recall in recalls]),
            "duplicates": numbers([recall.duplicates for recall in recalls], "int32"),
            **listed,
            "log": _texts([recall.log for recall in recalls]),
            "receipt": strings([_receipt(one) for one in answers]),
            "block": strings([_hash(recall.context) for recall in recalls]),
            "tokens": numbers([tokens(recall.context) for recall in recalls], "int32"),
            "evicted": numbers([recall.evicted for recall in recalls], "int32"),
            **{name: numbers([one[place] for one in checked], "int32") for place, name in enumerate(Checked._fields)},
        }
    )
    return table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION})


def latency_table(answers: Sequence[Answered]) -> pa.Table:
    """Columns ``arm, turn, stage, ns, cold``; cold is the first moment of the conversation."""
    import pyarrow as pa

    first = answers[0].point.key if answers else None
    timed = [(one, stage, spent) for one in answers for stage, spent in one.recall.timings.items()]
    table = pa.table(
        {
            "arm": strings([one.arm for one, _, _ in timed]),
            "turn": strings([one.point.key for one, _, _ in timed]),
            "stage": strings([stage for _, stage, _ in timed]),
            "ns": numbers([spent for _, _, spent in timed], "int64"),
            "cold": booleans([one.point.key == first for one, _, _ in timed]),
        }
    )
    return table.replace_schema_metadata({"kind": "lab.latency", "schema_version": VERSION})


def _items(one: Answered, aligned: Aligned, scopes: Mapping[str, str]) -> Iterator[Listed]:
    """The columns of the items of an answer; a scope that its system does not name is that of where it came from."""
    if one.fed:
        for identity, _, _, score, (own, label, scope, fts_rank, vec_rank, decision), tier in one.recall.items:
            # What Listed(…) does, at half its cost.
            scope = scopes.get(identity) if scope is None else scope
            row = (identity, own or identity, tier, label, scope, score, fts_rank, vec_rank, decision)
            yield tuple.__new__(Listed, row)
        return
    taken: set[str] = set()
    for item in one.recall.items:
        alignment = aligned.get((one.arm, item.id))
        # An id of the system's own says nothing of what it is: it must never be taken for a memory's key.
        key = alignment.memory if alignment is not None and alignment.memory not in taken else f"{OWN}{item.id}"
        taken.add(key)
        own, label, scope, fts_rank, vec_rank, decision = item.signals
        if scope is None:
            scope = next((scopes[source] for source in item.sources if source in scopes), None)
        yield Listed(key, own or item.id, item.tier, label, scope, item.score, fts_rank, vec_rank, decision)


def _receipt(one: Answered) -> str:
    """The receipt as the system writes it, else as JSON."""
    import orjson

    recall = one.recall
    return orjson.dumps(recall.receipt).decode() if recall.receipt_text is None else recall.receipt_text


def _hash(context: str) -> str:
    # A budget of the plugin may have cut a character in two.
    return sha256(context.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _texts(values: Sequence[Sequence[str]]) -> pa.Array:
    return lists([len(one) for one in values], strings([text for one in values for text in one]))


def listed(row: Mapping[str, Any], rank: int) -> Listed:
    """The item at a rank (from 0) of a row read with ``to_pylist``."""
    return Listed(*(row[f"item_{name}"][rank] for name in ITEM_FIELDS))
