"""Candidates of capture: the lines and sentences of a message that may become memories.

In order: remove what the engine and the host put into the message (E-70, E-71), split it into candidates with their
scope tags (E-72, E-75), recognise the output of tools (E-74), and detect the category of a sentence (E-36).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lab.base.regex import regex
from lab.base.utf16 import WHITESPACE, js_length
from lab.recordings.cleaning import clean_user_text
from lab.systems.openclaw.capture.secrets import holds_secret, secret_spans
from lab.systems.openclaw.recall.scope import find_tag, strip_decorations

MAX_CANDIDATES, MIN_CHARS = 16, 12
_SPACE = f"[{WHITESPACE}]"
_SPACES = regex(f"{_SPACE}+")
_LINE_BREAK = regex(r"\r?\n")
_AFTER_SENTENCE = regex(rf"(?<=[.!?。！？]){_SPACE}+")
# Chinese sentences follow each other without a space; closing marks belong to the sentence before.
_CLOSING = "」』”’）】》〉\"'"
_AFTER_CHINESE = regex(rf"(?:(?<=[。！？])|(?<=[。！？][{_CLOSING}]))(?=[^{WHITESPACE}。！？!?.…{_CLOSING}])")
_SLASH_COMMAND = regex(r"/[A-Za-z0-9_-]")


def split_lines(text: str) -> list[str]:
    """Return the trimmed lines of a text that are not blank."""
    return _nonblank(_LINE_BREAK.split(text))


def split_candidates(text: str, *, chinese: bool = False) -> list[str]:
    """Return the first 16 lines, or of a text of one line its first 16 sentences, trimmed and not blank.

    A sentence ends with ``. ! ? 。 ！ ？`` and white space. With ``chinese``, the full-width marks need no white space.
    """
    lines = split_lines(text)
    if len(lines) == 1:
        lines = split_sentences(lines[0], chinese=chinese)
    return lines[:MAX_CANDIDATES]


def split_sentences(line: str, *, chinese: bool = False) -> list[str]:
    """Return the sentences of a line."""
    parts = _AFTER_SENTENCE.split(line)
    if chinese:
        parts = [piece for part in parts for piece in _AFTER_CHINESE.split(part)]
    return _nonblank(parts)


def collapse(text: str) -> str:
    """Return a text with each run of white space replaced by one space, trimmed."""
    return _SPACES.sub(" ", text).strip(WHITESPACE)


def normalise(candidate: str, max_chars: int) -> str | None:
    """Return a candidate with white space collapsed; None if it is blank or longer than ``max_chars`` UTF-16 units.

    Candidates are never cut.
    """
    text = collapse(candidate)
    return text if text and js_length(text) <= max_chars else None


def is_too_short(text: str) -> bool:
    """Return whether a normalised candidate has fewer than 12 UTF-16 units."""
    return js_length(text) < MIN_CHARS


def is_command(text: str) -> bool:
    """Whether a candidate is a slash command or a heartbeat of the host."""
    return _SLASH_COMMAND.match(text) is not None or text.lower() in ("heartbeat", "heartbeat_ok")


def _nonblank(parts: list[str]) -> list[str]:
    return [trimmed for part in parts if (trimmed := part.strip(WHITESPACE))]


# Tried in this order. Each entry has English and Chinese patterns.
_WORDS = {
    "todo": (
        r"todo|to-do|to do|remember to|remind me",
        "待辦|要記得|記得要|提醒我|別忘了",
    ),
    "decision": (
        r"we decided|decided to|from now on|let'?s use|we will|we'll",
        "決定|改成|採用|之後都|統一用",
    ),
    "preference": (
        r"i prefer|i like|i love|i hate|i want|i don't want|my preference",
        "偏好|我喜歡|我討厭|我比較想|我不要",
    ),
}
# What capture may store, in the order of the plugin's list, and how important it is.
IMPORTANCE = {"preference": 0.78, "decision": 0.88, "todo": 0.7}
# Word boundaries apply to English only: the public plugin also puts them around Chinese words, where they almost never
# match.
_PATTERNS = {
    kind: regex(rf"\b(?:{english})\b|{chinese}", re.IGNORECASE | re.ASCII)
    for kind, (english, chinese) in _WORDS.items()
}
_BOUNDED = {
    kind: regex(rf"\b(?:{english}|{chinese})\b", re.IGNORECASE | re.ASCII)
    for kind, (english, chinese) in _WORDS.items()
}


def detect_category(text: str) -> str | None:
    """Return ``todo``, ``decision`` or ``preference``, tried in this order; None if none applies."""
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.search(text)), None)


def detect_bounded(text: str) -> str | None:
    """Return the category as the public plugin detects it: Chinese words only between ASCII word characters."""
    return next((kind for kind, pattern in _BOUNDED.items() if pattern.search(text)), None)


def allowed_categories(*, preference: bool, decision: bool, todo: bool) -> tuple[str, ...]:
    """Return the categories that capture may store."""
    switches = {"preference": preference, "decision": decision, "todo": todo}
    return tuple(kind for kind in IMPORTANCE if switches[kind])


_COMMENT = regex(rf"<!--{_SPACE}*openclaw-mem-engine:autoRecall.*?-->", re.IGNORECASE | re.ASCII | re.DOTALL)
_CUT_COMMENT = regex(rf"<!--{_SPACE}*openclaw-mem-engine:autoRecall[^\n]*", re.IGNORECASE | re.ASCII)
_BLOCK = regex(r"<relevant-memories>.*?</relevant-memories>", re.IGNORECASE | re.ASCII | re.DOTALL)
_TAG = regex(r"<(/?)relevant-memories>", re.IGNORECASE | re.ASCII)
_FENCE = regex(r"[ \t]*(?:>[ \t]*)*(`{3,}|~{3,})(.*)")


def strip_injected(text: str) -> str:
    """Replace every complete receipt comment and block of memories by a space; incomplete ones are kept (E-70)."""
    return _until_last(_BLOCK, "</relevant-memories>", _until_last(_COMMENT, "-->", text))


def strip_all(text: str) -> str:
    """Remove injected blocks with all that they contain, host metadata, and code fences (E-71).

    An injected block or a fence without an end extends to the end of the text, a receipt comment to that of its line.
    """
    text = _CUT_COMMENT.sub(" ", _until_last(_COMMENT, "-->", text))
    return without_fences(clean_user_text(_without_blocks(text)).text)


def without_fences(text: str) -> str:
    """Return the lines outside code fences. A fence ends at a line of the same characters, at least as many."""
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip(WHITESPACE):
                fence = ""
        # A line such as ```x``` is inline code.
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
        else:
            kept.append(line)
    return "\n".join(kept)


def _until_last(pattern: re.Pattern[str], end: str, text: str) -> str:
    # There is no match after the last end, and searching there takes time quadratic in the number of beginnings.
    stop = text.lower().rfind(end) + len(end)
    if stop < len(end) or len(text.lower()) != len(text):
        return pattern.sub(" ", text) if stop >= len(end) else text
    return pattern.sub(" ", text[:stop]) + text[stop:]


def _without_blocks(text: str) -> str:
    """Replace each block of memories by a space, with the blocks inside it; an open block ends with the text."""
    kept: list[str] = []
    depth = start = 0
    for tag in _TAG.finditer(text):
        if tag[1]:
            if depth == 1:
                start = tag.end()
            depth = max(0, depth - 1)
            continue
        if depth == 0:
            kept.append(text[start : tag.start()])
        depth += 1
    if depth == 0:
        kept.append(text[start:])
    return " ".join(kept)


_TOOL_WORDS = regex(
    rf"\b(?:stdout|stderr|exit[{WHITESPACE}]*code|traceback|stack[{WHITESPACE}]*trace"
    rf"|tool[_{WHITESPACE}-]?(?:call|result)|command output)\b",
    re.IGNORECASE | re.ASCII,
)
_TOOL_KEY = regex(r'"(?:stdout|stderr|exitCode|command|tool)"', re.IGNORECASE | re.ASCII)


def is_tool_like(text: str) -> bool:
    """Whether a candidate is blank, an injected block, a code fence, an object of a tool, or speaks of tool output."""
    text = text.strip(WHITESPACE)
    if not text or "<relevant-memories>" in text.lower() or text.startswith("```"):
        return True
    if text.startswith("{") and text.endswith("}") and _TOOL_KEY.search(text):
        return True
    return _TOOL_WORDS.search(text) is not None


_TAGS = regex(rf"(?:\[(?:ISO|SCOPE)[{WHITESPACE}]*:[{WHITESPACE}]*[^\]]*\][{WHITESPACE}]*)+", re.IGNORECASE | re.ASCII)


class Span(NamedTuple):
    """A candidate as written. ``scope`` is the tag that applies to it, not validated; ``secret``: it holds a secret."""

    text: str
    scope: str | None = None
    secret: bool = False


def plugin_spans(text: str) -> list[Span]:
    """Return the candidates of a text: the tag of the candidate itself, else the first tag of the message (E-30)."""
    first = find_tag(text)
    return [Span(candidate, find_tag(candidate) or first) for candidate in split_candidates(text)]


def tagged_spans(text: str) -> list[Span]:
    """Return the candidates of a text without their tags, and whether they hold any part of a secret of the text.

    The tag of a line wins, then a line before it that holds only a tag, then the first tag of the message. A line that
    holds only a tag is no candidate. A text of one line is split into sentences, also between Chinese sentences that
    no space separates.
    """
    first = find_tag(text)
    lines = split_lines(text)
    secrets = secret_spans(text)
    spans: list[Span] = []
    before: str | None = None
    position = 0
    for line in lines:
        tag = find_tag(line)
        rest = without_tag(line) if tag else line
        if tag and not rest:
            before = tag
            continue
        scope = tag or before or first
        before = None
        for part in split_sentences(rest, chinese=True) if len(lines) == 1 else [rest]:
            start = text.index(part, position)
            position = start + len(part)
            hidden = any(begin < position and end > start for begin, end in secrets)
            spans.append(Span(part, scope, hidden or (scope is not None and holds_secret(scope))))
    return spans[:MAX_CANDIDATES]


def without_tag(line: str) -> str:
    """Return a line that begins with a scope tag without it and the list marks before it."""
    rest = strip_decorations(line)
    match = _TAGS.match(rest)
    return rest[match.end() :].strip(WHITESPACE) if match else line
