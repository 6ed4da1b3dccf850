"""Validate answers of systems from other packages: types, ranges, and encodable texts.

Systems of this project are typed and tested, and need no validation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lab.systems.contract import Item, Recall, Signals, Stored, Writes

STATUSES = ("ok", "skipped", "degraded")


class Broken(Exception):
    """A breach of the contract by a system; the only argument is its kind."""


def require_recall(answer: object) -> None:
    """Raise :class:`Broken` for a recall whose fields do not match the contract."""
    if not isinstance(answer, Recall):
        raise Broken("no_recall")
    if answer.status not in STATUSES:
        raise Broken("unknown_status")
    _require(isinstance(answer.items, tuple) and all(map(_is_item, answer.items)), "bad_item")
    _require(type(answer.injected) is int, "bad_injected")
    _require(_is_text(answer.context), "bad_context")
    _require(isinstance(answer.timings, dict), "bad_timings")
    _require(_are_texts(answer.pinned), "bad_pinned")
    _require(_are_texts(answer.displaced), "bad_displaced")
    _require(_are_texts(answer.log), "bad_log")
    _require(_is_count(answer.duplicates) and _is_count(answer.evicted), "bad_count")
    _require(answer.receipt_text is None or _is_text(answer.receipt_text), "bad_receipt")
    require_writes(answer.writes)
    _require_receipt(answer.receipt)


def require_writes(writes: object) -> None:
    """Raise :class:`Broken` for writes whose fields do not match the contract."""
    _require(isinstance(writes, Writes), "no_writes")
    if isinstance(writes, Writes):
        _require(all(map(_is_stored, (*writes.created, *writes.updated))), "bad_write")
        _require(_are_texts(tuple(writes.deleted)), "bad_write")
        _require(_are_texts(writes.log), "bad_log")
        _require_receipt(writes.receipt)


def _require_receipt(receipt: object) -> None:
    import orjson

    if not isinstance(receipt, Mapping):
        raise Broken("bad_receipt")
    try:
        orjson.dumps(dict(receipt))
    except (TypeError, ValueError, RecursionError):
        raise Broken("bad_receipt") from None


def _require(holds: bool, kind: str) -> None:
    if not holds:
        raise Broken(kind)


def _is_text(value: object) -> bool:
    """Return whether a value is a text that UTF-8 can encode."""
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


def _is_stored(value: object) -> bool:
    return isinstance(value, Stored) and _is_text(value.id) and _is_text(value.text) and _are_texts(value.sources)


def _is_item(value: object) -> bool:
    if not (isinstance(value, Item) and _is_text(value.id) and _is_text(value.text) and _are_texts(value.sources)):
        return False
    signals = value.signals
    if not (isinstance(signals, Signals) and isinstance(value.score, int | float) and math.isfinite(value.score)):
        return False
    texts = (value.tier, signals.id, signals.label, signals.scope, signals.decision)
    ranks = (signals.fts_rank, signals.vec_rank)
    return all(text is None or _is_text(text) for text in texts) and all(map(_is_count, ranks))
