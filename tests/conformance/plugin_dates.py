"""Parse the creation time of a memory as the plugin does, whatever its type (parity notes, "createdAt").

The value is converted with JavaScript's ``Number``, else with ``Date.parse``; anything else gives 0.
"""

from __future__ import annotations

import math
import re
from datetime import date

from lab.base.utf16 import WHITESPACE
from lab.systems.openclaw.js import to_number

# The formats that stores write: ISO 8601, also with a space for the T or without a colon in the offset. Names of
# months and zones are not supported.
_DATE = re.compile(
    r"(?P<year>[0-9]{4}|[+-][0-9]{6})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?"
    r"(?:[Tt ] *(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    r" *(?P<zone>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
# The largest distance from 1970 of a JavaScript date.
_MOST_MS = 8.64e15
_EPOCH_DAY, _DAYS_OF_400_YEARS = date(1970, 1, 1).toordinal(), 146_097


def created_at_ms(value: object) -> float:
    """Return a ``createdAt`` of any JSON type in epoch milliseconds; 0 if it is not a finite number or date."""
    number = to_number(value)
    if math.isnan(number) and isinstance(value, str):
        number = parse_date(value)
    return number if math.isfinite(number) else 0.0


def parse_date(text: str) -> float:
    """Parse the formats above like ``Date.parse``, as UTC if the text has no offset; NaN for anything else.

    Days beyond the end of a month, up to 31, run over into the next month: 2026-02-30 is 2 March.
    """
    match = _DATE.fullmatch(text.strip(WHITESPACE))
    if not match:
        return math.nan
    year, month, day, hour, minute, second = (
        int(match[name] or default)
        for name, default in (("year", 0), ("month", 1), ("day", 1), ("hour", 0), ("minute", 0), ("second", 0))
    )
    midnight = hour == 24 and minute == second == 0 and not int(match["fraction"] or 0)
    if not (1 <= month <= 12 and 1 <= day <= 31 and (hour < 24 or midnight) and minute < 60 and second < 60):
        return math.nan
    # Python's years end at 9999, and the calendar repeats every 400 years.
    days = date(2000 + year % 400, month, 1).toordinal() + (year // 400 - 5) * _DAYS_OF_400_YEARS - _EPOCH_DAY + day - 1
    milliseconds = int(f"{match['fraction'] or ''}000"[:3])
    point = ((days * 24 + hour) * 60 + minute - _offset(match["zone"])) * 60_000 + second * 1000 + milliseconds
    return float(point) if abs(point) <= _MOST_MS else math.nan


def _offset(zone: str | None) -> int:
    """Return the minutes east of UTC."""
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return -minutes if zone[0] == "-" else minutes
