"""What the Working Sets of both profiles share (E-26): cutting lines, detecting rules, the slot, the receipt.

Also the older Working Set, whose header calls it ``[working_set v1]`` (E-69), which ``lab.workingSet: v1`` selects in
either profile. The public plugin built it, at every turn from the store and the prompt, when the design documents were
written. It is cut anywhere, may repeat a line in two sections, and keeps stale TODOs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.base.utf16 import WHITESPACE, js_length, js_slice
from lab.recordings.model import MUST, NICE
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row
from lab.retrieval.faults import NO_VECTOR
from lab.systems.openclaw.config.settings import WorkingSetSettings
from lab.systems.openclaw.recall.block import Slot

PREFIX = "working_set:"
# A width beyond every text, so that a line is not cut.
WHOLE = 1 << 30
RANKS = {MUST: 0, NICE: 1}
NO_SECTIONS = {"goal": False, "constraints": 0, "decisions": 0, "nextActions": 0, "openQuestions": 0}
_SPACE_OR_CONTROL = regex(f"[{WHITESPACE}\x00-\x1f\x7f]+")
_RULE_WORDS = regex(r"\b(?:must|only|never|don't|do not|avoid|required|forbid|forbidden)\b", re.IGNORECASE | re.ASCII)
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


def working_set_row(slot: Slot, scope: str, now_ms: float, *, no_vector: str | None) -> Row:
    """Return the memory as which a Working Set is stored (E-28).

    ``no_vector``: why the prompt has none. If the provider was down, the plugin stores zeros for this text as well; a
    prompt that was too long does not keep it from being embedded.
    """
    embedded = no_vector != NO_VECTOR["embedder_down"]
    source = "system_working_set" if embedded else "system_working_set_noembed"
    return Row(
        slot.id, slot.id, slot.text, slot.text, int(now_ms), "other", MUST, scope, source, 0.96, embedded=embedded
    )


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
