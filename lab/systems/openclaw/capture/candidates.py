"""Split a text into candidate lines or sentences, and normalise them (E-72)."""

from __future__ import annotations

import re

from lab.base.utf16 import WHITESPACE, js_length

MAX_CANDIDATES, MIN_CHARS = 16, 12
_SPACE = f"[{WHITESPACE}]"
_SPACES = re.compile(f"{_SPACE}+")
_LINE_BREAK = re.compile(r"\r?\n")
_AFTER_SENTENCE = re.compile(rf"(?<=[.!?。！？]){_SPACE}+")
# Chinese sentences follow each other without a space; closing marks belong to the sentence before.
_CLOSING = "」』”’）】》〉\"'"
_AFTER_CHINESE = re.compile(rf"(?:(?<=[。！？])|(?<=[。！？][{_CLOSING}]))(?=[^{WHITESPACE}。！？!?.…{_CLOSING}])")
_SLASH_COMMAND = re.compile(r"/[A-Za-z0-9_-]")


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
