"""The rules of autoCapture that the seeds require (E-71 to E-79)."""

from __future__ import annotations

import re

from lab.base.utf16 import js_slice
from lab.systems.openclaw.capture.categories import detect_category
from lab.systems.openclaw.capture.clean import strip_all
from lab.systems.openclaw.capture.credentials import holds_secret
from lab.systems.openclaw.capture.duplicates import is_near_duplicate_cjk
from lab.systems.openclaw.capture.pipeline import Rules
from lab.systems.openclaw.capture.spans import tagged_spans
from lab.systems.openclaw.capture.tool_like import is_tool_like

_CLOSING = "</relevant-memories>"
_LAST_END = re.compile(r".*(?:\n|[.!?](?=\s)|[。！？])", re.DOTALL)


def cut_whole(text: str, units: int) -> str:
    """Return the whole lines or sentences at the start of a text that fit into ``units`` UTF-16 units.

    Half a sentence would be stored as if it had been said, and half a secret would not be recognised.
    """
    match = _LAST_END.match(js_slice(text, units))
    return match[0] if match else ""


def is_tool_output(text: str) -> bool:
    """Return whether a candidate is the output of a tool, or ends an injected block whose start is missing."""
    return is_tool_like(text) or _CLOSING in text.lower()


RULES = Rules(
    clean=strip_all,
    spans=tagged_spans,
    is_secret=holds_secret,
    is_tool_like=is_tool_output,
    category=detect_category,
    is_duplicate=is_near_duplicate_cjk,
    cut=cut_whole,
    newest_first=True,
    counts_all=True,
)
