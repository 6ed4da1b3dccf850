"""The backbone lane of seed 000: a Working Set built from the store, before anything is recalled (spec 6, 16.5, 16.6).

It differs from the public plugin's (:mod:`lab.systems.openclaw.recall.working_set`) in what the seeds ask for: it does
not depend on what recall selected, hard rules come first and whole, a TODO that has outlived its days is left out, no
line stands in two sections, and only a memory whose line survives the cut counts as pinned. It has no header: a time
stamp in it would change the prompt at every turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from lab.recordings.model import MUST
from lab.retrieval.collation import id_order
from lab.retrieval.row import Row
from lab.systems.openclaw.config.settings import WorkingSetSettings
from lab.systems.openclaw.near_duplicate import LIKENESS, Normal, alike, normal_text
from lab.systems.openclaw.recall.budget import Slot
from lab.systems.openclaw.recall.todo import is_stale
from lab.systems.openclaw.recall.working_set import PREFIX, RANKS, is_constraint, normal_line, open_questions
from lab.utf16 import js_length

CATEGORIES = ("preference", "decision", "todo")
# Rows of those categories that the digest is made of: the most recent ones.
MAX_ROWS = 36
WHOLE = 1 << 30


class Line(NamedTuple):
    """A line of the digest. ``id`` is the memory it stands for, None for titles and lines of the prompt."""

    text: str
    id: str | None = None
    hard: bool = False


class Backbone(NamedTuple):
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


def build_backbone(
    scope: str,
    prompt: str,
    now_ms: float,
    settings: WorkingSetSettings,
    recent: Sequence[Row],
    hard_rules: Sequence[Row],
    stale_days: float,
) -> Backbone:
    """Build the digest of a scope from its ``recent`` rows and its ``hard_rules``."""
    rows = sorted(recent, key=lambda row: (-row.created_at, id_order(row.id)))
    hard = {row.id for row in hard_rules}
    taken: set[str] = set()
    most = settings.max_items_per_section

    def lines(chosen: Iterable[Row], limit: int, width: int) -> list[Line]:
        kept: list[Line] = []
        for row in chosen:
            text = whole_characters(normal_line(row.text, width))
            if text and text.lower() not in taken and len(kept) < limit:
                taken.add(text.lower())
                kept.append(Line(f"- {text}", row.id, row.id in hard))
        return kept

    soft = [row for row in rows if row.id not in hard]
    pinned = lines(hard_rules, len(hard_rules), WHOLE)
    constraints = pinned + lines(
        (row for row in soft if is_constraint(row.category, row.text)), most, settings.max_item_chars
    )
    decided = sorted(soft, key=lambda row: RANKS.get(row.importance_label, 2))
    decisions = lines((row for row in decided if row.category == "decision"), most, settings.max_item_chars)
    actions = lines(
        (row for row in soft if row.category == "todo" and not is_stale(row.created_at, now_ms, stale_days)),
        most,
        settings.max_item_chars,
    )
    goal = whole_characters(normal_line(prompt, settings.max_goal_chars))
    questions = [f"- {whole_characters(one)}" for one in open_questions(prompt, most, settings.max_item_chars)]
    parts = (
        ("constraints:", constraints),
        ("decisions:", decisions),
        ("next_actions:", actions),
        ("open_questions:", [Line(text) for text in questions]),
    )
    whole = [line for title, part in parts if part for line in (Line(title), *part)]
    # Constraints come first, so that a cut takes what the prompt says anyway.
    if goal:
        at = 1 + len(constraints) if constraints else 0
        whole.insert(at, Line(f"goal: {goal}"))
    kept = cut_lines(whole, settings.max_chars)
    sections: dict[str, int | bool] = {
        "goal": bool(goal),
        "constraints": len(constraints),
        "decisions": len(decisions),
        "nextActions": len(actions),
        "openQuestions": len(questions),
    }
    # The prompt alone is no backbone: it is before the model already.
    if not any(line.id for line in kept):
        return Backbone(None, (), dict.fromkeys(sections, 0) | {"goal": False})
    text = "\n".join(line.text for line in kept)
    said = tuple(normal_text(line.text.rstrip("…").removeprefix("- ")) for line in kept if line.id)
    where: dict[str, list[int]] = {}
    for place, one in enumerate(said):
        for word in one.words:
            where.setdefault(word, []).append(place)
    slot = Slot(f"{PREFIX}{scope}", now_ms, "other", MUST, text)
    pinned_ids = tuple(dict.fromkeys(line.id for line in kept if line.id))
    return Backbone(slot, tuple(kept), sections, pinned_ids, said, where)


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
