"""How a host reads a memory as if it were a file (E-92): the name of the file, and some of its lines."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from lab.base.utf16 import WHITESPACE, js_length
from lab.systems.openclaw.js import text_or_blank

MAX_NAME_CHARS = 160
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_LINE_END = re.compile(r"\r?\n")


class Lines(NamedTuple):
    """Some lines of a text. ``first`` counts from 1; ``requested`` is how many were requested.

    ``truncated``: lines before or after them were left out. ``next_line`` is where to continue, or None.
    """

    text: str
    first: int
    requested: int
    truncated: bool
    next_line: int | None


def safe_name(identity: str | None) -> str:
    """Return an id as part of a file name: other characters than ASCII letters, digits and ``._-`` become ``_``."""
    text = text_or_blank(identity).strip(WHITESPACE)
    return _UNSAFE.sub(lambda found: "_" * js_length(found[0]), text)[:MAX_NAME_CHARS] or "unknown"


def lines_of(text: str, first: float | None = None, count: float | None = None) -> Lines:
    """Return ``count`` lines (None: as many as the text has) from line ``first`` on (None: 1), joined by LF."""
    lines = _LINE_END.split(text)
    start = max(1, math.floor(first)) if first is not None and math.isfinite(first) else 1
    taken = max(0, math.floor(count)) if count is not None and math.isfinite(count) else len(lines)
    end = start - 1 + taken
    kept = lines[start - 1 : end]
    return Lines("\n".join(kept), start, taken, len(kept) < len(lines), end + 1 if end < len(lines) else None)
