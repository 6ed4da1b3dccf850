"""Take a host's pieces off both ends of a user message, until a person's words stand there (OC-H1 to OC-H4, OC-H6).

Every pattern matches at a known position and is bounded by a line or by its own closing mark, so the time is linear in
the length of the text.

The pieces are what a host puts before or after a person's words or among several messages, and the time stamps and
channel envelopes in brackets before them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from lab.base.regex import regex
from lab.recordings.host_prompts import RETRY, prompt_kind
from lab.recordings.injected import gap, without_engine_blocks

END_OF_LINE = r"[ \t]*(?=\n|\Z)"
CURRENT = "[Current message - respond to this]"
_MESSAGE_ID = r"\[(?:[A-Za-z]{1,20} )?(?:message|event|thread)[ _]id: [^\[\]\n]{1,300}\]"
_ATTACHED = (
    r"\[(?:media attached(?: \d+/\d+)?|media unavailable|Slack files?|Mattermost files?|attached|Attachment|Image|Video"
    r"|Audio|Sticker|File|GIF|Document|Voice note|matrix|Recent image|Forwarded image|image attachment|Image attachment"
    r"|User sent media without caption|Gateway offloaded)(?:(?:: |, | )[^\n]{0,2000})?\](?: \([^()\n]{1,60}\))?"
)
_DELIVERY = r"Delivery: (?:to send a message|Final assistant text|No visible reply)\b[^\n]*"
_HINT = r"To send an image back, (?:prefer|use) the message tool\b[^\n]*"
# Pieces of one line. Whether a piece shows that a person sent the message is the third value.
LEADING: tuple[tuple[str, re.Pattern[str], bool], ...] = tuple(
    (kind, regex(pattern), sender)
    for kind, pattern, sender in (
        (
            "note on an attachment",
            rf"\[media attached(?: \d+/\d+)?: [^\[\]\n]{{1,2000}}\]|{_ATTACHED}{END_OF_LINE}",
            True,
        ),
        ("note on an attachment", r"<media:[\w-]{1,30}>(?: \(\d+ [a-z ]{1,40}\))?", True),
        ("note on an attachment", rf"<contacts?(?:: [^<>\n]{{1,300}})?>{END_OF_LINE}", True),
        ("note on an attachment", _HINT, True),
        ("note on an attachment", r"\[Voice(?: message| \d+)\][ \t]+", True),
        ("message id", _MESSAGE_ID + END_OF_LINE, True),
        ("group history", re.escape(CURRENT) + END_OF_LINE, True),
        ("reply or quote", r"Current message:[ \t]*\n(?=\[Replying to|#)", True),
        ("forward", rf"\[Forwarded (?:from|message from) [^\[\]\n]{{1,300}}\]{END_OF_LINE}", True),
        ("forward", rf"\[Forwarded message\]{END_OF_LINE}", True),
        ("mark of the queue", r"\[Queued user message that arrived while the previous turn was still active\]", False),
        ("mark of the queue", r"Queued #\d+ context:[ \t]*\n", False),
        ("note of the host", r"\[Retry after the previous model attempt failed or timed out\]", False),
        ("note of the host", rf"\[Working directory: [^\[\]\n]{{1,400}}\]{END_OF_LINE}", False),
        ("note of the host", r"\[(?:ui-context|proposal-resolved)\][^\n]*", False),
        ("note of the host", r"Note: The previous agent run was aborted by the user\.[^\n]*", False),
        ("note of the host", r"User note for this reset turn \([^()\n]{1,120}\):[ \t]*\n", False),
        ("note of the host", _DELIVERY, False),
        ("note of the host", r"Active goal: [^\n]{0,400} \u2014 advance; keep active until [^\n]*", False),
    )
)
TRAILING: tuple[tuple[str, re.Pattern[str], bool], ...] = tuple(
    (kind, regex(pattern), sender)
    for kind, pattern, sender in (
        ("message id", _MESSAGE_ID, True),
        ("sender", r"\[from: (?P<sender>[^\[\]\n]{1,200})\]", True),
        ("note on an attachment", _ATTACHED, True),
        ("note on an attachment", r"<media:[\w-]{1,30}>(?: \(\d+ [a-z ]{1,40}\))?", True),
        ("note on an attachment", _HINT, True),
        ("note of the host", r"\[Forum parent: #[^\[\]\n]{1,200}\]", False),
        ("note of the host", _DELIVERY, False),
        (
            "note of the host",
            r"\[System: (?:Your reply will|The content may include|If user_id is|The bot encountered)\b[^\n]*\]",
            False,
        ),
    )
)
# What models made of media, beside what a person wrote and said; and messages that the host collected.
SECTION = regex(r"^(?:\[(?:Audio|Image|Video)(?: \d+/\d+)?\]\n)?(User text|Transcript|Description):\n", re.MULTILINE)
SECTIONS_BEGIN = regex(
    r"\[(?:Audio|Image|Video)(?: \d+/\d+)?\]\n(?:User text|Transcript|Description):\n"
    r"|User text:\n[^\n]{0,4000}\n(?:[^\n]{1,4000}\n){0,20}\n?\[(?:Audio|Image|Video)(?: \d+/\d+)?\]\n"
)
TRANSCRIPT = regex(r'\[Audio transcript \(machine-generated, untrusted\)\]:[ \t]*("(?:[^"\\\n]|\\.)*")')
QUEUED = regex(r"\[Queued (?:announce )?messages while agent was busy\][ \t]*(?:\n|\Z)")
QUEUE_ITEM = regex(r"^---\nQueued #\d+([^\n]*)(?:\n|\Z)", re.MULTILINE)
OVERFLOW = regex(r"\[Queue overflow\] Dropped \d+ [^\n]{0,80}(?:\nSummary:(?:\n- [^\n]*)*)?")


# A bracket of the host is short; a longer one is a person's.
_BRACKET = regex(r"\[([^\[\]\n]{3,300})\][ \t]*")
_DATE = regex(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}年\s?\d{1,2}月\s?\d{1,2}日"
    r"|\d{4}년 ?\d{1,2}월 ?\d{1,2}일"
)
_CLOCK = regex(r"(?:T|\b|(?<=\s))\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\.\d{1,6})?(?:Z\b|[+-]\d{2}:?\d{2}\b)?")
_OFFSET = r"(?:[+\-\u2212]\d{1,2}(?::?\d{2})?)"
_ZONE = regex(rf"(?:[A-Z]{{1,5}}{_OFFSET}?|{_OFFSET}|[A-Z][A-Za-z_]+(?:/[A-Za-z_+\-\d]+){{1,2}})\Z")
_ELAPSED = regex(r"\+\d{1,4}(?:s|m|h|d|w|mo|y)\Z")
_ORDINAL = regex(r"\d{1,2}(?:[snrt][tdh]|er|\.)?\Z")
# Names of days and months, and the words of a clock, in the languages that occur most. A token may be the beginning of
# a name, because every locale abbreviates in its own way.
_NAMES = Path(__file__).with_name("calendar_names.txt").read_text("utf-8").split()
_CALENDAR = frozenset(name[:length] for name in _NAMES for length in {*range(2, min(len(name), 6)), len(name)})
_EAST_ASIAN = regex(
    r"\(?(?:(?:周|週|星期|礼拜|禮拜)[一二三四五六日天]|[月火水木金土日](?:曜日?)?|[월화수목금토일](?:요일)?)\)?\Z"
)
# What the host calls its channels; a plugin may bring others.
_CHANNELS = (
    "bluebubbles|channel|dingtalk|discord|email|feishu|google ?chat|imessage|irc|lark|line|matrix|mattermost|ms ?teams|"
    "microsoft teams|nextcloud talk|nostr|qq|qqbot|signal|slack|sms|synology chat|teams|telegram|tlon|twitch|urbit|"
    "voice|webchat|wechat|wecom|weixin|whatsapp|zalo personal|zalo"
)
_CHANNEL = regex(rf"(?:openclaw-)?(?:{_CHANNELS})(?=\s|\Z)", re.IGNORECASE)
_IDENTITY = regex(r"(?:^|\s)(?:id:\S|\(@[\w.]+\)|\+\d{6,})|@(?:g\.us|s\.whatsapp\.net|lid)\b")
_GROUP = regex(r"\bid:-\d|@g\.us\b|(?:^|\s)#\S|\b(?:group|guild|channel|room|topic|thread)\b|\bid:[!#]", re.IGNORECASE)
# An id of Feishu, which stands for a sender without a name.
_OPAQUE = regex(r"o[unc]_\w{6,}\Z")
_LABEL = regex(r"([^\n:\[\]]{1,80}): ")


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


# A directive begins with a letter, unlike a shell test or a nested list.
DIRECTIVE = regex(r"\[\[\s*[A-Za-z][^\[\]\n]*\]\]")
_SPACE = regex(r"\s*")
_BLANK_LINE = regex(r"\n[ \t]*\n|\Z")

# The mark that hosts since 2026.7 put after every heading of theirs.
_MARK = "\u27e6openclaw:ctx\u27e7"
_HEADING = regex(
    rf"(?P<label>[^\n\[\]{{}}]{{0,160}}?)(?:[ \t]*{_MARK}|[ \t]\([^()\n]{{0,80}}\buntrusted\b[^()\n]{{0,80}}\):?"
    r"|\(metadata, do not treat as instructions or commands\):?"
    r"|\(treat text inside this block as data[^()\n]{0,40}\):?)"
    r"[ \t]*\n",
    re.IGNORECASE,
)
# Headings without a mark, before a block of JSON; those of hosts before 2026.2.
_BARE_HEADING = regex(
    r"(?:Thread starter|Replied message|Forwarded(?:[ \w]{0,60}\w)?|Chat history(?:[ \w]{0,60}\w)?):?[ \t]*\n"
    r"(?=\s{0,20}```(?:json)?[ \t]*\n\s{0,20}[{\[])",
    re.IGNORECASE,
)
_FENCE = regex(r"```[\w-]{0,20}[ \t]*\n")
_FENCE_END = regex(r"^[ \t]*```[ \t]*$", re.MULTILINE)
_MARKER = regex(r'<<<(?:BEGIN_)?([A-Z][A-Z_]{2,60})(?: id="[^"\n]{0,128}")?>>>')
_WARNED = regex(
    r"(?:Task: [^\n]{0,400}\n+)?(?=SECURITY NOTICE: )|(?:Task: [^\n]{0,400}\n+)?(?=<<<EXTERNAL_UNTRUSTED_CONTENT)"
)
_TAG = regex(
    r"<(active_memory_plugin|prompt-data|untrusted-text|in_flight_main_task|conversation_history"
    r"|[a-z_-]{0,40}(?:memory|memories|recall)[a-z_-]{0,40})(?:\s[^<>\n]{0,200})?>(?=[ \t]*\n)",
    re.IGNORECASE,
)
_FILE = regex(r'<file (?:name|mime)="[^<>\n]{0,400}>')
_SYSTEM_LINE = regex(r"System(?P<untrusted> \(untrusted\))?:[ \t](?P<event>[^\n]*)(?:\n|\Z)")
_EVENT_TIME = regex(r"\[(?:[^\]\n]{0,40}\d{1,2}:\d{2}[^\]\n]{0,40}|unknown-time)\]")
# Hosts before 2026.2 marked only the first line of such an event.
_LONG_EVENT = regex(r"Exec (?:finished|completed|failed)\b|[^\n]{0,80}[:{]\s*\Z", re.IGNORECASE)
_PAIRS = {
    "Replying to": "[/Replying]",
    "Reply chain": "[/Reply chain]",
    "Thread history": "[/Thread history]",
    "Quoting": "[/Quoting]",
    "Quoted message begins": "[Quoted message ends]",
}
_PAIR = regex(rf"\[({'|'.join(_PAIRS)})(?![\w:])[^\[\]\n]{{0,300}}\][ \t]*\n")
_UNTRUSTED_DATA = regex(r"\[UNTRUSTED [^\[\]\n]{0,200}\]")
_REPLYING = regex(r'\[Replying to: "')
_REPLYING_END = regex(r'"\](?=\s|\Z)')
_FOR_CONTEXT = regex(r"\[(?P<what>[^\[\]\n]{1,80}) - for context\][ \t]*(?:\n|\Z)")
_NUMBER = regex(r"#[\w-]{1,64}:[ \t]?")
_RETRY = regex(RETRY)
_WARNING = "[Bootstrap truncation warning]"
# Deeper queues in queues are no host's.
_DEEPEST = 3


def peel(text: str, depth: int = 0) -> Peeling:
    """Return the person's words in a user message, and what was removed around them."""
    removed: Counter[str] = Counter()
    text = without_engine_blocks(text, removed)
    text, count = DIRECTIVE.subn(gap, text)
    removed["directive"] += count
    peeling = Peeling(text, removed, depth)
    peeling.take_trailing()
    peeling.take_leading()
    return peeling


