"""The older Working Set, whose header calls it ``[working_set v1]`` (E-69).

The public plugin built it, at every turn from the store and the prompt, when the design documents were written. It is
cut anywhere, may repeat a line in two sections, and keeps stale TODOs. ``lab.workingSet: v1`` selects it in either
profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
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
    is_constraint,
    normal_line,
    open_questions,
    working_set_slot,
)

V1 = "v1"
# The number of most recent rows of these categories that are considered.
CATEGORIES = ("preference", "decision", "todo")
MAX_ROWS = 36
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WorkingSetV1(NamedTuple):
    """The slot, its lines with the row of each (None: no row, or the line was cut), and the lines chosen by section."""

    slot: Slot
    lines: tuple[tuple[str, Row | None], ...]
    sections: dict[str, int | bool]


def build_working_set_v1(
    scope: str, prompt: str, now_ms: float, settings: WorkingSetSettings, recent: Sequence[Row]
) -> WorkingSetV1:
    """Build the Working Set of a scope from its ``recent`` rows. There always is one, because it has a header."""
    rows = [row for row in recent if not row.id.startswith(PREFIX)]
    newest = sorted(rows, key=lambda row: (-row.created_at, id_order(row.id)))
    ranked = sorted(newest, key=lambda row: RANKS.get(row.importance_label, 2))

    def chosen(source: Iterable[Row], belongs: Callable[[Row], bool]) -> list[tuple[str, Row | None]]:
        lines: dict[str, tuple[str, Row | None]] = {}
        for row in filter(belongs, source):
            text = normal_line(row.text, settings.max_item_chars)
            if text:
                lines.setdefault(text.lower(), (f"- {text}", row))
        return list(lines.values())[: settings.max_items_per_section]

    parts: dict[str, list[tuple[str, Row | None]]] = {
        "constraints": chosen(newest, lambda row: is_constraint(row.category, row.text)),
        "decisions": chosen(ranked, lambda row: row.category == "decision"),
        "next_actions": chosen(newest, lambda row: row.category == "todo"),
        "open_questions": [
            (f"- {text}", None)
            for text in open_questions(prompt, settings.max_items_per_section, settings.max_item_chars)
        ],
    }
    goal = normal_line(prompt, settings.max_goal_chars)
    lines: list[tuple[str, Row | None]] = [
        (f"[working_set v1] scope={scope}", None),
        (f"updatedAt={_iso(now_ms)}", None),
    ]
    lines += [(f"goal: {goal}", None)] if goal else []
    lines += [line for title, part in parts.items() if part for line in ((f"{title}:", None), *part)]
    text = "\n".join(text for text, _ in lines).strip(WHITESPACE)
    slot = working_set_slot(scope, now_ms, js_slice(text, settings.max_chars))
    kept = slot.text.split("\n")
    complete = tuple(line if line[0] == text else (text, None) for line, text in zip(lines, kept, strict=False))
    sections = dict(zip(NO_SECTIONS, (bool(goal), *map(len, parts.values())), strict=True))
    return WorkingSetV1(slot, complete, sections)


def _iso(now_ms: float) -> str:
    """Return epoch milliseconds as JavaScript's ``toISOString`` writes them."""
    return (_EPOCH + timedelta(milliseconds=int(now_ms))).isoformat(timespec="milliseconds").replace("+00:00", "Z")
