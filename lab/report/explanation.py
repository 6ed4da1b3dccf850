"""The explanation of one turn as text of 80 columns, and the caches that the explanations of a report share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from textwrap import wrap
from typing import Any

from lab.base.errors import LabError
from lab.base.formatting import cell_len, short_keys
from lab.base.shape import to_json
from lab.base.utf16 import js_length
from lab.replay.explain import Explanation, explain_all
from lab.replay.plan import Plan, plan_of
from lab.replay.sources import Sources, open_sources
from lab.runs.directory import RunDirectory
from lab.systems.contract import Detail, Item, Standing

NOWHERE = Standing()
WIDTH = 80
# Columns before the key of a memory.
HEAD = 50
# Relevant memories with a reason that fit on one screen.
MAX_REASONS = 4


def explanation_text(explanation: Explanation, *, with_text: bool, full: bool = False) -> str:
    """Return the explanation as lines of at most 80 columns; ``with_text`` includes texts of the turn and memories.

    One screen, or with ``full`` every candidate, every factor and, with texts, the injected block.
    """
    recall, details, grades = explanation.recall, explanation.explained, explanation.grades
    pool = ", ".join(f"{label} {count}" for label, count in explanation.visible.items() if count)
    arm, key, about = explanation.arm.name, explanation.point.key, f"  ({details.about})" if details.about else ""
    turn = key if full else short_keys([key], WIDTH - len(f"{arm} at {about}"))[key]
    lines = [
        f"{arm} at {turn}{about}",
        f"visible {sum(explanation.visible.values())}: {pool or 'nothing'}",
    ]
    if with_text:
        lines.append(f"query: {_short(explanation.point.text, WIDTH - 7)}")
    if explanation.ask.faults:
        lines += wrap(f"simulated faults in this turn: {', '.join(sorted(explanation.ask.faults))}", WIDTH)
    lines += [*details.head, "", f"injected {recall.injected}, {js_length(recall.context)} characters"]
    if recall.injected:
        lines.append("   # decision      tier     score text  vec gold memory")
    listed = [item.id for item in recall.items[: recall.injected]]
    # The columns before a key take those of _ranked and of a grade.
    named = short_keys([*listed, *details.runners_up], WIDTH if full else WIDTH - HEAD)
    for rank, item in enumerate(recall.items[: recall.injected], 1):
        lines.append(f"{_ranked(rank, item)} {_grade(grades, item.id)} {named[item.id]}")
        lines += [details.below[item.id]] if item.id in details.below else []
        lines += [f"       [{'; '.join(marks)}]"] if (marks := explanation.marks.get(item.id)) else []
        lines += _text(explanation, item.id, with_text)
    lines += details.suppressed
    if details.runners_up:
        lines += ["", "next candidates, not injected"]
        ranks = {item.id: (rank, item) for rank, item in enumerate(explanation.recall.items, 1)}
        for key in details.runners_up:
            if key in ranks:
                head = _ranked(*ranks[key])
            else:
                place = details.standings.get(key, NOWHERE)
                head = f"     candidate {place.rank or 0:<4}{place.tier or '':<7} {place.score or 0.0:6.4f}"
                head = f"{head} {_rank(place.fts)} {_rank(place.vec)}"
            lines.append(f"{head} {_grade(grades, key)} {named[key]}")
            lines += [f"       [{'; '.join(marks)}]"] if (marks := explanation.marks.get(key)) else []
            lines += _text(explanation, key, with_text)
    if grades or explanation.misleading:
        judged = {name: keys for name, keys in (("misleading", explanation.misleading), ("relevant", grades)) if keys}
        lines += ["", *(f"{name} {len(keys)}, injected {len({*keys} & {*listed})}" for name, keys in judged.items())]
        reasons = list(details.reasons.items())
        missed = short_keys(details.reasons, WIDTH - 2)
        for key, reason in reasons if full else reasons[:MAX_REASONS]:
            lines.append(f"  {key if full else missed[key]}")
            lines += wrap(reason, WIDTH, initial_indent="    ", subsequent_indent="    ")
            lines += _text(explanation, key, with_text)
        if len(reasons) > MAX_REASONS and not full:
            lines.append(f"  and {len(reasons) - MAX_REASONS} more: --full")
    lines += details.candidates
    if full and with_text:
        lines += injected_lines(recall.context)
    return "\n".join(_printable(line) for line in lines)


def explanation_json(explanation: Explanation, *, with_text: bool) -> dict[str, Any]:
    """Return the explanation as plain values."""
    details, grades = explanation.explained, explanation.grades
    keys = list(dict.fromkeys([*(item.id for item in explanation.recall.items), *details.runners_up, *grades]))
    value: dict[str, Any] = {
        "turn": explanation.point.key,
        "arm": to_json(explanation.arm),
        "visible": explanation.visible,
        "injected": [_item_json(item) for item in explanation.recall.items[: explanation.recall.injected]],
        "runners_up": list(details.runners_up),
        "gold": grades,
        "misleading": list(explanation.misleading),
        "marks": {key: list(marks) for key, marks in explanation.marks.items() if marks},
        "reasons": dict(details.reasons),
        "causes": dict(details.causes),
        "places": {key: details.standings.get(key, NOWHERE)._asdict() for key in keys},
        "receipt": explanation.recall.receipt,
        **details.value,
    }
    if with_text:
        value |= {
            "text": explanation.point.text,
            "context": explanation.recall.context,
            "texts": {key: explanation.texts.get(key, "") for key in keys},
        }
        media = {key: explanation.media[key] for key in keys if key in explanation.media}
        value |= {"media": media} if media else {}
    return value


def _item_json(item: Item) -> dict[str, Any]:
    """Return an item as plain values, without its text."""
    plain = {"key": item.id, "sources": list(item.sources), "score": item.score, "tier": item.tier}
    return plain | item.signals._asdict()


def _ranked(rank: int, item: Item) -> str:
    """Return an item's rank, the decision that took it, its tier, its score, and its ranks in both lanes."""
    signals = item.signals
    lanes = f"{_rank(signals.fts_rank)} {_rank(signals.vec_rank)}"
    return f"{rank:4} {signals.decision or '':<13} {item.tier or '':<7} {item.score:6.4f} {lanes}"


