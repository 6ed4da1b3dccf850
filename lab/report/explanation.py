"""One turn told on one screen of 80 columns."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from lab.engine.js import js_length
from lab.replay.explain import Explanation, Place

NOWHERE = Place(None, None, None, None, None)
WIDTH = 80


def explanation_text(found: Explanation, *, with_text: bool) -> str:
    """The explanation as lines of at most 80 columns; texts of the turn and of memories only where asked for."""
    config, recall = found.arm.config, found.recall
    grades = found.moment.probe.grades if found.moment.probe else {}
    pool = ", ".join(f"{label} {count}" for label, count in found.visible.items() if count)
    lines = [
        f"{found.arm.name} at {found.moment.key}  (profile {config.profile})",
        f"visible {sum(found.visible.values())}: {pool or 'nothing'}",
    ]
    if with_text:
        lines.append(f"asked: {_short(found.moment.text, 2 * WIDTH)}")
    quota = recall.receipt.get("quota")
    if quota:
        used = ", ".join(f"{name} {value}" for name, value in quota.items())
        lines += wrap(f"quotas: {used}; tiers searched: {', '.join(recall.receipt['tiersSearched'])}", WIDTH)
    elif recall.receipt["tiersSearched"]:
        lines.append(f"tiers searched: {', '.join(recall.receipt['tiersSearched'])}")
    lines += ["", f"injected {recall.injected}, {js_length(recall.context)} characters"]
    lines.append("   # decision      tier     score text  vec gold memory")
    for rank, item in enumerate(recall.items[: recall.injected], 1):
        lines.append(
            f"{rank:4} {item.decision:<13} {item.tier:<7} {item.score:6.4f} {_rank(item.fts_rank)} "
            f"{_rank(item.vec_rank)} {_grade(grades, item.key)} {item.key}"
        )
        lines += _text(found, item.key, with_text)
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
                head = f"     candidate {place.fused or 0:<4}{place.tier or '':<7} {place.score or 0:6.4f}"
                lanes = f"{_rank(place.fts)} {_rank(place.vec)}"
            lines.append(f"{head} {lanes} {_grade(grades, key)} {key}")
            lines += _text(found, key, with_text)
    if grades:
        injected = {item.key for item in recall.items[: recall.injected]}
        lines += ["", f"gold {len(grades)}, injected {sum(key in injected for key in grades)}"]
        for key, reason in found.reasons.items():
            lines += [f"  {key}", *wrap(reason, WIDTH, initial_indent="    ", subsequent_indent="    ")]
            lines += _text(found, key, with_text)
    return "\n".join(lines)


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


def _short(text: str, width: int) -> str:
    """One line of a text, control characters shown as blanks so that a memory cannot write to the terminal."""
    line = "".join(character if character.isprintable() else " " for character in " ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"
