"""The inventory of a path: its recordings, grouped by storage format and origin, and what was skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.recordings.host_prompts import Suspect
from lab.recordings.model import Recording


@dataclass(frozen=True, slots=True)
class Stock:
    """Conversations with the same storage format and origin; first and last turn in epoch milliseconds."""

    stored: str
    origin: str
    conversations: int
    turns: int
    memories: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Passed:
    """One kind of skipped item, with the reason, and how many there were."""

    what: str
    count: int


# How the kinds of items begin that every transcript has beside its turns.
_ORDINARY = (
    "entries without conversation content",
    "effects of tool-search calls",
    "replies without text",
    "resets, each",
    "session headers",
    "tool results",
)
ORDINARY = "entries that are no turn in any transcript, such as results of tools"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The groups of recordings and the skipped items of a path.

    ``suspects`` are user turns that look like a host's text and matched no rule. They quote a text, so they are for the
    terminal of its owner alone, and no part of a run.
    """

    stocks: tuple[Stock, ...]
    passed: tuple[Passed, ...]
    suspects: tuple[Suspect, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the inventory as JSON-serializable values."""
        return asdict(self) | {"suspects": [suspect._asdict() for suspect in self.suspects]}


@dataclass(frozen=True, slots=True)
class Gathered:
    """Recordings in order of conversation id, their files, the content digests of databases, notes and inventory."""

    recordings: tuple[Recording, ...]
    files: tuple[Path, ...]
    digests: dict[Path, str]
    notes: tuple[str, ...]
    inventory: Inventory


def stocked(recordings: Iterable[tuple[str, Recording]]) -> tuple[Stock, ...]:
    """Group recordings, each given with its storage format; every recording must have turns."""
    groups: dict[tuple[str, str], list[Recording]] = {}
    for stored, recording in recordings:
        groups.setdefault((stored, recording.origin), []).append(recording)
    return tuple(
        Stock(
            *key,
            len(group),
            sum(len(recording.turns) for recording in group),
            sum(len(recording.memories) for recording in group),
            min(recording.turns[0].time_ms for recording in group),
            max(recording.turns[-1].time_ms for recording in group),
        )
        for key, group in sorted(groups.items())
    )


def passed_over(counts: Counter[str]) -> tuple[Passed, ...]:
    """Return the skipped items in alphabetical order."""
    return tuple(Passed(what, count) for what, count in sorted(counts.items()))


def notable(passed: Iterable[Passed]) -> list[Passed]:
    """Return the kinds of skipped items that a user should know, then all the others as one."""
    known, others = [], 0
    for skipped in passed:
        if skipped.what.startswith(_ORDINARY):
            others += skipped.count
        else:
            known.append(skipped)
    return [*known, *([Passed(ORDINARY, others)] if others else [])]
