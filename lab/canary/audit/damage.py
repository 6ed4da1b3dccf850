"""Count damaged lines by kind, list the first of them, and tell damage from a format that is not understood (CL-11).

Lines with the engine's JSON that cannot be read are damage if they are few. If nearly all of a log's fail for one and
the same reason, they are sound lines in a format that this version does not know, and no evidence against the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from lab.gate.audit_file import ENOUGH, KINDS, UNREAD, is_format


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


@dataclass(frozen=True, slots=True)
class UnknownFormat:
    """A log whose format is not understood: the reason, how many of its lines failed for it, and the first of them."""

    file: str
    line: int
    kind: str
    what: str
    failed: int
    of: int


class Understanding:
    """How many lines of one log with the engine's JSON were read, and how many failed for which reason."""

    def __init__(self) -> None:
        self._read = 0
        self._failed = Counter[str]()
        self._first: dict[str, tuple[int, Damaged]] = {}

    def read(self) -> None:
        """Count a line that was read."""
        self._read += 1

    def failed(self, line: int, error: Damaged) -> None:
        """Count a line that was not, unless it was read before."""
        if error.kind in UNREAD:
            # Two versions of an engine leave out different fields.
            reason = error.what if error.kind == "shape" else error.kind
            self._failed[reason] += 1
            self._first.setdefault(reason, (line, error))
        elif error.kind != "duplicate":
            self._read += 1

    @property
    def is_hopeless(self) -> bool:
        """Whether enough lines failed to stop reading."""
        return self._failed.total() >= ENOUGH and self.of("") is not None

    def of(self, file: str) -> UnknownFormat | None:
        """Return why the format of the log is not understood, or None."""
        reason, failed = max(self._failed.items(), key=lambda entry: entry[1], default=("", 0))
        total = self._read + self._failed.total()
        if not failed:
            return None
        line, error = self._first[reason]
        # A log that is one endless line is not damaged in one place.
        if not is_format(failed, total) and (error.kind, failed) != ("too_long", total):
            return None
        return UnknownFormat(file, line, error.kind, error.what, failed, total)


def unknown_formats(found: Sequence[UnknownFormat]) -> dict[str, Any]:
    """Return the part of an audit on logs that are not understood; it has none if there are none."""
    return {"not_understood": [asdict(one) for one in found]} if found else {}
