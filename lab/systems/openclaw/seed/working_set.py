"""The Working Set of seed 000 (its lane ``backbone``), built from the store before selection, and its turn.

It differs from the public plugin's (``upstream/stages.py``) as the seeds require (E-26, E-58, E-59): it does not depend
on the selection, hard rules come first and uncut, stale TODOs are excluded, no line occurs in two sections, and only
memories whose lines survive the cut count as pinned. It lists preferences with and without rule words. It has no
header, because a timestamp would change the prompt every turn. With ``lab.workingSet: v1`` only the text differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from lab.base.utf16 import js_length, without_half
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row
from lab.systems.openclaw.config.settings import WorkingSetSettings
from lab.systems.openclaw.memory import is_stale
from lab.systems.openclaw.near_duplicate import LIKENESS, Normal, alike, normal_text
from lab.systems.openclaw.recall.block import Slot
from lab.systems.openclaw.recall.receipt import MAX_LISTED, most_listed
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.recall.working_set import (
    RANKS,
    V1,
    WHOLE,
    WorkingSetV1,
    build_working_set_v1,
    is_constraint,
    normal_line,
    open_questions,
    working_set_slot,
)

# The title of each section of rows, in order, and its name in receipts.
TITLES = {
    "constraints": "constraints",
    "preferences": "preferences",
    "decisions": "decisions",
    "next_actions": "nextActions",
    "open_questions": "openQuestions",
}
NO_SECTIONS: dict[str, int | bool] = {"goal": False, **dict.fromkeys(TITLES.values(), 0)}


class Line(NamedTuple):
    """A line of the Working Set. ``id`` is its memory, None for titles and lines from the prompt."""

    text: str
    id: str | None = None
    hard: bool = False


class WorkingSet(NamedTuple):
    """The pinned slot (None: nothing to pin) and its lines.

    ``pinned`` are the ids of the memories whose lines it contains, ``normals`` their normalised lines.
    """

    slot: Slot | None
    lines: tuple[Line, ...]
    pinned: tuple[str, ...] = ()
    normals: frozenset[Normal] = frozenset()

    def holds(self, text: str) -> bool:
        """Whether a text duplicates the line of a memory."""
        return _is_held(text, self.normals)

    def holds_rule(self, rule: Row) -> bool:
        """Whether the line of a hard rule equals the text of another rule, ignoring case."""
        text = f"- {normal_line(rule.text, WHOLE)}".lower()
        return any(line.hard and line.text.lower() == text for line in self.lines)


# The lines of a scope seldom change from one turn to the next, and the same memories are found again.
@lru_cache(maxsize=65_536)
def _is_held(text: str, lines: frozenset[Normal]) -> bool:
    normal = normal_text(text)
    words = normal.words
    # Duplicates share most words of the longer text, or all words of the shorter one except up to two that are cut at
    # its ends. This cheap count excludes most lines.
    enough = LIKENESS * len(words)
    for line in lines:
        common = len(words & line.words)
        if (common >= enough or common >= min(len(words), len(line.words)) - 2) and alike(normal, line):
            return True
    return False


@lru_cache(maxsize=1024)
def _one_of(lines: frozenset[Normal]) -> frozenset[Normal]:
    """Return the same object for equal lines: as a key it is hashed only once, and compares by identity."""
    return lines


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
    if settings.variant == V1:
        built = build_working_set_v1(scope, prompt, now_ms, settings, recent)
        return _of_v1(built, {row.id for row in hard_rules})
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
        return WorkingSet(None, ())
    return _of_lines(working_set_slot(scope, now_ms, "\n".join(line.text for line in kept)), kept)


def sections_of(text: str) -> dict[str, int | bool]:
    """Return how many lines of each section a Working Set's text has, and whether it has a goal (E-29)."""
    counts, section = dict(NO_SECTIONS), ""
    for line in text.split("\n"):
        if line.startswith("goal: "):
            counts["goal"] = True
        elif line.startswith("- ") and section:
            counts[section] += 1
        elif line.endswith(":") and line[:-1] in TITLES:
            section = TITLES[line[:-1]]
    return counts


def _of_v1(built: WorkingSetV1, hard: Set[str]) -> WorkingSet:
    """Return the older Working Set, without half characters.

    A hard rule whose line was shortened is not pinned, so that its whole text becomes an item.
    """
    lines = []
    for text, row in built.lines:
        rule = row is not None and row.id in hard
        shortened = row is not None and text != f"- {normal_line(row.text, WHOLE)}"
        pinned = row is not None and not (rule and shortened)
        lines.append(Line(whole_characters(text), row.id if row and pinned else None, rule and pinned))
    return _of_lines(built.slot._replace(text="\n".join(line.text for line in lines)), lines)


