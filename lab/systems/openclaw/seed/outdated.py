"""Memories that no longer hold: a newer one replaces them, or they say themselves that they have ended.

Both are seen at recall, by rules and without a model, and neither deletes anything: such a memory ranks behind all
others (E-100). No design document requires them, so both are off unless a configuration turns them on.

* **Replaced** (``lab.phases.replaced``). Of two memories of one scope among the first :data:`FIRST` of the pool, the
  older is replaced if the words that both have weigh at least this share of the words that either has. A word weighs
  more the fewer memories of the pool have it, so that what they are all about weighs nothing. Memories that were stored
  together, within :data:`APART`, say different things of one matter, and replace nothing.
* **Ended** (``lab.phases.ended``). The text says until when it holds, and that day is over.

The Working Set leaves them out; the rows that it considers are compared with each other.

Texts of more than :data:`LONGEST` characters say several things, so neither rule applies to them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import date, timedelta
from functools import lru_cache

from lab.base.regex import regex
from lab.base.times import DAY_MS, LAST_MS, MONTHS, as_datetime
from lab.retrieval.contract import Row
from lab.systems.openclaw.near_duplicate import words_of

# How many of the first memories of the pool are compared, how long a text may be, and how many words two must share.
FIRST, LONGEST, COMMON = 12, 160, 3
# In milliseconds.
APART = 60_000
# English words that carry no subject; Chinese ones are within pairs of characters.
_EMPTY = words_of(
    "a about all also an and any are as at be been but by can did do does each for from had has have he her his i if in"
    " is it its may me must my no not of on one only or our she so than that the their them then they this to two us"
    " was we were when which who will with would you your"
)

_SHORT = tuple(name[:3] for name in MONTHS)
_MONTH = rf"\b(?:{'|'.join((*MONTHS, *_SHORT))}|sept)\b\.?"
_DAY = r"\d{1,2}(?:st|[nr]d|th)?"
_DATE = (
    rf"(?:(?P<iso>\d{{4}}-\d{{2}}-\d{{2}})|(?P<day>{_DAY}) (?P<month>{_MONTH})(?:,? (?P<year>\d{{4}}))?"
    rf"|(?P<month2>{_MONTH}) (?P<day2>{_DAY})(?:,? (?P<year2>\d{{4}}))?)\b"
)
_PATTERNS = (
    regex(rf"\b(?:until|till|through|up to)\b[^.;:!?]{{0,24}}?\b{_DATE}", re.IGNORECASE),
    regex(rf"(?:\d|{_MONTH}) ?(?:to|–|—) ?{_DATE}", re.IGNORECASE),
    # "4/20 到 5/4", "到 9/11", but not "改到 4/24", which is when something now takes place.
    regex(
        r"(?<![改延提順移訂定])(?:到|至|–|—|~|～) ?"
        r"(?:(?P<year>\d{4})[年/])?(?P<month>\d{1,2})(?:月|/)(?P<day>\d{1,2})(?:日|號)?(?!\d|/)"
    ),
)
# A day is over everywhere, whatever the time zone of the person: 36 hours after it began in UTC.
_OVER = 36 * 3_600_000


def replaced(first: Iterable[Row], pool: Collection[Row], share: float) -> dict[str, str]:
    """Return which of the ``first`` rows newer ones among them replace: by id, that of the first one that does.

    ``pool`` are the rows by which words are weighed. ``share`` in 0..1 is the least weight that both texts share; 0
    replaces nothing.
    """
    if share <= 0:
        return {}
    counts = Counter(word for row in pool for word in _words(row.text))
    short = [(row, _words(row.text)) for row in first if len(row.text) <= LONGEST]

    def weight(words: frozenset[str]) -> float:
        return math.fsum(sorted(max(0.0, math.log((len(pool) + 1) / (counts[word] + 0.5))) for word in words))

    def replaces(new: Row, said: frozenset[str], old: Row, had: frozenset[str]) -> bool:
        if new.created_at - old.created_at < APART or new.scope != old.scope or len(said & had) < COMMON:
            return False
        return weight(said & had) >= share * weight(said | had)

    newer = {old.id: next((new.id for new, said in short if replaces(new, said, old, had)), None) for old, had in short}
    return {old: new for old, new in newer.items() if new is not None}


@lru_cache(maxsize=65_536)
def _words(text: str) -> frozenset[str]:
    return words_of(text) - _EMPTY


def has_ended(row: Row, now_ms: float) -> bool:
    """Return whether a memory says until when it holds, and that is past."""
    end = last_day(row.text, row.created_at)
    return end is not None and now_ms >= end


@lru_cache(maxsize=65_536)
def last_day(text: str, created_at: int) -> int | None:
    """Return when the last day that a text names as its end is over, in ms since 1970; None if it names none.

    A date without a year is the first one that is not before the text.
    """
    if len(text) > LONGEST or not 0 <= created_at <= LAST_MS:
        return None
    written = as_datetime(created_at).date()
    days = [day for pattern in _PATTERNS for match in pattern.finditer(text) if (day := _day(match, written))]
    # In milliseconds, because the last day of a datetime has no next one.
    return (max(days) - date(1970, 1, 1)).days * DAY_MS + _OVER if days else None


def _day(match: re.Match[str], written: date) -> date | None:
    found = match.groupdict()
    try:
        if found.get("iso"):
            return date.fromisoformat(found["iso"])
        month = found.get("month") or found.get("month2") or ""
        number = int(month) if month.isdigit() else _SHORT.index(month[:3].lower()) + 1
        day = int((found.get("day") or found.get("day2") or "").lower().rstrip("stndrh"))
        year = found.get("year") or found.get("year2")
        if year:
            return date(int(year), number, day)
        end = date(written.year, number, day)
        return end if end >= written - timedelta(days=1) else date(written.year + 1, number, day)
    except ValueError:
        return None