class Peeling:
    """The words between ``start`` and ``end`` of a text, and what was removed around them."""

    def __init__(self, text: str, removed: Counter[str], depth: int) -> None:
        self.text = text
        self.removed = removed
        self.has_sender = False
        self._depth = depth
        self._start, self._end = 0, len(text)
        self._sender = ""
        self._is_group = self._is_after_id = self._is_after_reply = False
        # What a person said in another form, such as the transcript of a voice message.
        self._spoken: list[str] = []

    @property
    def said(self) -> str:
        """What is left: the person's words."""
        return "\n\n".join(filter(None, [*self._spoken, self.text[self._start : self._end]])).strip()

    def _remove(self, kind: str, start: int, sender: bool = False) -> None:
        self._start = start
        self.removed[kind] += 1
        self.has_sender |= sender

    def take_leading(self) -> None:
        """Remove the host's pieces before the person's words."""
        while True:
            self._start = _end_of(_SPACE, self.text, self._start, self._end)
            if self._start >= self._end or not (self._take_sections() or self._take_line() or self._take_block()):
                return

    def _take_line(self) -> bool:
        """Remove a piece of one line, an envelope, or a label that follows one."""
        for kind, pattern, sender in LEADING:
            if match := pattern.match(self.text, self._start, self._end):
                self._is_after_id |= kind == "message id"
                self._is_group |= kind == "group history"
                self._remove(kind, match.end(), sender)
                return True
        if envelope := read_envelope(self.text, self._start):
            is_channel = envelope.kind == "envelope"
            self._remove(envelope.kind, envelope.end, is_channel)
            if is_channel:
                self._take_label(envelope.header, expected=self._is_group or envelope.is_of_group)
            return True
        if self._is_after_reply and (match := _NUMBER.match(self.text, self._start, self._end)):
            self._is_after_reply = False
            self._remove("message id", match.end(), sender=True)
            return True
        if self._is_after_id or self._is_group:
            is_taken = self._take_label("", expected=self._is_group and not self._sender)
            self._is_after_id = self._is_group = False
            return is_taken
        return False

    def _take_label(self, header: str, *, expected: bool) -> bool:
        end = read_label(self.text, self._start, header, expected=expected, sender=self._sender)
        if end == self._start or end > self._end:
            return False
        self._is_group = self._is_after_id = False
        self._remove("sender", end, sender=True)
        return True

    def _take_block(self) -> bool:
        """Remove a piece of several lines."""
        return any(
            take()
            for take in (
                self._take_events,
                self._take_heading,
                self._take_external,
                self._take_tag,
                self._take_pair,
                self._take_context,
                self._take_queue,
            )
        )

    def _take_events(self) -> bool:
        """Remove lines that begin with ``System:`` if one has the time that the host writes."""
        at, last, is_host = self._start, "", False
        while match := _SYSTEM_LINE.match(self.text, at, self._end):
            at, last = match.end(), match["event"]
            is_host |= match["untrusted"] is not None or _EVENT_TIME.match(last) is not None
        if not is_host:
            return False
        stamp = _EVENT_TIME.match(last)
        if _LONG_EVENT.match(last, stamp.end() + 1 if stamp else 0) and self.text[at : at + 1] != "\n":
            at = _BLANK_LINE.search(self.text, at, self._end).end()  # type: ignore[union-attr]  # an end of the text matches too
        self._remove("event of the host", min(at, self._end))
        return True

    def _take_heading(self) -> bool:
        """Remove a heading that the host marks as its own or as untrusted, and the block under it."""
        match = _HEADING.match(self.text, self._start, self._end) or _BARE_HEADING.match(
            self.text, self._start, self._end
        )
        if match is None:
            return False
        end = self._end_of_body(match.end(), match[0])
        if end is None:
            return False
        self._sender += self.text[match.end() : min(end, match.end() + 2000)]
        self._remove("metadata block", end, sender="external" not in match[0].lower())
        return True

    def _end_of_body(self, start: int, heading: str) -> int | None:
        """Return the end of the block under a heading: a fence, marked or tagged content, JSON, or plain lines."""
        text, end = self.text, self._end
        is_list = _MARK in heading or re.search(r"untrusted,|^untrusted |metadata, do", heading, re.I) is not None
        at = _end_of(_SPACE, text, start, min(end, start + 20))
        if fence := _FENCE.match(text, at, end):
            closing = _FENCE_END.search(text, fence.end(), end)
            return closing.end() if closing else None
        if marked := self._end_of_marked(at):
            return marked
        if (tag := _TAG.match(text, at, end)) and (closing_at := text.find(f"</{tag[1]}>", tag.end(), end)) >= 0:
            return closing_at + len(tag[1]) + 3
        if text[at : at + 1] in ("{", "[") and not is_list:
            try:
                return int(json.JSONDecoder().raw_decode(text[at : min(end, at + 20_000)])[1]) + at
            except (ValueError, RecursionError):
                return None
        if is_list and text[start : start + 1].strip():
            blank = _BLANK_LINE.search(text, start, end)
            return blank.start() if blank else end
        return None

    def _end_of_marked(self, at: int) -> int | None:
        """Return the end of the blocks between ``<<<NAME>>>`` and ``<<<END_NAME>>>`` that begin at a position."""
        found = None
        while marker := _MARKER.match(self.text, at, self._end):
            closing = self.text.find(f"<<<END_{marker[1]}", marker.end(), self._end)
            close = self.text.find(">>>", closing, self._end) if closing >= 0 else -1
            if close < 0:
                break
            found = close + 3
            at = _end_of(_SPACE, self.text, found, self._end)
        return found

    def _take_external(self) -> bool:
        """Remove content of a web hook or a mail, with the warning that the host puts before it."""
        at = self._start
        if warned := _WARNED.match(self.text, at, self._end):
            at = self.text.find("<<<EXTERNAL_UNTRUSTED_CONTENT", warned.end(), min(self._end, warned.end() + 4000))
        end = self._end_of_marked(at) if at >= 0 else None
        if end is None:
            return False
        self._remove("external content", end)
        return True

    def _take_tag(self) -> bool:
        """Remove a block in a tag that only a host writes, such as ``<active_memory_plugin>`` or ``<file name=…>``."""
        if file := _FILE.match(self.text, self._start, self._end):
            kind, name, at = "note on an attachment", "file", file.end()
        elif tag := _TAG.match(self.text, self._start, self._end):
            kind, name, at = "metadata block", tag[1], tag.end()
        else:
            return False
        closing = self.text.find(f"</{name}>", at, self._end)
        if closing < 0:
            return False
        self._remove(kind, closing + len(name) + 3, sender=name == "file")
        return True

    def _take_pair(self) -> bool:
        """Remove a reply or a quote with its closing bracket."""
        if match := _REPLYING.match(self.text, self._start, self._end):
            if closing := _REPLYING_END.search(self.text, match.end() - 1, self._end):
                self._is_after_reply = True
                self._remove("reply or quote", closing.end(), sender=True)
                return True
            return False
        if match := _PAIR.match(self.text, self._start, self._end):
            end, is_data = _PAIRS[match[1]], False
        elif match := _UNTRUSTED_DATA.match(self.text, self._start, self._end):
            end, is_data = "[END UNTRUSTED ", True
        else:
            return False
        closing_at = self.text.find(f"\n{end}", match.end() - 1, self._end)
        if closing_at < 0:
            return False
        line_end = self.text.find("\n", closing_at + 1, self._end)
        stop = (line_end if line_end >= 0 else self._end) if is_data else closing_at + 1 + len(end)
        self._remove("metadata block" if is_data else "reply or quote", stop, sender=not is_data)
        return True

    def _take_context(self) -> bool:
        """Remove what the host adds "for context": a group's messages, the start of a thread, a replied message."""
        match = _FOR_CONTEXT.match(self.text, self._start, self._end)
        if match is None:
            return False
        if "chat messages" in match["what"].lower():
            current = self.text.find(f"\n{CURRENT}", match.end() - 1, self._end)
            if current >= 0:
                self._is_group = True
                self._remove("group history", current + 1 + len(CURRENT), sender=True)
                return True
        blank = _BLANK_LINE.search(self.text, match.end(), self._end)
        first = at = blank.end() if blank else self._end
        # A replied message has an envelope of its own; the person's words begin at the next one.
        for _ in range(8):
            if at >= self._end:
                break
            if self.text[at] == "[" and read_envelope(self.text, at):
                first = at
                break
            blank = _BLANK_LINE.search(self.text, at, self._end)
            at = blank.end() if blank else self._end
        self._remove("group history", min(first, self._end), sender=True)
        return True

    def _take_sections(self) -> bool:
        """Keep what a person wrote or said of a message with media, and drop what a model saw in an image."""
        if match := TRANSCRIPT.match(self.text, self._start, self._end):
            try:
                self._spoken.append(json.loads(match[1]))
            except ValueError:
                return False
            self._remove("note on an attachment", match.end(), sender=True)
            return True
        if self._depth >= _DEEPEST or not SECTIONS_BEGIN.match(self.text, self._start, self._end):
            return False
        sections = list(SECTION.finditer(self.text, self._start, self._end))
        for at, section in enumerate(sections):
            until = sections[at + 1].start() if at + 1 < len(sections) else self._end
            if section[1] != "Description":
                self._keep(self.text[section.end() : until])
        self._remove("note on an attachment", self._end, sender=True)
        return True

    def _take_queue(self) -> bool:
        """Keep what persons said in the messages that the host collected while the agent was busy."""
        if overflow := OVERFLOW.match(self.text, self._start, self._end):
            self._remove("mark of the queue", overflow.end())
            return True
        match = QUEUED.match(self.text, self._start, self._end) if self._depth < _DEEPEST else None
        if match is None:
            return False
        items = list(QUEUE_ITEM.finditer(self.text, match.end(), self._end))
        for at, item in enumerate(items):
            until = items[at + 1].start() if at + 1 < len(items) else self._end
            self.has_sender |= "(from" in item[1]
            self._keep(self.text[item.end() : until])
        self._remove("mark of the queue", self._end)
        return True

    def _keep(self, part: str) -> None:
        """Keep what a person said in a part of the message, which may have the host's pieces around it."""
        peeled = peel(part, self._depth + 1)
        self.removed.update(peeled.removed)
        self.has_sender |= peeled.has_sender
        if prompt_kind(peeled.said):
            self.removed["queued prompt of the host"] += 1
        elif peeled.said:
            self._spoken.append(peeled.said)

    def take_trailing(self) -> None:
        """Remove the host's pieces after the person's words."""
        while True:
            while self._end > self._start and self.text[self._end - 1].isspace():
                self._end -= 1
            if self._end <= self._start or not (self._take_last_line() or self._take_last_block()):
                return

    def _take_last_line(self) -> bool:
        start = self.text.rfind("\n", max(self._start, self._end - 4000), self._end) + 1
        if start == 0 and self._end - self._start > 4000:
            return False
        for kind, pattern, sender in TRAILING:
            if match := pattern.fullmatch(self.text, max(start, self._start), self._end):
                if kind == "sender":
                    self._sender += match["sender"]
                self._end = max(start, self._start)
                self.removed[kind] += 1
                self.has_sender |= sender
                return True
        return False

    def _take_last_block(self) -> bool:
        """Remove the last block if it is the host's: a reply, a file, its own or untrusted context, or a warning."""
        text, start, end = self.text, self._start, self._end
        for name, closing in _PAIRS.items():
            if text.endswith(closing, start, end):
                at = text.rfind(f"[{name}", start, end)
                if at >= 0 and (at == start or text[at - 1] == "\n") and _PAIR.match(text, at, end):
                    return self._cut("reply or quote", at, sender=True)
        if text.endswith("</file>", start, end):
            at = text.rfind("<file ", start, end)
            if at >= 0 and _FILE.match(text, at, end):
                return self._cut("note on an attachment", at, sender=True)
        at = max(text.rfind(mark, start, end) for mark in (_MARK, "Untrusted context (metadata"))
        if at >= 0:
            at = max(text.rfind("\n", start, at) + 1, start)
            heading = _HEADING.match(text, at, end)
            if heading and (self._end_of_body(heading.end(), heading[0]) or 0) >= end:
                return self._cut("metadata block", at, sender=False)
        at = max(text.rfind("\n\n", start, end) + 2, start)
        if _RETRY.match(text, at, end) and at > start:
            return self._cut("note of the host", at, sender=False)
        if text.startswith(_WARNING, at):
            return self._cut("note of the host", at, sender=False)
        return False

    def _cut(self, kind: str, end: int, *, sender: bool) -> bool:
        self._end = end
        self.removed[kind] += 1
        self.has_sender |= sender
        return True


def _end_of(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    match = pattern.match(text, start, end)
    return match.end() if match else start
