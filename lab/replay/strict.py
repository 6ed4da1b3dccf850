"""What a system of another package says, looked at before anybody reads it: types, ranges, and what can be written.

Systems of this project are typed and tested; theirs may say anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lab.systems.contract import Item, Recall, Signals, Stored, Writes

STATUSES = ("ok", "skipped", "degraded")


class Broken(Exception):
    """A system said what cannot be; its one argument names it."""


def require_recall(answer: object) -> None:
    """Refuse a recall with anything in it that is not what the contract says."""
    import orjson

    if not isinstance(answer, Recall):
        raise Broken("no_recall")
    if answer.status not in STATUSES:
        raise Broken("unknown_status")
    _require(isinstance(answer.items, tuple) and all(map(_is_item, answer.items)), "bad_item")
    _require(type(answer.injected) is int, "bad_injected")
    _require(_is_text(answer.context), "bad_context")
    _require(isinstance(answer.timings, dict), "bad_timings")
    _require(_are_texts(answer.pinned), "bad_pinned")
    _require(_are_texts(answer.log), "bad_log")
    _require(_is_count(answer.duplicates) and _is_count(answer.evicted), "bad_count")
    _require(answer.receipt_text is None or _is_text(answer.receipt_text), "bad_receipt")
    require_writes(answer.writes)
    if not isinstance(answer.receipt, Mapping):
        raise Broken("bad_receipt")
    try:
        orjson.dumps(dict(answer.receipt))
    except (TypeError, ValueError, RecursionError):
        raise Broken("bad_receipt") from None


def require_writes(writes: object) -> None:
    """Refuse writes that are none, or whose memories are none."""
    _require(isinstance(writes, Writes), "no_writes")
    if isinstance(writes, Writes):
        _require(all(map(_is_stored, (*writes.created, *writes.updated))), "bad_write")
        _require(_are_texts(tuple(writes.deleted)), "bad_write")


def _require(holds: bool, kind: str) -> None:
    if not holds:
        raise Broken(kind)


def _is_text(value: object) -> bool:
    """A text that can be written as UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_texts(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and all(map(_is_text, values))


def _is_count(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value < 1 << 31)


def _is_stored(one: object) -> bool:
    return isinstance(one, Stored) and _is_text(one.id) and _is_text(one.text) and _are_texts(one.sources)


def _is_item(one: object) -> bool:
    if not (isinstance(one, Item) and _is_text(one.id) and _is_text(one.text) and _are_texts(one.sources)):
        return False
    signals = one.signals
    if not (isinstance(signals, Signals) and isinstance(one.score, int | float) and math.isfinite(one.score)):
        return False
    texts = (one.tier, signals.id, signals.label, signals.scope, signals.decision)
    ranks = (signals.fts_rank, signals.vec_rank)
    return all(text is None or _is_text(text) for text in texts) and all(map(_is_count, ranks))
