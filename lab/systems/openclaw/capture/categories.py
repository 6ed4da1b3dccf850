"""Detect the category of a sentence (E-36): a TODO, a decision, a preference, or none of them."""

from __future__ import annotations

import re

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
    kind: re.compile(rf"\b(?:{english})\b|{chinese}", re.IGNORECASE | re.ASCII)
    for kind, (english, chinese) in _WORDS.items()
}
_BOUNDED = {
    kind: re.compile(rf"\b(?:{english}|{chinese})\b", re.IGNORECASE | re.ASCII)
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
