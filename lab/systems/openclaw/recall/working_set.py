"""What the Working Sets of both profiles share (E-26): cutting lines, detecting rules, the slot, the receipt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from lab.base.utf16 import WHITESPACE, js_length, js_slice
from lab.recordings.model import MUST, NICE
from lab.retrieval.contract import Row
from lab.systems.openclaw.recall.budget import Slot

PREFIX = "working_set:"
# A width beyond every text, so that a line is not cut.
WHOLE = 1 << 30
RANKS = {MUST: 0, NICE: 1}
NO_SECTIONS = {"goal": False, "constraints": 0, "decisions": 0, "nextActions": 0, "openQuestions": 0}
_SPACE_OR_CONTROL = re.compile(f"[{WHITESPACE}\x00-\x1f\x7f]+")
_RULE_WORDS = re.compile(
    r"\b(?:must|only|never|don't|do not|avoid|required|forbid|forbidden)\b", re.IGNORECASE | re.ASCII
)
_RULE_CHARACTERS = ("必須", "只能", "不要", "禁止", "務必")


@lru_cache(maxsize=16_384)
def normal_line(text: str, limit: int) -> str:
    """Return a text as one line, cut to ``limit`` UTF-16 units with an ellipsis."""
    line = _SPACE_OR_CONTROL.sub(" ", text).strip(WHITESPACE)
    if js_length(line) <= limit:
        return line
    return js_slice(line, limit - 1) + "…" if limit > 1 else js_slice(line, max(0, limit))


def open_questions(prompt: str, limit: int, max_chars: int) -> list[str]:
    """Return the lines of a prompt with a question mark, at most ``limit`` and never more than three."""
    lines = (normal_line(line, max_chars) for line in re.split(r"\r?\n", prompt))
    return distinct((line for line in lines if "?" in line or "？" in line), max(1, min(3, limit)))


@lru_cache(maxsize=16_384)
def is_constraint(category: str, text: str) -> bool:
    """Whether a memory states a rule: a preference or decision with words such as must, never, 不要."""
    worded = _RULE_WORDS.search(text) is not None or any(word in text for word in _RULE_CHARACTERS)
    return worded and category in ("preference", "decision")


def distinct(lines: Iterable[str], limit: int) -> list[str]:
    """Return the first ``limit`` non-blank lines that differ in more than case."""
    kept: dict[str, str] = {}
    for line in lines:
        if line:
            kept.setdefault(line.lower(), line)
    return list(kept.values())[:limit]


def working_set_slot(scope: str, now_ms: float, text: str) -> Slot:
    """Return the slot of a scope's Working Set, which is pinned before all others."""
    return Slot(f"{PREFIX}{scope}", now_ms, "other", MUST, text)


def working_set_row(slot: Slot, scope: str, now_ms: float, *, no_vector: bool) -> Row:
    """Return the memory as which a Working Set is stored (E-28). ``no_vector``: it could not be embedded."""
    source = "system_working_set_noembed" if no_vector else "system_working_set"
    return Row(slot.id, slot.id, slot.text, slot.text, int(now_ms), "other", MUST, scope, source, 0.96)


def no_working_set(*, enabled: bool) -> dict[str, Any]:
    """Return the receipt of a Working Set that was not built (E-29)."""
    return {
        "enabled": enabled,
        "generated": False,
        "id": None,
        "chars": 0,
        "sections": dict(NO_SECTIONS),
        "consumedCount": 0,
        "suppressedRecallCount": 0,
        "persisted": False,
    }
