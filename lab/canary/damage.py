"""Count damaged lines by kind, and list the first of them."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

KINDS = {
    "gzip": "the gzip file is truncated or damaged",
    "too_long": "the line is longer than any line of the engine",
    "not_utf8": "the line is not valid UTF-8",
    "no_json": "a marker without its JSON",
    "cut_off": "the JSON is truncated",
    "not_json": "the JSON is invalid",
    "duplicate": "the same line, with the same time, was read before",
    "unknown_schema": "an unknown schema",
    "shape": "a field is missing or has an invalid value",
    "unknown_reason": "a reason is unknown, duplicate or out of order",
    "counts": "the counts are inconsistent",
    "listed": "a list is too long, out of order or inconsistent with another",
    "quota": "the quotas do not match the selection",
    "text": "a text in a field for ids and names",
}


class Damaged(Exception):
    """A line is unusable. ``kind`` is one of :data:`KINDS`; ``what`` contains field names and numbers, never texts."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind, self.what = kind, what


class DamagedLine(NamedTuple):
    """A damaged line with its location and the problem."""

    file: str
    line: int
    kind: str
    what: str


class Damage:
    """Counts of damaged lines by kind, and a list of the first ``listed`` ones."""

    def __init__(self, listed: int) -> None:
        self._most = listed
        self.kinds = Counter[str]()
        self.listed: list[DamagedLine] = []

    def add(self, file: str, line: int, error: Damaged) -> None:
        """Count a damaged line."""
        self.kinds[error.kind] += 1
        if len(self.listed) < self._most:
            self.listed.append(DamagedLine(file, line, error.kind, error.what))

    @property
    def lines(self) -> int:
        """The number of damaged lines, including duplicates."""
        return self.kinds.total()

    def as_json(self, sound: int) -> dict[str, Any]:
        """Return the counts of all kinds and the listed lines; ``rate`` is the share of damaged among all ``of`` lines.

        Duplicates come from overlapping logs, so neither ``rate`` nor ``of`` includes them.
        """
        duplicates = self.kinds["duplicate"]
        broken = self.lines - duplicates
        total = sound + broken
        return {
            "rate": broken / total if total else None,
            "of": total,
            "lines": self.lines,
            "duplicates": duplicates,
            "by_kind": {kind: self.kinds[kind] for kind in KINDS},
            "listed": [line._asdict() for line in self.listed],
        }
