"""Arguments, filters and orders that the administration tools share (E-85)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.base.utf16 import WHITESPACE, js_length, js_slice
from lab.recordings.model import GLOBAL
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row
from lab.systems.openclaw.js import js_number, to_number
from lab.systems.openclaw.memory import CATEGORIES, resolve_label
from lab.systems.openclaw.recall.scope import scope_token

DEFAULT_LIMIT, MAX_LIMIT = 50, 5000
# UTF-16 units of a text that is shown: by a recall, and in a list.
PREVIEW_CHARS, LISTED_CHARS = 240, 200
SCHEMA_ID, WORKING_SET_PREFIX = "__schema__", "working_set:"
JSON, JSON_LINES = "json", "jsonl"
DEDUPE_NONE, DEDUPE_ID, DEDUPE_ID_TEXT = "none", "id", "id_text"
_DAY_MS = 86_400_000
# The Gregorian calendar repeats after 400 years; Python's years end at 9999, those of JavaScript much later.
_CYCLE_MS, _LAST_MS = 146_097 * _DAY_MS, 8_640_000_000_000_000


def admin_limit(raw: object, default: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> int:
    """Return a limit as a whole number from 1 to ``most``; ``default`` for what is neither a number nor text of one.

    Blank text is 0 in JavaScript, so it gives 1.
    """
    number = math.nan
    if isinstance(raw, str):
        parsed = js_number(raw)
        number = math.nan if parsed is None else parsed
    elif isinstance(raw, int | float) and not isinstance(raw, bool):
        number = to_number(raw)
    return min(most, max(1, math.floor(number))) if math.isfinite(number) else default


def transfer_limit(raw: object, *, upstream: bool) -> int | None:
    """Return how many memories an export or an import takes: the plugin's 5,000 at most, or all of them (None).

    Profile ``seed`` has a limit only if the call names one, because a backup that leaves rows out loses them.
    """
    if upstream:
        return admin_limit(raw, MAX_LIMIT)
    return None if raw is None else admin_limit(raw, sys.maxsize, sys.maxsize)


def admin_category(raw: object) -> str | None:
    """Return the category to filter by, trimmed and lower-cased; None (no filter) if there is no such category."""
    category = raw.strip(WHITESPACE).lower() if isinstance(raw, str) else ""
    return category if category in CATEGORIES else None


def admin_scope(raw: object) -> str | None:
    """Return the scope to filter by (E-31); None (no filter) if nothing valid remains, as of ``--``."""
    return scope_token(raw) or None


def dedupe_mode(raw: object) -> str:
    """Return how an import finds duplicates: ``none``, ``id``, or ``id_text``, which is also the default."""
    mode = raw.strip(WHITESPACE).lower() if isinstance(raw, str) else ""
    return mode if mode in (DEDUPE_NONE, DEDUPE_ID) else DEDUPE_ID_TEXT


def format_of(path: str, given: object = None) -> str:
    """Return ``json`` or ``jsonl``: as given, else ``json`` if the name ends with ``.json``, else ``jsonl``."""
    if given in (JSON, JSON_LINES):
        return str(given)
    return JSON if path.lower().endswith(".json") else JSON_LINES


def is_working_set(identity: object) -> bool:
    """Whether an id is that of a stored Working Set (E-28)."""
    return isinstance(identity, str) and identity.startswith(WORKING_SET_PREFIX)


def iso_time(milliseconds: float) -> str:
    """Return a time as ``2025-10-09T08:53:20.000Z``; blank if it is not positive or too late for JavaScript."""
    if not (math.isfinite(milliseconds) and 0 < milliseconds <= _LAST_MS):
        return ""
    cycles, rest = divmod(int(milliseconds), _CYCLE_MS)
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=rest)
    year = time.year + 400 * cycles
    shown = f"{year:04d}" if year <= 9999 else f"+{year:06d}"
    return f"{shown}-{time:%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"


def filtered(rows: Iterable[Row], scope: str | None, category: str | None) -> list[Row]:
    """Return the rows of a scope and a category (None: any). A row without a scope is in ``global``."""
    return [
        row
        for row in rows
        if (scope is None or row.scope == scope or (scope == GLOBAL and not row.scope))
        and (category is None or row.category == category)
    ]


def newest_first(rows: Iterable[Row]) -> list[Row]:
    """Return rows newest first, then by id."""
    return sorted(rows, key=lambda row: (-row.created_at, id_order(row.id)))


def oldest_first(rows: Iterable[Row]) -> list[Row]:
    """Return rows oldest first, then by id."""
    return sorted(rows, key=lambda row: (row.created_at, id_order(row.id)))


def shown_label(row: Row) -> str:
    """Return the label of a row; a blank one follows from the score."""
    return resolve_label(row.importance_label, row.importance)


def preview(text: str, most: int = PREVIEW_CHARS) -> str:
    """Return at most ``most`` UTF-16 units of a text, with an ellipsis if it was cut."""
    return text if js_length(text) <= most else f"{js_slice(text, most)}…"


def listed(item: dict[str, Any]) -> str:
    """Return the line of a memory in a list."""
    return f"[{item['category']}|{item['importance_label']}] {preview(item['text'], LISTED_CHARS)}"


def filters(scope: str | None, category: str | None, **more: object) -> dict[str, Any]:
    """Return the filters that were applied, as receipts name them."""
    return {"scope": scope, "category": category, **more}


def numbered(lines: Sequence[str]) -> str:
    """Return lines numbered from 1."""
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
