"""The public plugin's Working Set (E-26): constraints, decisions and open work, pinned as the first slot.

It is built from the given rows, without goal or header. Every row whose line was chosen counts as consumed, even if
the final cut removes the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lab.base.utf16 import WHITESPACE, js_slice
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row
from lab.systems.openclaw.config.settings import WorkingSetSettings
from lab.systems.openclaw.recall.budget import Slot
from lab.systems.openclaw.recall.working_set import (
    NO_SECTIONS,
    PREFIX,
    RANKS,
    distinct,
    is_constraint,
    normal_line,
    open_questions,
    working_set_slot,
)


class WorkingSet(NamedTuple):
    """The slot (None: nothing to pin), the ids whose lines were chosen, and how many lines each section has."""

    slot: Slot | None
    consumed: tuple[str, ...]
    sections: dict[str, int]


def build_working_set(
    scope: str, prompt: str, now_ms: float, limits: WorkingSetSettings, rows: Sequence[Row]
) -> WorkingSet:
    """Build the Working Set of a scope; none if it had only open questions, or a single line that is not a rule."""
    memories = (row for row in rows if not row.id.startswith(PREFIX))
    newest = sorted(memories, key=lambda row: (-row.created_at, id_order(row.id)))
    ranked = sorted(newest, key=lambda row: RANKS.get(row.importance_label, 2))
    constraints = _section(newest, lambda row: is_constraint(row.category, row.text), limits)
    decisions = _section(ranked, lambda row: row.category == "decision", limits)
    actions = _section(newest, lambda row: row.category == "todo", limits)
    questions = open_questions(prompt, limits.max_items_per_section, limits.max_item_chars)
    chosen = [identity.strip(WHITESPACE) for part in (constraints, decisions, actions) for identity in part.values()]
    consumed = [identity for identity in chosen if identity]
    if not chosen or (len(consumed) < 2 and not constraints):
        return WorkingSet(None, (), dict(NO_SECTIONS))
    parts = (
        ("constraints", list(constraints)),
        ("decisions", list(decisions)),
        ("next_actions", list(actions)),
        ("open_questions", questions),
    )
    text = "\n".join(
        line for title, lines in parts if lines for line in (f"{title}:", *(f"- {entry}" for entry in lines))
    )
    counts = dict(zip(NO_SECTIONS, (False, *(len(lines) for _, lines in parts)), strict=True))
    slot = working_set_slot(scope, now_ms, js_slice(text.strip(WHITESPACE), limits.max_chars))
    return WorkingSet(slot, tuple(dict.fromkeys(consumed)), counts)


def _section(rows: Iterable[Row], belongs: Callable[[Row], bool], limits: WorkingSetSettings) -> dict[str, str]:
    """Return the distinct lines in order, each with the id of its first row."""
    owners: dict[str, str] = {}
    lines = []
    for row in rows:
        if belongs(row):
            line = normal_line(row.text, limits.max_item_chars)
            owners.setdefault(line.lower(), row.id)
            lines.append(line)
    return {line: owners[line.lower()] for line in distinct(lines, limits.max_items_per_section)}
