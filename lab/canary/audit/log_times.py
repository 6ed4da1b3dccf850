"""Find the times that hosts, collectors and consoles write into log lines."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lab.base.times import SECONDS, read_time

# Seconds since 1970, and whether the time has a time zone.
Seconds = tuple[float, bool]
# Search for a time in this many characters; longer fields are texts that may mention one.
_HEAD, _LONGEST = 200, 64
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?"
)
# A number of ten digits that begins with 1 is of the years 2001 to 2033; longer ones have parts of a second.
_NUMBER = re.compile(r"(?<![\w.:-])1\d{9}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?(?![\w.:-])")
# Such as 01/Mar/2026:09:00:00 +0000.
_WRITTEN = re.compile(
    r"(\d{1,2})[ /-](Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[ /-](\d{4})[: ]+(\d\d:\d\d:\d\d)"
    r"(?:\s?(UTC|GMT|[+-]\d{4}))?"
)
_CLOCK = re.compile(r"(?<![\d:.-])([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,9}))?(?![\d:])")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# 2000-01-01 and 2100-01-01, between which a number is certain to be a time.
_FROM, _BEFORE = 946_684_800, 4_102_444_800


def read_seconds(value: object, *, certain: bool = False, searched: bool = False) -> Seconds | None:
    """Return the time that a field of a JSON line holds, or None; small numbers are seconds.

    ``certain`` is for fields that may be something else: the time must be of this century. A text that holds a time
    among other words is searched for it, unless it comes from a search.
    """
    time = None
    if isinstance(value, str):
        if value[4:5] == "-":
            # Most times are written so, and reading them is most of what a line without a wrapper needs.
            try:
                parsed = datetime.fromisoformat(value)
            except ValueError:
                pass
            else:
                zoned = parsed.tzinfo is not None
                time = (parsed if zoned else parsed.replace(tzinfo=UTC)).timestamp(), zoned
        elif len(value) < 8 or len(value) > _LONGEST:
            return None
    if time is None and (read := read_time(value, SECONDS)) is not None and read.ms > 0:
        time = read.ms / 1000, read.zoned
    if time is None and isinstance(value, str) and not searched:
        time = written_time(value)
    if time is None or (certain and not _FROM <= time[0] < _BEFORE):
        return None
    return time


def written_time(text: str) -> Seconds | None:
    """Return the time with its date that a text before or behind a line holds, or None.

    Of several times the last counts, which stands nearest to the line, or the last with a zone.
    """
    head = text[:_HEAD]
    nearest = None
    for found in _ISO.findall(head):
        time = read_seconds(found, searched=True)
        if time is not None and (nearest is None or time[1] >= nearest[1]):
            nearest = time
    if nearest is not None:
        return nearest
    if number := _NUMBER.search(head):
        read = read_time(number[0])
    elif written := _WRITTEN.search(head):
        day, month, year, clock, zone = written.groups(default="")
        read = read_time(f"{day} {month} {year} {clock} {zone}".rstrip())
    else:
        return None
    return None if read is None else (read.ms / 1000, read.zoned)


def written_clock(text: str) -> float | None:
    """Return the second of the day in a text before a line, or None."""
    match = _CLOCK.search(_COLOURS.sub(" ", text[:_HEAD]))
    if match is None:
        return None
    hours, minutes, seconds, fraction = match.groups()
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")
