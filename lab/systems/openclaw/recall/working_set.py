"""The Working Set (spec 6): a digest of constraints, decisions and open work that is pinned as the first slot.

This is the public plugin's variant: built from the rows it is handed, without goal or header, and with every row whose
line was chosen counted as consumed, even where the final cut loses the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from lab.recordings.model import MUST, NICE
from lab.retrieval.collation import id_order
from lab.systems.openclaw.recall.budget import Slot
from lab.utf16 import WHITESPACE, js_length, js_slice

PREFIX = "working_set:"
_SPACE_OR_CONTROL = re.compile(f"[{WHITESPACE}\x00-\x1f\x7f]+")
_RULE_WORDS = re.compile(
    r"\b(?:must|only|never|don't|do not|avoid|required|forbid|forbidden)\b", re.IGNORECASE | re.ASCII
)
_RULE_CHARACTERS = ("必須", "只能", "不要", "禁止", "務必")
RANKS = {MUST: 0, NICE: 1}


class WorkingSetRow(NamedTuple):
    """What the digest needs of a memory."""

    id: str
    text: str
    created_at: float
    category: str
    label: str | None


class WorkingSetLimits(NamedTuple):
    """The plugin's ``workingSet`` sizes, in UTF-16 units and in lines."""

    max_chars: int = 240
    max_items_per_section: int = 2
    max_item_chars: int = 100


class WorkingSet(NamedTuple):
    """The slot (None: nothing worth pinning), ids whose lines were chosen, and how many lines each section has."""

    slot: Slot | None
    consumed: tuple[str, ...]
    sections: dict[str, Any]


@lru_cache(maxsize=16_384)
def normal_line(text: str, limit: int) -> str:
    """One line of a text, cut with an ellipsis to ``limit`` units."""
    line = _SPACE_OR_CONTROL.sub(" ", text).strip(WHITESPACE)
    if js_length(line) <= limit:
        return line
    return js_slice(line, limit - 1) + "…" if limit > 1 else js_slice(line, max(0, limit))


def open_questions(prompt: str, limit: int, max_chars: int) -> list[str]:
    """Lines of a prompt that hold a question mark; at most three, whatever the limit."""
    lines = (normal_line(line, max_chars) for line in re.split(r"\r?\n", prompt))
    return _distinct((line for line in lines if "?" in line or "？" in line), max(1, min(3, limit)))


def build_working_set(
    scope: str, prompt: str, now_ms: float, limits: WorkingSetLimits, rows: Sequence[WorkingSetRow]
) -> WorkingSet:
    """Build the digest of a scope: none where open questions alone would fill it, or a single line that is no rule."""
    own = (row for row in rows if not row.id.startswith(PREFIX))
    newest = sorted(own, key=lambda row: (-row.created_at, id_order(row.id)))
    ranked = sorted(newest, key=lambda row: RANKS.get(row.label or "", 2))
    constraints = _section(newest, lambda row: is_constraint(row.category, row.text), limits)
    decisions = _section(ranked, lambda row: row.category == "decision", limits)
    actions = _section(newest, lambda row: row.category == "todo", limits)
    questions = open_questions(prompt, limits.max_items_per_section, limits.max_item_chars)
    chosen = [identity.strip(WHITESPACE) for part in (constraints, decisions, actions) for identity in part.values()]
    consumed = [identity for identity in chosen if identity]
    sections = {
        "goal": False,
        "constraints": len(constraints),
        "decisions": len(decisions),
        "nextActions": len(actions),
        "openQuestions": len(questions),
    }
    if not chosen or (len(consumed) < 2 and not constraints):
        return WorkingSet(None, (), dict.fromkeys(sections, 0) | {"goal": False})
    parts = (
        ("constraints", list(constraints)),
        ("decisions", list(decisions)),
        ("next_actions", list(actions)),
        ("open_questions", questions),
    )
    text = "\n".join(line for title, lines in parts if lines for line in (f"{title}:", *(f"- {one}" for one in lines)))
    slot = Slot(f"{PREFIX}{scope}", now_ms, "other", MUST, js_slice(text.strip(WHITESPACE), limits.max_chars))
    return WorkingSet(slot, tuple(dict.fromkeys(consumed)), sections)


@lru_cache(maxsize=16_384)
def is_constraint(category: str, text: str) -> bool:
    """Whether a memory states a rule: a preference or decision in words such as must, never, 不要."""
    worded = _RULE_WORDS.search(text) is not None or any(word in text for word in _RULE_CHARACTERS)
    return worded and category in ("preference", "decision")


def _section(
    rows: Iterable[WorkingSetRow], belongs: Callable[[WorkingSetRow], bool], limits: WorkingSetLimits
) -> dict[str, str]:
    """Line to row id, in order: the first row of each distinct line."""
    owners: dict[str, str] = {}
    lines = []
    for row in rows:
        if belongs(row):
            line = normal_line(row.text, limits.max_item_chars)
            owners.setdefault(line.lower(), row.id)
            lines.append(line)
    return {line: owners[line.lower()] for line in _distinct(lines, limits.max_items_per_section)}


def _distinct(lines: Iterable[str], limit: int) -> list[str]:
    """The first ``limit`` lines that are not blank and differ in more than case."""
    kept: dict[str, str] = {}
    for line in lines:
        if line:
            kept.setdefault(line.lower(), line)
    return list(kept.values())[:limit]
