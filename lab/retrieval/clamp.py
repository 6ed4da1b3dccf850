"""How much of a text is embedded (E-50): its head, a mark, and its tail. Stored texts are never clamped."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lab.utf16 import WHITESPACE, js_length, js_slice, js_tail, js_utf8_length

MARK = "\n...\n"
_TOO_LONG = re.compile(
    rf"max(?:imum)? context length|requested[{WHITESPACE}]+[0-9]+[{WHITESPACE}]+tokens"
    "|Please reduce the length of the messages",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Clamp:
    """The plugin's ``embedding`` limits, in UTF-16 units and UTF-8 bytes (None: no limit)."""

    max_chars: int = 6000
    head_chars: int = 500
    max_bytes: int | None = None


class Clamped(NamedTuple):
    """What is embedded of a text, its sizes before and after, and the limits that held."""

    text: str
    clipped: bool
    original_chars: int
    clamped_chars: int
    original_bytes: int
    clamped_bytes: int
    limits: Clamp


def clamp(text: str, limits: Clamp) -> Clamped:
    """Cut a text to what an embedder takes.

    The plugin finds the mark again by its characters when bytes are still too many: a text that holds them itself is
    split there, and what stands behind a second mark is lost.
    """
    limits = _whole(limits)
    kept = _cut_units(text, limits)
    if limits.max_bytes is not None and js_utf8_length(kept) > limits.max_bytes:
        kept = _cut_bytes(kept, limits.max_bytes, with_head=limits.head_chars > 0)
    kept = js_tail(kept, limits.max_chars)
    return Clamped(
        kept, kept != text, js_length(text), js_length(kept), js_utf8_length(text), js_utf8_length(kept), limits
    )


def is_too_long(message: str) -> bool:
    """Whether an embedder's refusal says that the input was longer than it takes."""
    return _TOO_LONG.search(message) is not None


def _whole(limits: Clamp) -> Clamp:
    """Limits in whole numbers that agree with one another; bytes that are not positive are no limit."""
    most = max(1, math.floor(limits.max_chars))
    octets = None if limits.max_bytes is None else math.floor(limits.max_bytes)
    return Clamp(most, min(most, max(0, math.floor(limits.head_chars))), octets if octets and octets > 0 else None)


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
    """The most units from one end of a text that take at most ``limit`` bytes."""
    low, high = 0, js_length(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if js_utf8_length(cut(text, middle)) <= limit else (low, middle - 1)
    return cut(text, low)
