"""Detect two receipts of one turn: on a host that runs two prompt hooks, the engine recalls and injects twice.

The engine registers one handler for ``before_prompt_build`` and ``before_agent_start`` (E-23). A host that runs both
(OpenClaw 2026.6.11) calls it twice per turn. The engine drops the second call only if session, prompt *and number of
messages* equal those of a call in the last 4000 ms; if the host adds a message between its hooks, both calls recall.

Two receipts belong to the same turn if they are at most :data:`SECONDS` apart (as far as both lines have a time), and

* either both lines have the same trace id, and the receipts are equal or the second span is a child of the first;
* or the lines have no trace id, the receipts are exactly equal, the lines have the same session or none, both have a
  time, and there is no capture receipt, which ends a turn, between them. Without sessions, two sessions that get the
  same answer at the same time (two "ok", two empty recalls) cannot be distinguished.

A receipt has at most one second receipt, so a series of equal receipts never counts as one recall.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.canary.audit.log_line import DAY, LogLine

# The window in which the engine itself drops duplicate calls.
SECONDS = 4.0
# The largest number of first receipts to remember.
_MOST = 1024


@dataclass(slots=True, eq=False)
class _First:
    """A first receipt; ``paired`` is set once its second was read or can no longer follow."""

    entry: LogLine
    injected: int
    paired: bool = False


class Pairs:
    """The receipts of the last seconds, and counts of second receipts."""

    def __init__(self) -> None:
        self._recent = deque[_First]()
        # The same receipts, by the keys under which a second receipt finds its first.
        self._open = defaultdict[tuple[str | None, ...], list[_First]](list)
        self._last: LogLine | None = None
        self._n = {"count": 0, "by_trace": 0, "by_time": 0, "differing": 0, "injected": 0, "undecided": 0}

    def is_second(self, entry: LogLine, injected: int) -> bool:
        """Return whether this is the second receipt of a turn; ``injected`` is its number of injected items."""
        self._expire(entry)
        candidates = (candidate for key in _keys(entry) for candidate in reversed(self._open.get(key, ())))
        first = next(
            (candidate for candidate in candidates if not candidate.paired and _is_same_turn(candidate.entry, entry)),
            None,
        )
        if first is None:
            last = self._last
            if last and entry.trace is None and entry.clock is None and last.rest == entry.rest:
                self._n["undecided"] += 1
            self._last = entry
            self._remember(_First(entry, injected))
            return False
        first.paired = True
        self._n["count"] += 1
        self._n["by_trace" if entry.trace and first.entry.trace else "by_time"] += 1
        self._n["differing"] += first.entry.rest != entry.rest
        self._n["injected"] += bool(first.injected and injected)
        return True

    def _remember(self, first: _First) -> None:
        # A line without a trace and a time cannot be paired.
        if first.entry.trace is None and first.entry.clock is None:
            return
        self._recent.append(first)
        for key in _keys(first.entry):
            self._open[key].append(first)

    def _expire(self, now: LogLine) -> None:
        """Forget the receipts whose second can no longer follow."""
        while self._recent:
            first = self._recent[0]
            apart = _apart(first.entry, now)
            if not first.paired and len(self._recent) < _MOST and (apart is None or apart <= SECONDS):
                return
            self._recent.popleft()
            for key in _keys(first.entry):
                self._open[key].remove(first)
                if not self._open[key]:
                    del self._open[key]

    def end_turn(self, entry: LogLine) -> None:
        """Process a capture receipt: the next recall of its session belongs to another turn."""
        for receipt in self._recent:
            receipt.paired |= receipt.entry.session == entry.session and not receipt.entry.trace

    def state(self) -> list[list[Any]]:
        """Return the receipts whose second may still follow, as plain values."""
        return [[list(first.entry), first.injected, first.paired] for first in self._recent]

    @classmethod
    def restored(cls, state: Iterable[Sequence[Any]]) -> Pairs:
        """Return pairs that go on from a :meth:`state`; the counts begin at 0."""
        pairs = cls()
        for entry, injected, paired in state:
            pairs._remember(_First(LogLine(*entry), injected, paired))
        return pairs

    def as_json(self, answered: int) -> dict[str, Any]:
        """Return the counts; ``injected_rate`` is relative to ``answered`` recalls, where a pair counts once."""
        return {**self._n, "injected_rate": self._n["injected"] / answered if answered else None}


def _keys(entry: LogLine) -> list[tuple[str | None, ...]]:
    by_receipt = (entry.session, entry.rest)
    return [(entry.trace,), by_receipt] if entry.trace else [by_receipt]


def _is_same_turn(first: LogLine, second: LogLine) -> bool:
    apart = _apart(first, second)
    if apart is not None and not 0 <= apart <= SECONDS:
        return False
    if first.trace and second.trace:
        same = first.trace == second.trace
        return same and (first.rest == second.rest or (second.parent is not None and second.parent == first.span))
    return apart is not None and first.session == second.session and first.rest == second.rest


def _apart(first: LogLine, second: LogLine) -> float | None:
    """Return the seconds from the first line to the second (negative if it is earlier); None without both times."""
    if first.time is not None and second.time is not None:
        return second.time - first.time
    if first.clock is None or second.clock is None:
        return None
    return (second.clock - first.clock + DAY / 2) % DAY - DAY / 2
