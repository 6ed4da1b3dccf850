"""Read times that other programs wrote: numbers of any unit, texts, and columns of Arrow (TI-1 to TI-4).

Everything that reads a time from outside uses :func:`read_time` or :func:`epoch_ms`. Formats with a rule of their own
keep it: the plugin's reading of ``createdAt``, and the dates of published data sets.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.regex import regex

if TYPE_CHECKING:
    import pyarrow as pa

# Units by their number in a second.
SECONDS, MILLISECONDS, MICROSECONDS, NANOSECONDS = 1, 1_000, 1_000_000, 1_000_000_000
UNITS = {
    SECONDS: "seconds",
    MILLISECONDS: "milliseconds",
    MICROSECONDS: "microseconds",
    NANOSECONDS: "nanoseconds",
}
# 2000-01-01 in seconds, and the end of the seconds that are taken for such: 5138-11-16. The intervals of the units do
# not overlap.
FROM, BEFORE = 946_684_800, 100_000_000_000
# The last millisecond of the year 9999, and the first of the year 1, which are the limits of datetime.
LAST_MS, FIRST_MS = 253_402_300_799_999, -62_135_596_800_000
DAY_MS = 24 * 3600 * 1000
# English names, whatever the locale.
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Longer texts are no times.
_LONGEST = 100
_NUMBER = regex(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_COMPACT = regex(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])[0-5]\d[0-5]\d")
# ISO 8601 as programs vary it: a blank for the T, small letters, a zone in letters or in brackets.
_ISO = regex(
    r"(?P<date>\d{4}-?(?:\d{2}-?\d{2}|W\d{2}(?:-?\d)?))"
    r"(?:(?:[Tt]|\s+)(?P<clock>\d{2}(?::?\d{2}(?::?\d{2}(?:[.,]\d+)?)?)?)"
    r"\s*(?P<zone>[Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?(?:\s*\[[\w/+-]+\])?)?"
)
# JavaScript's Date.toString, whose zone the reader of mail takes for no zone.
_JAVASCRIPT = regex(r"(?P<day>\w{3} \w{3} \d{2} \d{4} \d{2}:\d{2}:\d{2}) GMT(?P<zone>[+-]\d{4})(?: \(.*\))?")


class Time(NamedTuple):
    """A time in epoch milliseconds; the unit in which a number gave it (None for others); whether it names its zone."""

    ms: int
    unit: int | None = None
    zoned: bool = True


def epoch_ms(value: object, unit: int = MILLISECONDS) -> int | None:
    """Return a time as epoch milliseconds, or None if the value is none; see :func:`read_time`."""
    read = read_time(value, unit)
    return None if read is None else read.ms


def read_time(value: object, unit: int = MILLISECONDS) -> Time | None:
    """Return the time that a value gives, or None if it gives none.

    A number is in seconds, milliseconds, microseconds or nanoseconds since 1970, whichever puts it between 2000 and
    5138; if none does, it is in ``unit``, which its source declares. A text is such a number, ISO 8601 or RFC 2822; a
    text without a zone is in UTC, as is a date or datetime without one.
    """
    if isinstance(value, str):
        return _of_text(value.strip(), unit) if len(value) <= _LONGEST else None
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, date):
        return _of_datetime(datetime.fromisoformat(value.isoformat()))
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return _of_number(value, unit)


def date_ms(text: Any, form: str, wrong: str) -> int:
    """Return a date of a form of ``strptime``, read as UTC; raise :class:`UnusableInput` with ``wrong`` for another."""
    try:
        return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()) * 1000
    except (TypeError, ValueError):
        raise UnusableInput(wrong) from None


def now_ms() -> int:
    """Return the wall clock's time. Only notes may depend on it, never what a reader returns (TI-4)."""
    return int(time.time() * 1000)