def _of_lines(slot: Slot, lines: Sequence[Line]) -> WorkingSet:
    """Return the Working Set with these lines, and what :meth:`WorkingSet.holds` needs."""
    normals = _one_of(frozenset(normal_text(line.text.rstrip("…").removeprefix("- ")) for line in lines if line.id))
    pinned = tuple(dict.fromkeys(line.id for line in lines if line.id))
    return WorkingSet(slot, tuple(lines), pinned, normals)


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
        "preferences": lines((row for row in ranked if row.category == "preference"), most, width),
        "decisions": lines((row for row in ranked if row.category == "decision"), most, width),
        "next_actions": lines((row for row in newest if row.category == "todo"), most, width),
        "open_questions": [Line(f"- {whole_characters(text)}") for text in open_questions(prompt, most, width)],
    }


def whole_characters(line: str) -> str:
    """Remove half a surrogate pair that a cut may have left at the end of a line, or before its ellipsis."""
    end = "…" if line.endswith("…") else ""
    return f"{without_half(line.removesuffix(end))}{end}"


def cut_lines(lines: Sequence[Line], max_chars: int) -> list[Line]:
    """Return the lines that fit into ``max_chars`` UTF-16 units, uncut.

    Hard rules are added first, then the others in their order. Titles without lines, and lines without their title,
    are dropped.
    """
    room = max_chars + 1
    fits: set[int] = set()
    titles = [at for at, line in enumerate(lines) if _is_title(line)]
    under = {at: max((title for title in titles if title < at), default=None) for at in range(len(lines))}
    hard = hard_lines(lines)
    order = sorted(range(len(lines)), key=lambda at: (at not in hard, at))
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


def hard_lines(lines: Sequence[Line]) -> set[int]:
    """Return the indices of hard rules and of their titles."""
    hard, title = set[int](), None
    for at, line in enumerate(lines):
        title = at if _is_title(line) else title
        if line.hard:
            hard |= {at} if title is None else {title, at}
    return hard


def _is_title(line: Line) -> bool:
    return line.id is None and line.text.endswith(":") and not line.text.startswith(("- ", "goal: "))


def _is_goal(line: Line) -> bool:
    return line.id is None and line.text.startswith("goal: ")


@dataclass(slots=True)
class SeedTurn(Turn):
    """The turn's state, which the seeds' stages fill in. ``built_working_set`` is None if the Working Set is off."""

    built_working_set: WorkingSet | None = None

    @property
    def covered(self) -> tuple[str, ...]:
        """Ids of the memories whose lines are in the Working Set as injected."""
        return self.covered_in(self.kept)

    def covered_in(self, slots: Sequence[Slot]) -> tuple[str, ...]:
        """Return the ids of the memories whose lines are in the Working Set as it is among the ``slots``."""
        text = next((slot.text for slot in slots if self.pinned and slot.id == self.pinned.id), None)
        return () if text is None else self._covered_by(text)

    def _covered_by(self, text: str) -> tuple[str, ...]:
        lines = set(text.split("\n"))
        built = self.built_working_set.lines if self.built_working_set else ()
        return tuple(dict.fromkeys(line.id for line in built if line.id and line.text in lines))

    def working_set_receipt(self, slots: Sequence[Slot]) -> dict[str, Any] | None:
        """Return the receipt of the Working Set as it is among the ``slots``, where the budget may have cut it."""
        if self.working_set is None or self.pinned is None:
            return self.working_set
        text = next((slot.text for slot in slots if slot.id == self.pinned.id), "")
        counts = {"chars": js_length(text), "sections": sections_of(text)}
        return self.working_set | counts | {"consumedCount": len(self._covered_by(text))}

    @property
    def explained(self) -> bool:
        """Whether the receipt has the fields of seed 000: under the quotas, and beside any Working Set."""
        return self.config.phased or self.config.working_set.enabled

    @property
    def most_ids(self) -> int:
        """The maximum length of a list of ids in the receipt."""
        return MAX_LISTED if self.config.explains_all else most_listed(self.config.receipts)

    def is_whole(self, row: Row) -> bool:
        """Whether the Working Set's line of a memory is its full text, which it always is for a hard rule."""
        return (row.hard_rule and self.config.active_phases.hard_rules) or Turn.is_whole(self, row)

    @property
    def history_key(self) -> str:
        """The key under which repeats are counted."""
        return (self.prompt.session or "") if self.config.phases.repeat_history == "session" else ""
