"""Shorten the text that is embedded (E-50) to its head, a mark, and its tail. Stored texts are never clamped."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lab.base.utf16 import js_length, js_slice, js_tail, js_utf8_length

MARK = "\n...\n"


@dataclass(frozen=True, slots=True)
class Clamp:
    """The plugin's ``embedding`` limits, in UTF-16 units and UTF-8 bytes (None: no limit)."""

    max_chars: int = 6000
    head_chars: int = 500
    max_bytes: int | None = None


class Clamped(NamedTuple):
    """The text to embed, its sizes before and after, and the limits applied."""

    text: str
    clipped: bool
    original_chars: int
    clamped_chars: int
    original_bytes: int
    clamped_bytes: int
    limits: Clamp


def clamp(text: str, limits: Clamp) -> Clamped:
    """Cut a text to the length that an embedder accepts.

    If it is still too long in bytes, the plugin searches the cut text for the mark: a text that contains the mark
    itself is split there, and whatever follows a second mark is lost.
    """
    limits = _normalised(limits)
    kept = _cut_units(text, limits)
    if limits.max_bytes is not None and js_utf8_length(kept) > limits.max_bytes:
        kept = _cut_bytes(kept, limits.max_bytes, with_head=limits.head_chars > 0)
    kept = js_tail(kept, limits.max_chars)
    return Clamped(
        kept, kept != text, js_length(text), js_length(kept), js_utf8_length(text), js_utf8_length(kept), limits
    )


def _normalised(limits: Clamp) -> Clamp:
    """Return consistent limits in whole numbers; a byte limit that is not positive becomes None."""
    max_chars = max(1, math.floor(limits.max_chars))
    max_bytes = None if limits.max_bytes is None else math.floor(limits.max_bytes)
    return Clamp(
        max_chars,
        min(max_chars, max(0, math.floor(limits.head_chars))),
        max_bytes if max_bytes and max_bytes > 0 else None,
    )


def _cut_units(text: str, limits: Clamp) -> str:
    if js_length(text) <= limits.max_chars:
        return text
    if limits.head_chars <= 0:
        return js_tail(text, limits.max_chars)
    head = js_slice(text, limits.head_chars)
    rest = limits.max_chars - limits.head_chars - len(MARK)
    return head + MARK + js_tail(text, rest) if rest > 0 else head


def _cut_bytes(text: str, limit: int, *, with_head: bool) -> str:
    parts = text.split(MARK)
    if len(parts) == 1 or not with_head:
        return _longest(text, limit, js_tail)
    room = limit - len(MARK)
    head = _longest(parts[0], room if room > 0 else limit, js_slice)
    rest = room - js_utf8_length(head)
    return head + MARK + _longest(parts[1], rest, js_tail) if rest > 0 else head


def _longest(text: str, limit: int, cut: Callable[[str, int], str]) -> str:
    """Return the longest piece from one end of a text that takes at most ``limit`` bytes."""
    lengths = range(1, js_length(text) + 1)
    return cut(text, bisect_right(lengths, limit, key=lambda length: js_utf8_length(cut(text, length))))
