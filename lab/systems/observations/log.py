"""The observation log: one line per observation, so that it can be read, diffed and kept in version control (OB-1)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote, unquote

from lab.base.regex import regex
from lab.base.times import LAST_MS
from lab.recordings.model import TIER_OF
from lab.retrieval.sentence_words import one_line

MINUTE_MS = 60_000
# Labels as the log writes them, from the most valuable to the least.
LEVELS = {"must": 0, "nice": 1, "unknown": 2, "ignore": 3}
_LABEL_OF = {tier: label for label, tier in TIER_OF.items()}
_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}Z"
_LINE = regex(rf"(?P<at>{_TIME}) \[(?P<level>\w+)(?:, due (?P<due>{_TIME}))?\] (?P<text>.+) \((?P<sources>[^()]+)\)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Signs that would end a source, besides white space, and the sign that escapes them.
_ENDS = "%()"


class Observation(NamedTuple):
    """The text kept from an entry of the raw buffer.

    ``key`` is that of the entry. ``label`` is its importance; ``text`` has no line break. Times are in milliseconds, at
    whole minutes; ``due_ms`` is that of a plan (:mod:`lab.systems.plans`). ``sources`` are keys of turns or memories.
    """

    key: str
    time_ms: int
    label: str
    text: str
    sources: tuple[str, ...]
    due_ms: int | None = None

    @property
    def level(self) -> str:
        """The importance as the log writes it: must, nice, unknown or ignore."""
        return TIER_OF[self.label]

    @property
    def statement(self) -> str:
        """The line without its sources, as it is injected."""
        due = "" if self.due_ms is None else f", due {_minute(self.due_ms)}"
        return f"{_minute(self.time_ms)} [{self.level}{due}] {self.text}"

    @property
    def line(self) -> str:
        """The line of the log: ``2026-11-02T10:31Z [must] text (source)``."""
        return f"{self.statement} ({' '.join(map(_escaped, self.sources))})"


def parse_line(line: str) -> Observation | None:
    """Return the observation in a line of the log, with its first source as key; None if the line has none."""
    match = _LINE.fullmatch(line)
    if match is None or match["level"] not in LEVELS:
        return None
    sources = tuple(map(_unescaped, match["sources"].split(" ")))
    try:
        at, due = _read(match["at"]), None if match["due"] is None else _read(match["due"])
    except ValueError:
        return None
    return Observation(sources[0], at, _LABEL_OF[match["level"]], match["text"], sources, due)


def folded(text: str) -> str:
    """Return a text on one line, without characters that UTF-8 cannot encode."""
    return one_line(text.encode("utf-8", "replace").decode())


def whole_minute(time_ms: int) -> int:
    """Return a time at the start of its minute, from 1970 to the year 9999."""
    return min(max(time_ms, 0), LAST_MS) // MINUTE_MS * MINUTE_MS


def lines_of(observations: Iterable[Observation]) -> str:
    """Return the lines of the log, each with a line break."""
    return "".join(f"{observation.line}\n" for observation in observations)


def _minute(time_ms: int) -> str:
    return f"{_EPOCH + timedelta(milliseconds=whole_minute(time_ms)):%Y-%m-%dT%H:%MZ}"


def _read(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp()) * 1000


def _escaped(source: str) -> str:
    """Return a key without white space and parentheses, which are percent-escaped, as is half a surrogate pair."""
    return "".join(
        quote(sign.encode("utf-8", "surrogatepass"), safe="")
        if sign in _ENDS or sign.isspace() or "\ud800" <= sign <= "\udfff"
        else sign
        for sign in source
    )


def _unescaped(source: str) -> str:
    return unquote(source, errors="surrogatepass")
