"""What a place holds: recordings by how they are stored, and what was passed over and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from lab.recordings.model import Recording


@dataclass(frozen=True, slots=True)
class Stock:
    """Conversations that are stored alike and began alike, and the times of their first and last turn (epoch ms)."""

    stored: str
    origin: str
    conversations: int
    turns: int
    memories: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Passed:
    """Things that were not used: what they are and why, and how many."""

    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that was found."""

    stocks: tuple[Stock, ...]
    passed: tuple[Passed, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def stocked(recordings: Iterable[tuple[str, str, Recording]]) -> tuple[Stock, ...]:
    """Return the stocks of recordings that are given with how they are stored and how they began; all have turns."""
    groups: dict[tuple[str, str], list[Recording]] = {}
    for stored, origin, recording in recordings:
        groups.setdefault((stored, origin), []).append(recording)
    return tuple(
        Stock(
            *key,
            len(group),
            sum(len(one.turns) for one in group),
            sum(len(one.memories) for one in group),
            min(one.turns[0].time_ms for one in group),
            max(one.turns[-1].time_ms for one in group),
        )
        for key, group in sorted(groups.items())
    )


def passed_over(counts: Counter[str]) -> tuple[Passed, ...]:
    """Return what was passed over, by its name."""
    return tuple(Passed(what, count) for what, count in sorted(counts.items()))
