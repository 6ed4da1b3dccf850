"""Time stamps and channel envelopes: brackets that a host puts before a person's words (OC-H2, OC-H3)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

# A bracket of the host is short; a longer one is a person's.
_BRACKET = re.compile(r"\[([^\[\]\n]{3,300})\][ \t]*")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}年\s?\d{1,2}月\s?\d{1,2}日"
    r"|\d{4}년 ?\d{1,2}월 ?\d{1,2}일"
)
_CLOCK = re.compile(r"(?:T|\b|(?<=\s))\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\.\d{1,6})?(?:Z\b|[+-]\d{2}:?\d{2}\b)?")
_OFFSET = r"(?:[+\-\u2212]\d{1,2}(?::?\d{2})?)"
_ZONE = re.compile(rf"(?:[A-Z]{{1,5}}{_OFFSET}?|{_OFFSET}|[A-Z][A-Za-z_]+(?:/[A-Za-z_+\-\d]+){{1,2}})\Z")
_ELAPSED = re.compile(r"\+\d{1,4}(?:s|m|h|d|w|mo|y)\Z")
_ORDINAL = re.compile(r"\d{1,2}(?:[snrt][tdh]|er|\.)?\Z")
# Names of days and months, and the words of a clock, in the languages that occur most. A token may be the beginning of
# a name, because every locale abbreviates in its own way.
_NAMES = Path(__file__).with_name("calendar_names.txt").read_text("utf-8").split()
_CALENDAR = frozenset(name[:length] for name in _NAMES for length in {*range(2, min(len(name), 6)), len(name)})
_EAST_ASIAN = re.compile(
    r"\(?(?:(?:周|週|星期|礼拜|禮拜)[一二三四五六日天]|[月火水木金土日](?:曜日?)?|[월화수목금토일](?:요일)?)\)?\Z"
)
# What the host calls its channels; a plugin may bring others.
_CHANNELS = (
    "bluebubbles|channel|dingtalk|discord|email|feishu|google ?chat|imessage|irc|lark|line|matrix|mattermost|ms ?teams|"
    "microsoft teams|nextcloud talk|nostr|qq|qqbot|signal|slack|sms|synology chat|teams|telegram|tlon|twitch|urbit|"
    "voice|webchat|wechat|wecom|weixin|whatsapp|zalo personal|zalo"
)
_CHANNEL = re.compile(rf"(?:openclaw-)?(?:{_CHANNELS})(?=\s|\Z)", re.IGNORECASE)
_IDENTITY = re.compile(r"(?:^|\s)(?:id:\S|\(@[\w.]+\)|\+\d{6,})|@(?:g\.us|s\.whatsapp\.net|lid)\b")
_GROUP = re.compile(
    r"\bid:-\d|@g\.us\b|(?:^|\s)#\S|\b(?:group|guild|channel|room|topic|thread)\b|\bid:[!#]", re.IGNORECASE
)
# An id of Feishu, which stands for a sender without a name.
_OPAQUE = re.compile(r"o[unc]_\w{6,}\Z")
_LABEL = re.compile(r"([^\n:\[\]]{1,80}): ")


class Envelope(NamedTuple):
    """A bracket of the host: its kind, where it ends, and its content."""

    kind: str
    end: int
    header: str

    @property
    def is_of_group(self) -> bool:
        """Whether the header names a group, whose messages begin with the sender's name."""
        return self.kind == "envelope" and _GROUP.search(self.header) is not None


def read_envelope(text: str, start: int) -> Envelope | None:
    """Return the time stamp or the envelope that begins at ``start``, or None if a person may have written it.

    A stamp holds a date, a time and nothing but words of a calendar and a zone. An envelope holds a channel and a
    sender before that, or names a known channel and an identity.
    """
    match = _BRACKET.match(text, start)
    if match is None:
        return None
    header = match[1]
    before, rest = _at_stamp(header)
    if rest is None:
        is_known = _CHANNEL.match(header) and _IDENTITY.search(header)
        return Envelope("envelope", match.end(), header) if is_known else None
    zoned = all(_is_of_calendar(token) or _ZONE.match(token) for token in rest)
    if not zoned:
        return None
    words = before.split()
    if all(map(_is_of_calendar, words)):
        return Envelope("time stamp", match.end(), header)
    exact = bool(rest) or _is_of_calendar(words[-1])
    is_host = _CHANNEL.match(header) or _IDENTITY.search(before) or any(map(_ELAPSED.match, words))
    # A host also writes the zone; a person who notes a date before a sentence does not.
    if is_host or (exact and len(words) > 1 and any(map(_ZONE.match, rest))):
        return Envelope("envelope", match.end(), header)
    return None


def _at_stamp(header: str) -> tuple[str, list[str] | None]:
    """Return what is before a date and time in a header and the tokens after the date, or the header and None."""
    dates, clock = list(_DATE.finditer(header)), _CLOCK.search(header)
    if dates:
        # A sender's name may hold digits; the host writes the date last.
        date = dates[-1]
        clock = _CLOCK.search(header, date.end())
        if clock is None:
            return header, None
        between = header[date.end() : clock.start()].replace(",", " ")
        return header[: date.start()], (between + " " + header[clock.end() :].replace(",", " ")).split()
    tokens = header.replace(",", " ").split()
    is_named = any(token[0].isalpha() and _is_of_calendar(token) for token in tokens)
    is_stamp = clock and is_named and any(map(_ORDINAL.match, tokens)) and all(map(_is_of_stamp, tokens))
    return ("", []) if is_stamp else (header, None)


def _is_of_stamp(token: str) -> bool:
    """Return whether a token belongs to a time stamp whose month is a word."""
    return (
        _is_of_calendar(token)
        or token.isdigit()
        or any(pattern.fullmatch(token) for pattern in (_ORDINAL, _CLOCK, _ZONE))
    )


def _is_of_calendar(token: str) -> bool:
    """Return whether a token is a weekday, a month or a word of the clock, or the beginning of one."""
    word = token.strip("().,·—-").casefold()
    if not word:
        return True
    if _EAST_ASIAN.match(word):
        return True
    return word in _CALENDAR


def read_label(text: str, start: int, header: str, *, expected: bool, sender: str) -> int:
    """Return where a sender's name and its colon at ``start`` end, or ``start`` if they may be the person's words.

    ``expected`` says that the host always writes one here; ``sender`` is the name that the host gave elsewhere.
    """
    match = _LABEL.match(text, start)
    if match is None:
        return start
    label = match[1].strip()
    name = label.split(" (")[0].strip()
    is_known = label in ("(self)", "(sender)") or _OPAQUE.match(label) is not None
    is_named = bool(name) and (name in sender or f" {name} " in f" {header} ")
    return match.end() if expected or is_known or is_named else start
