"""Whether a text announces a task: a marker at its start, behind what Markdown puts before it (spec 15.2, rule F)."""

from __future__ import annotations

import re
import unicodedata

_QUOTE = re.compile(r">\s*")
# A bullet alone is a text; with anything behind it, it is a bullet.
_BULLET = re.compile(r"[-+*•‣⁃∙●○◦▪▫■□▸·・‐‑‒–—―−](?:\s+|(?=\S))")
_CHECKBOX = re.compile(r"\[[ xX✓✔✗✘☐☑☒-]\]\s*")
_NUMBER = r"(?:\d+|[ivxlcdm]+|[a-z])"
_ORDERED = re.compile(rf"(?:\({_NUMBER}\)|{_NUMBER}[.)-])\s*", re.IGNORECASE)

_WORD = r"(?:todo|task|reminder)"
_PAIRS = ("[]", "()", "【】", "〔〕", "{}", "「」", "『』", "《》", "〈〉", "«»", "〖〗", "〘〙", "‹›", "<>")
_ENCLOSED = "|".join(rf"{re.escape(pair[0])}\s*{_WORD}\s*{re.escape(pair[1])}" for pair in _PAIRS)
_MARKER = re.compile(rf"(?:{_WORD}(?:[:;.。‐‑‒–—―−-]|\s|$)|{_ENCLOSED})", re.IGNORECASE)


def strip_task_prefix(text: str) -> str:
    """A text (NFKC) without the quote signs, bullets, boxes and the one list number at its start."""
    rest = unicodedata.normalize("NFKC", text).lstrip()
    numbered = False
    while True:
        found = _QUOTE.match(rest) or _CHECKBOX.match(rest) or _BULLET.match(rest)
        # A list number stands once: what follows it in "2026-01-01" is no second one.
        if found is None and not numbered:
            found = _ORDERED.match(rest)
            numbered = found is not None
        if found is None:
            return rest
        rest = rest[found.end() :]


def has_task_marker(text: str) -> bool:
    """Whether a text begins with TODO, TASK or REMINDER, set apart by a separator, a space, its end or brackets."""
    return _MARKER.match(strip_task_prefix(text)) is not None