def as_datetime(ms: int) -> datetime:
    """Return epoch milliseconds from the year 1 to 9999 as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


def _of_number(value: int | float | Decimal, declared: int) -> Time | None:
    # The comparison is false for NaN, and exact for integers that are too large for a float.
    if not -BEFORE * NANOSECONDS < value < BEFORE * NANOSECONDS:
        return None
    unit: int = next((unit for unit in UNITS if FROM * unit <= value < BEFORE * unit), declared)
    if unit == SECONDS:
        ms = round(value * 1000)
    else:
        # Whole numbers are divided without a float, which cannot hold nanoseconds.
        whole = value if isinstance(value, int) else math.floor(value)
        ms = whole // (unit // MILLISECONDS)
    return Time(ms, unit) if FIRST_MS <= ms <= LAST_MS else None


def _of_text(text: str, unit: int) -> Time | None:
    if _COMPACT.fullmatch(text):
        text = f"{text[:8]}T{text[8:]}"
    elif _NUMBER.fullmatch(text) and not _is_date(text):
        return _of_number(int(text) if text.lstrip("+-").isdecimal() else Decimal(text), unit)
    try:
        if match := _ISO.fullmatch(text):
            zone = match["zone"] or ""
            zone = "Z" if zone in ("z", "UTC", "GMT") else zone
            clock = match["clock"]
            return _of_datetime(datetime.fromisoformat(f"{match['date']}T{clock}{zone}" if clock else match["date"]))
        if match := _JAVASCRIPT.fullmatch(text):
            text = f"{match['day']} {match['zone']}"
            return _of_datetime(datetime.strptime(text, "%a %b %d %Y %H:%M:%S %z"))
        return _of_datetime(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _is_date(text: str) -> bool:
    """Return whether eight digits are a date of this or the last century, not a number."""
    return len(text) == 8 and text[:2] in ("19", "20") and _COMPACT.fullmatch(f"{text}000000") is not None


def _of_datetime(value: datetime) -> Time | None:
    zoned = value.tzinfo is not None
    value = value if zoned else value.replace(tzinfo=UTC)
    # Whole microseconds, because a float of seconds has fewer digits.
    ms = ((value - _EPOCH) // timedelta(microseconds=1) + 500) // 1000
    # In UTC, a time at the edge of the calendar may be beyond it.
    return Time(ms, None, zoned) if FIRST_MS <= ms <= LAST_MS else None


def without_arrow_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose columns of Arrow's timestamps are datetimes in milliseconds, which Python can represent.

    Python has no nanoseconds, and no zone of a name that the machine does not know; years that it has not become null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_timestamp(field.type):
            ms = column.cast(pa.timestamp("ms", field.type.tz), safe=False).cast(pa.int64())
            fits = pc.and_(pc.greater_equal(ms, FIRST_MS), pc.less_equal(ms, LAST_MS))
            ms = pc.if_else(fits, ms, pa.scalar(None, pa.int64()))
            columns.append(ms.cast(pa.timestamp("ms", "UTC")))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class Times:
    """Reader of the times of one source, which counts those that are odd.

    ``unit`` is what the source declares, ``first`` and ``last`` are the times that its model can hold, and ``now`` is
    the wall clock.
    """

    def __init__(
        self, unit: int = MILLISECONDS, *, first: int = FIRST_MS, last: int = LAST_MS, now: int | None = None
    ) -> None:
        self._unit, self._first, self._last = unit, first, last
        self._tomorrow = (now_ms() if now is None else now) + DAY_MS
        self._units: Counter[int] = Counter()
        self._early = self._late = 0

    def read(self, value: object) -> int | None:
        """Return a time as :func:`epoch_ms` does, and count it if it is odd; None beyond the limits."""
        read = read_time(value, self._unit)
        if read is None or not self._first <= read.ms <= self._last:
            return None
        if read.unit not in (None, self._unit):
            self._units[read.unit or 0] += 1
        self._early += read.ms < FROM * MILLISECONDS
        self._late += read.ms > self._tomorrow
        return read.ms

    def counts(self) -> dict[str, int]:
        """Return the number of odd times by kind, for notes (TI-3)."""
        counts = {
            f"times in {UNITS[unit]} instead of {UNITS[self._unit]}, read by their size": self._units[unit]
            for unit in UNITS
        }
        counts |= {"times before 2000": self._early, "times after tomorrow": self._late}
        return {what: count for what, count in counts.items() if count}
