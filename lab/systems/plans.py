"""Plans: memories of what is to happen, and when they are due. A past plan is no longer current (PL-1).

A plan is not a fact: "renew the certificate by 2026-11-20" says nothing about the certificate on 2026-11-21.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

from lab.base.regex import regex
from lab.base.times import LAST_MS, as_datetime, epoch_ms
from lab.recordings.model import SEARCHED, Memory

# The kind of a plan in a ledger and in a pack.
PLAN = "plan"
FIELD = "due_at"
_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
# A date with a time that cannot be read is no plan, rather than one of another time.
_WHEN = rf"(?P<when>{_DAY}(?:{_TIME})?)(?![\d-]|[:.+T]\d| \d{{1,2}}:)"
# What precedes or follows the date of a plan. Each is explicit: a date alone makes no plan (PL-2).
_RULES = (
    rf"\b(?:by|due(?: on| by| at)?|deadline(?: is|:)?|no later than|not later than) {_WHEN}",
    rf"\bremind (?:me|us)\b[^.!?\n]{{0,80}}?\b(?:on|at|by) {_WHEN}",
    rf"\b(?:on|at) {_WHEN},? remind (?:me|us)\b",
    rf"{_WHEN} ?(?:之?前|以前|截止|到期|提醒我)",
    rf"提醒我[^。！？\n]{{0,40}}?{_WHEN}",
)
_PATTERNS = tuple(regex(rule, re.IGNORECASE) for rule in _RULES)
_END_OF_DAY = timedelta(days=1) - timedelta(milliseconds=1)


def is_plan(kind: str | None) -> bool:
    """Return whether a kind is that of a plan."""
    return (kind or "").strip().lower() == PLAN


def is_past(due_ms: int | None, now_ms: int) -> bool:
    """Return whether a plan was due before ``now_ms``; what has no due time is never past (PL-1)."""
    return due_ms is not None and due_ms < now_ms


def due_at_of(memory: Memory) -> int | None:
    """Return when a memory is due, in milliseconds since the epoch: as recorded, else by its text (PL-2)."""
    return due_in(memory.text, memory.created_at) if memory.due_at is None else memory.due_at


def due_in(text: str, written_ms: int) -> int | None:
    """Return the first due time that a text states by one of the rules, in milliseconds; None if there is none (PL-2).

    A time that is not after ``written_ms``, when the text was written, makes no plan: the text reports the past.
    """
    return min((due for due in _stated(text[:SEARCHED]) if due > written_ms), default=None)


def read_due(value: object) -> int | None:
    """Return a due time given as a date, a time or a number (TI-1, TI-2), else None.

    A date is due at its last millisecond, in UTC (PL-1).
    """
    due = epoch_ms(value)
    if due is not None and isinstance(value, str) and _is_date(value.strip()):
        due += _END_OF_DAY // timedelta(milliseconds=1)
    return due if due is not None and 0 <= due <= LAST_MS else None


def utc_time(ms: int) -> str:
    """Return a due time in milliseconds as :func:`read_due` reads it back: ISO 8601, in UTC."""
    time = as_datetime(ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_date(text: str) -> bool:
    """Return whether a text is a date without a time in a form of ISO 8601."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _stated(text: str) -> Iterator[int]:
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            due = read_due(match["when"])
            if due is not None:
                yield due
