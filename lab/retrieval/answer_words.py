"""What an answer says, in a form that can be counted: its content words, numbers and dates, in English and Chinese.

* **Words.** Those of the text lane (:mod:`lab.retrieval.tokens`): ICU word splitting, lower case, accents folded,
  English stems, so that plurals are equal, without its English stop words. British spellings become American ones.
  Chinese text is split into pairs of neighbouring characters, as Lucene's CJKBigramFilter does, between the function
  characters of :data:`FUNCTION`.
* **Numbers.** ``1,000``, ``twenty-five``, ``3rd``, ``third``, ``三十`` before a measure word.
* **Dates** are spans of days, so that "the week before 9 June 2023" covers 5 June. A date without a year is a month
  and a day. "Yesterday" is a date only if it is known when it was said.
"""

from __future__ import annotations

import re
import tempfile
import unicodedata
from bisect import bisect_right
from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from lab.base.regex import regex
from lab.base.times import MONTHS, as_datetime
from lab.retrieval.quiet import quiet_lance
from lab.retrieval.tokens import TextSettings, table_with_index, words_of_each

# Single characters of stopwords-iso's Chinese list (MIT) that are particles, pronouns, prepositions, conjunctions or
# adverbs of degree; numerals and verbs of the list are content.
FUNCTION = (
    "的地得了着过吗呢吧啊呀嘛哦哈么们"
    "你我他她它您咱这那哪此其之与和及或而但且则因为在于从对把被给让向往到由以比就都也还又很更最太再才只已将是有会能可要想"
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_VALUES = {"zero": 0, "couple": 2, "twice": 2, "dozen": 12}
_VALUES |= {name: value for names in (_UNITS + _TEENS, _ORDINALS) for value, name in enumerate(names, 1)}
_SMALL = rf"(?:(?:{'|'.join(_TENS)})(?:[-\s](?:{'|'.join(_UNITS)}))?|{'|'.join(_VALUES)})"
_VALUES |= {name: 10 * value for value, name in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_SCALE = "|".join(_SCALES)
_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_POWERS = {"十": 10, "百": 100, "千": 1000}

# A single 一 is an article before most measure words.
_MEASURED = regex(
    "(?:[零〇一二三四五六七八九十百千两]{2,}|[二三四五六七八九十两])(?=[年月日号天周个岁位名次点分块本件条张家种层倍米])"
    "|一(?=[年月日号天周岁])"
)
_YEAR = r"(?P<year>(?:19|20)\d\d)"
# A name of a month, or its first three letters or "sept".
_MONTH = (
    r"(?P<month>" + "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in MONTHS) + r"|sept)\.?"
)
_DAY = r"(?P<day>[0-3]?\d)(?:st|[nr]d|th)?"
_PATTERNS = (
    r"(?P<year>(?:19|20)\d\d)-(?P<number>[01]?\d)-(?P<day>[0-3]?\d)",
    r"(?P<day>[0-3]?\d)\.(?P<number>[01]?\d)\.(?P<year>(?:19|20)\d\d)",
    r"(?P<number>[01]?\d)/(?P<day>[0-3]?\d)/(?P<year>(?:19|20)\d\d)",
    (
        r"(?:(?P<from>[0-3]?\d)(?:st|[nr]d|th)?\s?(?:-|–|to|and)\s?)?"
        rf"{_DAY}(?:\sof)?[\s-]{_MONTH}(?:,?\s(?:of\s)?{_YEAR})?"
    ),
    rf"{_MONTH}\s{_DAY}(?![:\d])(?:,?\s{_YEAR})?",
    rf"{_MONTH},?\s(?:of\s)?{_YEAR}",
)
# The first that matches a place counts.
_ABSOLUTE = (
    *(regex(rf"(?<![\w.]){pattern}(?!\w)") for pattern in _PATTERNS),
    regex(r"(?<!\d)(?P<year>(?:19|20)\d\d)年(?:(?P<number>[01]?\d)月(?:份|(?P<day>[0-3]?\d)[日号])?)?"),
    regex(r"(?<!\d)(?P<number>[01]?\d)月(?:份|(?P<day>[0-3]?\d)[日号])?"),
    regex(rf"(?<![\w.,])(?:(?:in|of|since|until|by|early|late|mid|last|next|during)[\s-])?{_MONTH}(?!\w)"),
    regex(r"(?<![\w.,$])(?P<year>(?:19|20)\d\d)(?![\w%]|[.,]\d)"),
)
# Short forms, and words of other meanings, name a month alone only after one of these.
_AMBIGUOUS = {"may", "march"}
_WEEKDAY = "|".join(WEEKDAYS)
_COUNT = r"(?P<count>\d{1,3}|an?)"
_OFFSET = regex(
    rf"(?:the\s)?(?:(?P<what>{_WEEKDAY}|week|weekend|day|night)|{_COUNT}\s(?P<unit>day|week|month)s?)"
    r"\s(?P<side>before|after|following|of|prior to)\s(?:the\s)?$"
)
_RELATIVE = regex(
    r"\b(?:(?P<near>day before yesterday|yesterday|last night|today|tonight|this morning|this afternoon|this evening"
    r"|day after tomorrow|tomorrow)"
    rf"|(?P<side>last|this|next|past)\s(?P<what>{_WEEKDAY}|week|weekend|month|year)"
    rf"|{_COUNT}\s(?P<unit>day|week|month|year)s?\s(?P<ago>ago|before|earlier|from now)"
    rf"|in\s(?P<later>\d{{1,3}}|an?)\s(?P<later_unit>day|week|month|year)s?)\b"
    r"|(?P<zh>大前天|前天|昨天|昨晚|今天|今晚|今早|明天|后天|去年|前年|今年|明年|上周|上个星期|这周|下周|上个?月|这个月|下个月)"
    r"|(?P<zh_count>\d{1,3})\s?(?P<zh_unit>天|周|个星期|个月|年)(?P<zh_side>前|后)"
)
_NEAR = {"day before yesterday": -2, "yesterday": -1, "last night": -1, "tomorrow": 1, "day after tomorrow": 2}
_NEAR |= {"大前天": -3, "前天": -2, "昨天": -1, "昨晚": -1, "明天": 1, "后天": 2}
_NEAR_YEARS = {"去年": -1, "前年": -2, "今年": 0, "明年": 1}
_NEAR_MONTHS = {"上个月": -1, "上月": -1, "这个月": 0, "下个月": 1}
_NEAR_WEEKS = {"上周": "last", "上个星期": "last", "这周": "this", "下周": "next"}
_ZH_UNITS = {"天": "day", "周": "week", "个星期": "week", "个月": "month", "年": "year"}

_IN_WORDS = regex(rf"\b(?:{_SMALL}(?:\s(?:{_SCALE})(?:\s(?:and\s)?{_SMALL})?)*|{_SCALE})\b")
# "Two weeks ago" is read as "2 weeks ago".
_IN_WORDS_BEFORE = regex(rf"\b{_SMALL}(?=\s(?:day|week|month|year)s?\b)")
_NUMBER = regex(
    r"(?:(?<![\w.])\d{1,3}(?:,\d{3})+(?:\.\d{1,6})?(?!\d)|(?<![\d.])\d{1,15}(?:\.\d{1,6})?(?!\d))(?:(?:st|[nr]d|th)\b)?"
)
_HAN = regex("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_SPELLINGS = ((regex(r"(?<=.)our"), "or"), (regex(r"is(?=$|at)"), "iz"), (regex(r"ys$"), "yz"), (regex(r"ter$"), "tr"))
_FUNCTION = regex(f"[{FUNCTION}]")
_SPACE = regex(r"\s+")
# Longer spans are too vague for a date without a year to be one of theirs.
_MONTH_DAYS = 31
# The year 9000: beyond, "in 900 years" would leave the calendar.
_LATEST_MS = 221_845_392_000_000


class Date(NamedTuple):
    """The days from ``first`` to ``last``, as ordinals; or any year's ``month`` and ``day`` (0: the whole month)."""

    first: int = 0
    last: int = 0
    month: int = 0
    day: int = 0

    def covers(self, other: Date) -> bool:
        """Return whether another date lies in this one, as far as both say."""
        if self.month and other.month:
            return self.month == other.month and self.day in (0, other.day)
        if self.month:
            first, last = date.fromordinal(other.first), date.fromordinal(other.last)
            same = (first.year, first.month) == (last.year, last.month) and first.month == self.month
            return same and (not self.day or first.day == last.day == self.day)
        if other.month:
            years = (date.fromordinal(self.first).year, date.fromordinal(self.last).year)
            found = [_date(year, other.month, other.day) for year in dict.fromkeys(years)]
            return self.last - self.first <= _MONTH_DAYS and any(one and self.covers(one) for one in found)
        return self.first <= other.first and other.last <= self.last


class Content(NamedTuple):
    """The content of a text: its words and numbers, and its dates."""

    words: frozenset[str]
    dates: frozenset[Date]

    def share_in(self, other: Content) -> float:
        """Return the share of this content that another text has; NaN if there is none."""
        total = len(self.words) + len(self.dates)
        found = len(self.words & other.words)
        found += sum(any(mine.covers(one) for one in other.dates) for mine in self.dates)
        return found / total if total else float("nan")


def contents(texts: Sequence[str]) -> list[Content]:
    """Return the content of each text. What "yesterday" is remains unknown; see :func:`dates_said`."""
    split = [_split(text) for text in texts]
    settings = TextSettings()
    with quiet_lance(), tempfile.TemporaryDirectory(prefix="recall-lab-") as folder:
        words = words_of_each(table_with_index(folder, settings), [rest for *_, rest in split]) if split else []
    return [
        Content(frozenset((*numbers, *pairs, *map(_respelled, found))), frozenset(dates))
        for (numbers, dates, pairs, _), found in zip(split, words, strict=True)
    ]


def dates_said(text: str, now_ms: int) -> frozenset[Date]:
    """Return the dates that a text of a known time gives, relative ones too, and the day of that time (UTC)."""
    if not 0 <= now_ms < _LATEST_MS:
        return frozenset()
    today = as_datetime(now_ms).date()
    plain = _plain(text)
    found = {_nearest(one, today) for _, _, one in _absolute(plain)}
    for match in _RELATIVE.finditer(plain):
        if (one := _relative(match, today)) is not None:
            found.add(one)
    return frozenset((*found, Date(today.toordinal(), today.toordinal())))


def _split(text: str) -> tuple[set[str], set[Date], set[str], str]:
    """Return the numbers, dates and Chinese pairs of a text, and the rest, which is words."""
    plain = _plain(text)
    dates = list(_absolute(plain))
    rest = _without(plain, [(start, end) for start, end, _ in dates])
    numbers: set[str] = set()

    def keep(value: int | str) -> str:
        numbers.add(str(value))
        return " "

    rest = _IN_WORDS.sub(lambda match: keep(_in_words(match[0])), rest)
    rest = _NUMBER.sub(lambda match: keep(_canonical(match[0])), rest)
    pairs = {pair for run in _HAN.findall(rest) for part in _FUNCTION.split(run) for pair in _pairs(part)}
    return numbers, {one for *_, one in dates}, pairs, _HAN.sub(" ", rest)


def _plain(text: str) -> str:
    """Return a text in lower case, with one space between words and Chinese numerals before measures as digits."""
    plain = _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold().replace("’", "'"))
    return _IN_WORDS_BEFORE.sub(lambda match: str(_in_words(match[0])), _MEASURED.sub(_chinese, plain))


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _pairs(run: str) -> Iterator[str]:
    """Yield the pairs of neighbouring characters of a run; a single character is itself."""
    if len(run) == 1:
        yield run
    yield from map("".join, pairwise(run))


def _respelled(word: str) -> str:
    for pattern, by in _SPELLINGS:
        word = pattern.sub(by, word)
    return word


def _canonical(number: str) -> str:
    whole, _, part = number.replace(",", "").rstrip("stndrh").partition(".")
    part = part.rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{part}" if part else "")


def _in_words(text: str) -> int:
    """Return the value of a number in words: "one hundred and twenty-five" is 125."""
    total = value = 0
    for word in re.split(r"[\s-]+", text):
        if word in _SCALES and _SCALES[word] > 100:
            total, value = total + max(value, 1) * _SCALES[word], 0
        elif word in _SCALES:
            value = max(value, 1) * _SCALES[word]
        else:
            value += _VALUES.get(word, 0)
    return total + value


def _chinese(match: re.Match[str]) -> str:
    """Return the digits of a Chinese numeral: 二十五 is 25, 二〇二三 is 2023."""
    if not any(character in _POWERS for character in match[0]):
        return "".join(str(_DIGITS[character]) for character in match[0])
    total, value = 0, None
    for character in match[0]:
        if character in _POWERS:
            total, value = total + (1 if value is None else value) * _POWERS[character], None
        else:
            value = _DIGITS[character]
    return str(total + (value or 0))


def _absolute(text: str) -> Iterator[tuple[int, int, Date]]:
    """Yield the dates of a text that need no other time, in order, with the start and end of what says each."""
    taken: list[tuple[int, int, Date]] = []
    for pattern in _ABSOLUTE:
        for match in pattern.finditer(text):
            at = bisect_right(taken, (match.start(), len(text) + 1))
            # Dates do not overlap, so that only the neighbours can.
            if any(start < match.end() and match.start() < end for start, end, _ in taken[max(0, at - 1) : at + 1]):
                continue
            if (one := _of_match(match)) is not None:
                taken.insert(at, (match.start(), match.end(), one))
    for start, end, one in taken:
        before = _OFFSET.search(text, max(0, start - 40), start) if one.first == one.last and one.first else None
        yield (before.start(), end, _offset(before, one.first)) if before else (start, end, one)


def _of_match(match: re.Match[str]) -> Date | None:
    parts = match.groupdict()
    name, year, day = parts.get("month"), int(parts.get("year") or 0), int(parts.get("day") or 0)
    if name and not year and not day:
        ambiguous = name in _AMBIGUOUS and match[0] == name
        if ambiguous or (len(name) < 4 and name != "may"):
            return None
    number = int(parts.get("number") or 0)
    month = next(at for at, each in enumerate(MONTHS, 1) if each[:3] == name[:3]) if name else number
    first = int(parts.get("from") or 0)
    start, end = _date(year, month, first or day), _date(year, month, day)
    if start is None or end is None or start.first > end.last:
        return None
    return end if not year else Date(start.first, end.last)


def _date(year: int, month: int, day: int) -> Date | None:
    """Return a day, a month or a year as a date; None if there is no such day."""
    if month > 12 or (day and not month) or not (year or month):
        return None
    if not year:
        return Date(month=month, day=day) if day <= monthrange(2024, month)[1] else None
    if not month:
        return Date(date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal())
    days = monthrange(year, month)[1]
    if day > days:
        return None
    return Date(date(year, month, day or 1).toordinal(), date(year, month, day or days).toordinal())


def _nearest(one: Date, today: date) -> Date:
    """Return a date without a year in the year in which it is nearest to a day."""
    if not one.month:
        return one
    dated = [found for year in (-1, 0, 1) if (found := _date(today.year + year, one.month, one.day))]
    return min(dated, key=lambda each: abs(each.first - today.toordinal()), default=one)


def _offset(match: re.Match[str], day: int) -> Date:
    """Return the date of "the Sunday before" a day, "the weekend of" it, or "two weeks after" it."""
    ahead = match["side"] in ("after", "following")
    if match["unit"]:
        count = _count(match["count"])
        return _moved(match["unit"], count if ahead else -count, date.fromordinal(day))
    if match["side"] == "of":
        return _around(match["what"], day)
    return _beside(match["what"], day, ahead=ahead)


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 1


def _beside(what: str, day: int, *, ahead: bool) -> Date:
    """Return the last or the next weekday, weekend, week or day beside a day."""
    if what in ("day", "night"):
        return Date(day + 1, day + 1) if ahead else Date(day - 1, day - 1)
    if what == "week":
        return Date(day + 1, day + 7) if ahead else Date(day - 7, day - 1)
    target = 5 if what == "weekend" else WEEKDAYS.index(what)
    weekday = date.fromordinal(day).weekday()
    first = day + ((target - weekday - 1) % 7 + 1 if ahead else -((weekday - target - 1) % 7 + 1))
    if what == "weekend" and not ahead and first + 1 >= day:
        first -= 7
    return Date(first, first + (what == "weekend"))


def _around(what: str, day: int) -> Date:
    """Return the week or the weekend that a day is in; other words leave the day."""
    monday = day - date.fromordinal(day).weekday()
    if what == "week":
        return Date(monday, monday + 6)
    return Date(monday + 5, monday + 6) if what == "weekend" else Date(day, day)


def _moved(unit: str, count: int, today: date) -> Date:
    """Return the day, week, month or year that is ``count`` units later."""
    # A calendar has no more.
    count = max(-900, min(900, count))
    if unit == "day":
        day = today.toordinal() + count
        return Date(day, day)
    if unit == "week":
        day = today.toordinal() + 7 * count
        return Date(day - 3, day + 3)
    months = today.year * 12 + today.month - 1 + (count if unit == "month" else 12 * count)
    year = min(max(months // 12, 1), 9999)
    return _date(year, months % 12 + 1 if unit == "month" else 0, 0) or Date(today.toordinal(), today.toordinal())


def _relative(match: re.Match[str], today: date) -> Date | None:
    """Return the date of words that count from today."""
    parts, day = match.groupdict(), today.toordinal()
    word = parts["near"] or parts["zh"]
    if parts["near"] or word in _NEAR or word in ("今天", "今晚", "今早"):
        at = day + _NEAR.get(word, 0)
        return Date(at, at)
    if word:
        if word in _NEAR_YEARS:
            return _moved("year", _NEAR_YEARS[word], today)
        if word in _NEAR_MONTHS:
            return _moved("month", _NEAR_MONTHS[word], today)
        return _sided(_NEAR_WEEKS[word], "week", today)
    if parts["what"]:
        return _sided(parts["side"], parts["what"], today)
    if parts["zh_count"]:
        count = int(parts["zh_count"])
        return _moved(_ZH_UNITS[parts["zh_unit"]], count if parts["zh_side"] == "后" else -count, today)
    if parts["later"]:
        return _moved(parts["later_unit"], _count(parts["later"]), today)
    count = _count(parts["count"])
    return _moved(parts["unit"], count if parts["ago"] == "from now" else -count, today)


def _sided(side: str, what: str, today: date) -> Date:
    """Return the last, this or the next week, month, year or weekday."""
    if what in ("month", "year"):
        return _moved(what, {"this": 0, "next": 1}.get(side, -1), today)
    if side == "this" and what not in WEEKDAYS:
        return _around(what, today.toordinal())
    # "This Friday" may be today.
    return _beside(what, today.toordinal() - (side == "this"), ahead=side in ("this", "next"))
