"""The Working Set of seed 000 (its backbone lane), built from the store before selection (E-26, E-58, E-59).

It differs from the public plugin's (``upstream/working_set.py``) as the seeds require: it does not depend on the
selection, hard rules come first and uncut, stale TODOs are excluded, no line occurs in two sections, and only memories
whose lines survive the cut count as pinned. It has no header, because a timestamp would change the prompt every turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from lab.retrieval.collation import id_order
from lab.retrieval.row import Row
from lab.systems.openclaw.config.settings import WorkingSetSettings
from lab.systems.openclaw.near_duplicate import LIKENESS, Normal, alike, normal_text
from lab.systems.openclaw.recall.budget import Slot
from lab.systems.openclaw.recall.todo import is_stale
from lab.systems.openclaw.recall.working_set import (
    NO_SECTIONS,
    RANKS,
    WHOLE,
    is_constraint,
    normal_line,
    open_questions,
    working_set_slot,
)
from lab.utf16 import js_length

CATEGORIES = ("preference", "decision", "todo")
# The number of most recent rows of those categories that are considered.
MAX_ROWS = 36


class Line(NamedTuple):
    """A line of the Working Set. ``id`` is its memory, None for titles and lines from the prompt."""

    text: str
    id: str | None = None
    hard: bool = False


class WorkingSet(NamedTuple):
    """The pinned slot (None: nothing to pin), its lines, and how many lines each section has.

    ``pinned`` are the ids of the memories whose lines it contains, ``normals`` the normalised lines of memories, and
    ``where`` the indices of the lines that contain each word.
    """

    slot: Slot | None
    lines: tuple[Line, ...]
    sections: dict[str, int | bool]
    pinned: tuple[str, ...] = ()
    normals: tuple[Normal, ...] = ()
    where: Mapping[str, Sequence[int]] = MappingProxyType({})

    def holds(self, text: str) -> bool:
        """Whether a text duplicates the line of a memory."""
        normal = normal_text(text)
        shared = [0] * len(self.normals)
        for word in normal.words:
            for index in self.where.get(word, ()):
                shared[index] += 1
        # Duplicates share most words of the longer text, or all words of the shorter one except up to two that are cut
        # at its ends. This cheap count excludes most lines.
        count = len(normal.words)
        return any(
            alike(normal, line)
            for line, common in zip(self.normals, shared, strict=True)
            if common >= LIKENESS * count or common >= min(count, len(line.words)) - 2
        )

    def holds_rule(self, rule: Row) -> bool:
        """Whether the line of a hard rule equals the text of another rule, ignoring case."""
        text = f"- {normal_line(rule.text, WHOLE)}".lower()
        return any(line.hard and line.text.lower() == text for line in self.lines)


def build_working_set(
    scope: str,
    prompt: str,
    now_ms: float,
    settings: WorkingSetSettings,
    recent: Sequence[Row],
    hard_rules: Sequence[Row],
    stale_days: float,
) -> WorkingSet:
    """Build the Working Set of a scope from its ``recent`` rows and its ``hard_rules``."""
    fresh = [row for row in recent if row.category != "todo" or not is_stale(row.created_at, now_ms, stale_days)]
    parts = _parts(prompt, settings, fresh, hard_rules)
    lines = [line for title, part in parts.items() if part for line in (Line(f"{title}:"), *part)]
    goal = whole_characters(normal_line(prompt, settings.max_goal_chars))
    # Constraints come before the goal, so that a cut removes what the prompt contains anyway.
    if goal:
        lines.insert(1 + len(parts["constraints"]) if parts["constraints"] else 0, Line(f"goal: {goal}"))
    kept = cut_lines(lines, settings.max_chars)
    # Lines from the prompt alone are not worth pinning: the model sees the prompt anyway.
    if not any(line.id for line in kept):
        return WorkingSet(None, (), dict(NO_SECTIONS))
    sections = dict(zip(NO_SECTIONS, (bool(goal), *map(len, parts.values())), strict=True))
    normals = tuple(normal_text(line.text.rstrip("…").removeprefix("- ")) for line in kept if line.id)
    where: dict[str, list[int]] = {}
    for index, normal in enumerate(normals):
        for word in normal.words:
            where.setdefault(word, []).append(index)
    slot = working_set_slot(scope, now_ms, "\n".join(line.text for line in kept))
    pinned = tuple(dict.fromkeys(line.id for line in kept if line.id))
    return WorkingSet(slot, tuple(kept), sections, pinned, normals, where)


def _parts(
    prompt: str, settings: WorkingSetSettings, recent: Sequence[Row], hard_rules: Sequence[Row]
) -> dict[str, list[Line]]:
    """Return the sections of the Working Set by title, in order. No line occurs in two of them."""
    most, width = settings.max_items_per_section, settings.max_item_chars
    hard = {row.id for row in hard_rules}
    newest = sorted((row for row in recent if row.id not in hard), key=lambda row: (-row.created_at, id_order(row.id)))
    ranked = sorted(newest, key=lambda row: RANKS.get(row.importance_label, 2))
    taken: set[str] = set()

    def lines(chosen: Iterable[Row], limit: int, width: int) -> list[Line]:
        kept: list[Line] = []
        for row in chosen:
            text = whole_characters(normal_line(row.text, width))
            if text and text.lower() not in taken and len(kept) < limit:
                taken.add(text.lower())
                kept.append(Line(f"- {text}", row.id, row.id in hard))
        return kept

    rules = lines(hard_rules, len(hard_rules), WHOLE)
    return {
        "constraints": rules + lines((row for row in newest if is_constraint(row.category, row.text)), most, width),
        "decisions": lines((row for row in ranked if row.category == "decision"), most, width),
        "next_actions": lines((row for row in newest if row.category == "todo"), most, width),
        "open_questions": [Line(f"- {whole_characters(text)}") for text in open_questions(prompt, most, width)],
    }


def whole_characters(line: str) -> str:
    """Remove half a surrogate pair that a cut may have left before the ellipsis of a line."""
    return f"{line[:-2]}…" if line.endswith("…") and "\ud800" <= line[-2:-1] <= "\udbff" else line


def cut_lines(lines: Sequence[Line], max_chars: int) -> list[Line]:
    """Return the lines that fit into ``max_chars`` UTF-16 units, uncut.

    Hard rules are added first, then the others in their order. Titles without lines, and lines without their title,
    are dropped.
    """
    room = max_chars + 1
    fits: set[int] = set()
    titles = [at for at, line in enumerate(lines) if _is_title(line)]
    under = {at: max((title for title in titles if title < at), default=None) for at in range(len(lines))}
    order = sorted(range(len(lines)), key=lambda at: (not lines[at].hard, at))
    if any(line.hard for line in lines):
        # The title of the hard rules is added before them.
        order.remove(0)
        order.insert(0, 0)
    for at in order:
        need = js_length(lines[at].text) + 1
        alone = _is_title(lines[at]) or _is_goal(lines[at])
        if need <= room and (alone or under[at] is None or under[at] in fits):
            fits.add(at)
            room -= need
    kept = [line for at, line in enumerate(lines) if at in fits]
    return [
        line
        for at, line in enumerate(kept)
        if not _is_title(line) or (at + 1 < len(kept) and not _is_title(kept[at + 1]) and not _is_goal(kept[at + 1]))
    ]


def _is_title(line: Line) -> bool:
    return line.id is None and line.text.endswith(":") and not line.text.startswith(("- ", "goal: "))


def _is_goal(line: Line) -> bool:
    return line.id is None and line.text.startswith("goal: ")
