"""Candidates with their scope tags (E-72, E-75)."""

from __future__ import annotations

import re
from typing import NamedTuple

from lab.base.utf16 import WHITESPACE
from lab.systems.openclaw.capture.candidates import MAX_CANDIDATES, split_candidates, split_lines, split_sentences
from lab.systems.openclaw.capture.credentials import holds_secret, secret_spans
from lab.systems.openclaw.recall.scope import find_tag, strip_decorations

_TAGS = re.compile(
    rf"(?:\[(?:ISO|SCOPE)[{WHITESPACE}]*:[{WHITESPACE}]*[^\]]*\][{WHITESPACE}]*)+", re.IGNORECASE | re.ASCII
)


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