def _rank(value: int | None) -> str:
    return f"{value if value is not None else '-':>4}"


def _grade(grades: Mapping[str, int], key: str) -> str:
    return f"{'*' * grades.get(key, 0):<4}"


def _text(explanation: Explanation, key: str, with_text: bool) -> list[str]:
    """Return the lines of a memory's text and media."""
    shown = [explanation.texts.get(key, ""), *([explanation.media[key]] if key in explanation.media else [])]
    return [f"       {_short(text, WIDTH - 8)}" for text in shown] if with_text else []


def _printable(line: str) -> str:
    """Replace control characters by blanks, so that a memory cannot control the terminal."""
    return "".join(character if character.isprintable() else " " for character in line)


def _short(text: str, width: int) -> str:
    """Return a text on one line, cut to a width in columns; a Chinese character takes two."""
    from rich.cells import set_cell_size

    line = _printable(" ".join(text.split()))
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"


def injected_lines(text: str) -> list[str]:
    """Return the injected block as lines with a margin."""
    return ["", f"injected text, {js_length(text)} characters", *(f"| {line}" for line in text.split("\n"))]


class Again:
    """Explains recalls of a run. The plan is made and the caches are opened once, at the first use.

    ``problem`` says why there is no explanation, such as a recording that has changed since.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self.problem: str | None = None

    @cached_property
    def plan(self) -> Plan | None:
        """The plan of the run; None if its inputs cannot be read unchanged."""
        try:
            return plan_of(self._run)
        except LabError as error:
            self.problem = str(error)
            return None

    def explanations(self, wanted: Sequence[tuple[str, str]], *, with_text: bool) -> dict[tuple[str, str], str]:
        """Return the explanation of each recall, by key and arm; those from the first problem on are missing."""
        texts: dict[tuple[str, str], str] = {}
        if self.plan is None or self.problem or not wanted:
            return texts
        try:
            for of, found in explain_all(self._run, wanted, self.plan, Detail(with_text), opened=self._opened):
                texts[of] = explanation_text(found, with_text=with_text)
        except LabError as error:
            self.problem = str(error)
        return texts

    @cached_property
    def _opened(self) -> Sources | None:
        # Without arms, because each explanation lets its own arm prepare.
        return open_sources(replace(self.plan, arms=(), infos=())) if self.plan else None
