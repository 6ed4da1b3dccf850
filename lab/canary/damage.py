"""Lines that cannot be used, each counted and the first of them named."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

KINDS = {
    "gzip": "the packed file ends early, or is damaged",
    "too_long": "the line is longer than any of the engine's",
    "not_utf8": "bytes that are no UTF-8",
    "no_json": "a marker without its JSON",
    "cut_off": "the JSON is cut off",
    "not_json": "the JSON is broken",
    "duplicate": "the same line, its time included, was there before",
    "unknown_schema": "a schema that is not known",
    "shape": "a field is missing, or holds what it cannot hold",
    "unknown_reason": "a reason that is not known, is named twice or stands out of order",
    "counts": "counts that do not add up",
    "listed": "lists that are too long, out of order, or not of each other's ids",
    "quota": "quotas that do not fit the selection",
    "text": "a text where ids and names belong",
}


class Damaged(Exception):
    """A line cannot be used; ``kind`` is one of :data:`KINDS`. ``what`` names fields and numbers, never a value."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind, self.what = kind, what


class Place(NamedTuple):
    """A damaged line."""

    file: str
    line: int
    kind: str
    what: str


class Damage:
    """All damaged lines counted, the first ``listed`` of them kept."""

    def __init__(self, listed: int) -> None:
        self._most = listed
        self.kinds = Counter[str]()
        self.places: list[Place] = []

    def add(self, file: str, line: int, error: Damaged) -> None:
        """Count a line."""
        self.kinds[error.kind] += 1
        if len(self.places) < self._most:
            self.places.append(Place(file, line, error.kind, error.what))

    @property
    def lines(self) -> int:
        """How many lines are damaged."""
        return self.kinds.total()

    def as_json(self, sound: int) -> dict[str, Any]:
        """Counts by kind, every kind named, and the places; ``rate`` is the share ``of`` so many lines with sound ones.

        A duplicate is a line that was read before, from a log that overlaps: it is in neither.
        """
        duplicates = self.kinds["duplicate"]
        broken = self.lines - duplicates
        whole = sound + broken
        return {
            "rate": broken / whole if whole else None,
            "of": whole,
            "lines": self.lines,
            "duplicates": duplicates,
            "by_kind": {kind: self.kinds[kind] for kind in KINDS},
            "listed": [place._asdict() for place in self.places],
        }
