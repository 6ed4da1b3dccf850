"""One turn told on one screen of 80 columns."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from lab.replay.explain import Explanation, Place
from lab.report.explanation_flow import (
    candidate_lines,
    digest_lines,
    factor_line,
    flow_json,
    injected_lines,
    stages_lines,
    suppression_lines,
)
from lab.utf16 import js_length

NOWHERE = Place(None, None, None, None, None)
WIDTH = 80
# Gold memories whose loss is told on one screen.
MAX_REASONS = 4


def explanation_text(found: Explanation, *, with_text: bool, full: bool = False) -> str:
    """The explanation as lines of at most 80 columns; texts of the turn and of memories only where asked for.

    One screen, unless ``full`` asks for every candidate, every factor and, with texts, the injected block.
    """
    config, recall = found.arm.config, found.recall
    grades = found.moment.probe.grades if found.moment.probe else {}
    pool = ", ".join(f"{label} {count}" for label, count in found.visible.items() if count)
    lines = [
        f"{found.arm.name} at {found.moment.key}  (profile {config.profile})",
        f"visible {sum(found.visible.values())}: {pool or 'nothing'}",
    ]
    if with_text:
        lines.append(f"asked: {_short(found.moment.text, WIDTH - 7)}")
    turn = found.turn
    if found.faults:
        lines += wrap(f"faults of this turn: {', '.join(sorted(found.faults))}", WIDTH)
    if turn:
        lines += [*stages_lines(turn), *digest_lines(turn, full=full, with_text=with_text)]
    quota = recall.receipt.get("quota")
    if quota:
        used = ", ".join(f"{name} {value}" for name, value in quota.items())
        lines += wrap(f"quotas: {used}; tiers searched: {', '.join(recall.receipt['tiersSearched'])}", WIDTH)
    elif recall.receipt.get("tiersSearched"):
        lines.append(f"tiers searched: {', '.join(recall.receipt['tiersSearched'])}")
    lines += ["", f"injected {recall.injected}, {js_length(recall.context)} characters"]
    if recall.injected:
        lines.append("   # decision      tier     score text  vec gold memory")
    for rank, item in enumerate(recall.items[: recall.injected], 1):
        lines.append(
            f"{rank:4} {item.decision:<13} {item.tier:<7} {item.score:6.4f} {_rank(item.fts_rank)} "
            f"{_rank(item.vec_rank)} {_grade(grades, item.key)} {item.key}"
        )
        factors = factor_line(turn, found.rows[item.key]) if turn and full and item.key in found.rows else None
        lines += [factors] if factors else []
        lines += _text(found, item.key, with_text)
    if turn:
        lines += suppression_lines(turn, full=full)
    if found.runners_up:
        lines += ["", "next in line, not taken"]
        ranks = {item.key: (rank, item) for rank, item in enumerate(found.recall.items, 1)}
        for key in found.runners_up:
            if key in ranks:
                rank, item = ranks[key]
                head = f"{rank:4} {item.decision:<13} {item.tier:<7} {item.score:6.4f}"
                lanes = f"{_rank(item.fts_rank)} {_rank(item.vec_rank)}"
            else:
                place = found.places.get(key, NOWHERE)
                head = f"     candidate {place.fused or 0:<4}{place.tier or '':<7} {found.final_score(key):6.4f}"
                lanes = f"{_rank(place.fts)} {_rank(place.vec)}"
            lines.append(f"{head} {lanes} {_grade(grades, key)} {key}")
            lines += _text(found, key, with_text)
    if grades:
        injected = {item.key for item in recall.items[: recall.injected]}
        lines += ["", f"gold {len(grades)}, injected {sum(key in injected for key in grades)}"]
        told = list(found.reasons.items())
        for key, reason in told if full else told[:MAX_REASONS]:
            lines += [f"  {key}", *wrap(reason, WIDTH, initial_indent="    ", subsequent_indent="    ")]
            lines += _text(found, key, with_text)
        if len(told) > MAX_REASONS and not full:
            lines.append(f"  and {len(told) - MAX_REASONS} more: --full")
    if full and recall.receipt.get("tiersSearched"):
        lines += candidate_lines(found.tiers, turn, {row.id: row for row in found.rows.values()})
    if full and with_text:
        lines += injected_lines(recall.context)
    return "\n".join(_printable(line) for line in lines)


def explanation_json(found: Explanation, *, with_text: bool) -> dict[str, Any]:
    """The explanation as plain values."""
    grades = found.moment.probe.grades if found.moment.probe else {}
    keys = list(dict.fromkeys([*(item.key for item in found.recall.items), *found.runners_up, *grades]))
    value: dict[str, Any] = {
        "turn": found.moment.key,
        "arm": found.arm.describe(),
        "visible": found.visible,
        "injected": [item._asdict() for item in found.recall.items[: found.recall.injected]],
        "runners_up": list(found.runners_up),
        "gold": grades,
        "reasons": found.reasons,
        "places": {key: found.places.get(key, NOWHERE)._asdict() for key in keys},
        "receipt": found.recall.receipt,
    }
    if found.turn:
        value["flow"] = flow_json(found.turn)
    if with_text:
        value |= {
            "text": found.moment.text,
            "context": found.recall.context,
            "texts": {key: found.rows[key].text for key in keys},
        }
    return value


def _rank(value: int | None) -> str:
    return f"{value if value is not None else '-':>4}"


def _grade(grades: dict[str, int], key: str) -> str:
    return f"{'*' * grades.get(key, 0):<4}"


def _text(found: Explanation, key: str, with_text: bool) -> list[str]:
    return [f"       {_short(found.rows[key].text, WIDTH - 8)}"] if with_text else []


def _printable(line: str) -> str:
    """A line whose control characters are blanks, so that a memory cannot write to the terminal."""
    return "".join(character if character.isprintable() else " " for character in line)


def _short(text: str, width: int) -> str:
    """One line of a text, cut to so many columns; a Chinese character takes two."""
    from rich.cells import cell_len, set_cell_size

    line = _printable(" ".join(text.split()))
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"
