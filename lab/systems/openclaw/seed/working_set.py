"""The backbone lane of seed 000: a Working Set built from the store, before anything is recalled (E-26, E-58, E-59).

It differs from the public plugin's (``upstream/working_set.py``) in what the seeds ask for: it does
not depend on what recall selected, hard rules come first and whole, a TODO that has outlived its days is left out, no
line stands in two sections, and only a memory whose line survives the cut counts as pinned. It has no header: a time
stamp in it would change the prompt at every turn.
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
# Rows of those categories that the digest is made of: the most recent ones.
MAX_ROWS = 36


class Line(NamedTuple):
    """A line of the digest. ``id`` is the memory it stands for, None for titles and lines of the prompt."""

    text: str
    id: str | None = None
    hard: bool = False


class WorkingSet(NamedTuple):
    """The pinned slot (None: nothing to pin), its lines, and how many lines each section has.

    ``pinned`` are the ids of the memories whose lines are in it, ``said`` is what those lines say, ``where`` the places
    in it of each word.
    """

    slot: Slot | None
    lines: tuple[Line, ...]
    sections: dict[str, int | bool]
    pinned: tuple[str, ...] = ()
    said: tuple[Normal, ...] = ()
    where: Mapping[str, Sequence[int]] = MappingProxyType({})

    def holds(self, text: str) -> bool:
        """Whether a text says what a line of a memory says already."""
        normal = normal_text(text)
        shared = [0] * len(self.said)
        for word in normal.words:
            for place in self.where.get(word, ()):
                shared[place] += 1
        # Saying the same takes most of the words of the longer, or all of the shorter's but for two that the ends of
        # the one may cut in the other: for most lines this count is all.
        count = len(normal.words)
        return any(
            alike(normal, line)
            for line, common in zip(self.said, shared, strict=True)
            if common >= LIKENESS * count or common >= min(count, len(line.words)) - 2
        )

    def holds_rule(self, rule: Row) -> bool:
        """Whether a line of a hard rule has the words of another one, but for their case."""
        line = f"- {normal_line(rule.text, WHOLE)}".lower()
        return any(one.hard and one.text.lower() == line for one in self.lines)


def build_working_set(
    scope: str,
    prompt: str,
    now_ms: float,
    settings: WorkingSetSettings,
    recent: Sequence[Row],
    hard_rules: Sequence[Row],
    stale_days: float,
) -> WorkingSet:
    """Build the digest of a scope from its ``recent`` rows and its ``hard_rules``."""
    fresh = [row for row in recent if row.category != "todo" or not is_stale(row.created_at, now_ms, stale_days)]
    parts = _parts(prompt, settings, fresh, hard_rules)
    whole = [line for title, part in parts.items() if part for line in (Line(f"{title}:"), *part)]
    goal = whole_characters(normal_line(prompt, settings.max_goal_chars))
    # Constraints come first, so that a cut takes what the prompt says anyway.
    if goal:
        whole.insert(1 + len(parts["constraints"]) if parts["constraints"] else 0, Line(f"goal: {goal}"))
    kept = cut_lines(whole, settings.max_chars)
    # The prompt alone is no backbone: it is before the model already.
    if not any(line.id for line in kept):
        return WorkingSet(None, (), dict(NO_SECTIONS))
    sections = dict(zip(NO_SECTIONS, (bool(goal), *map(len, parts.values())), strict=True))
    said = tuple(normal_text(line.text.rstrip("…").removeprefix("- ")) for line in kept if line.id)
    where: dict[str, list[int]] = {}
    for place, one in enumerate(said):
        for word in one.words:
            where.setdefault(word, []).append(place)
    slot = working_set_slot(scope, now_ms, "\n".join(line.text for line in kept))
    pinned = tuple(dict.fromkeys(line.id for line in kept if line.id))
    return WorkingSet(slot, tuple(kept), sections, pinned, said, where)


def _parts(
    prompt: str, settings: WorkingSetSettings, recent: Sequence[Row], hard_rules: Sequence[Row]
) -> dict[str, list[Line]]:
    """The sections of the digest by their titles, in order. No line stands in two of them."""
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
        "open_questions": [Line(f"- {whole_characters(one)}") for one in open_questions(prompt, most, width)],
    }


def whole_characters(line: str) -> str:
    """A line without the half of a character that a cut may have left before its ellipsis."""
    return f"{line[:-2]}…" if line.endswith("…") and "\ud800" <= line[-2:-1] <= "\udbff" else line


def cut_lines(lines: Sequence[Line], max_chars: int) -> list[Line]:
    """The lines that fit into ``max_chars`` UTF-16 units, whole ones alone, and titles and lines not without the other.

    Hard rules are let in first, then the others in their order.
    """
    room = max_chars + 1
    fits: set[int] = set()
    titles = [at for at, line in enumerate(lines) if _is_title(line)]
    under = {at: max((title for title in titles if title < at), default=None) for at in range(len(lines))}
    order = sorted(range(len(lines)), key=lambda at: (not lines[at].hard, at))
    if any(line.hard for line in lines):
        # The title above the hard rules goes with them.
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
