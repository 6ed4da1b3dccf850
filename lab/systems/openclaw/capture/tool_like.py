"""Recognise the output of tools (E-74)."""

from __future__ import annotations

import re

_WORDS = re.compile(
    r"\b(?:stdout|stderr|exit ?code|traceback|stack ?trace|tool[ _-]?call|tool[ _-]?result|command output)\b",
    re.IGNORECASE | re.ASCII,
)
_KEY = re.compile(r'"(?:stdout|stderr|exitCode|command|tool)"', re.IGNORECASE | re.ASCII)


def is_tool_like(text: str) -> bool:
    """Whether a candidate is blank, an injected block, a code fence, an object of a tool, or speaks of tool output."""
    if not text or "<relevant-memories>" in text.lower() or text.startswith("```"):
        return True
    if text.startswith("{") and text.endswith("}") and _KEY.search(text):
        return True
    return _WORDS.search(text) is not None
