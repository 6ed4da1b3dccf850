"""Two receipts of one turn: a host that runs two prompt hooks makes the engine recall twice, and inject twice.

The engine registers one handler for ``before_prompt_build`` and ``before_agent_start`` (E-23). A host that runs both
(OpenClaw 2026.6.11) calls it twice a turn. The engine drops the second call only where session, prompt *and number of
messages* are those of a call within 4000 ms; where the host adds a message between its hooks, both calls recall.

Two receipts are of one turn where

* they stand at most :data:`SECONDS` apart, as far as both lines tell a time;
* and the host gave both lines one trace id, and the receipts are equal or the second line's span is a child of the
  first's;
* or lines name no trace: the receipts are equal to the last digit, the lines name one session or none, both tell a
  time, and no receipt of a capture, which ends a turn, stands between them. Where lines name no session, two sessions
  that get the same answer at once (two "ok", two recalls that find nothing) look the same.

A recall has one second receipt at most, so a stream of equal receipts never becomes one recall.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

from lab.canary.said import DAY, Said

# The window of the engine's own de-duplication.
SECONDS = 4.0
# First receipts that are remembered, however many come within the window.
_MOST = 1024


@dataclass(slots=True, eq=False)
class _First:
    """A first receipt; ``paired`` once its second was read, or can no longer come."""

    said: Said
    injected: int
    paired: bool = False


class Pairs:
    """The receipts of the last seconds, and how many were the second of a turn."""

    def __init__(self) -> None:
        self._recent = deque[_First]()
        # The same by what a second shares with its first: the trace, or the session and the receipt.
        self._open = defaultdict[tuple[str | None, ...], list[_First]](list)
        self._last: Said | None = None
        self._n = {"count": 0, "by_trace": 0, "by_time": 0, "differing": 0, "injected": 0, "undecided": 0}

    def is_second(self, said: Said, injected: int) -> bool:
        """Whether this receipt is the second of a turn whose first was read; ``injected`` is how many items it says."""
        self._expire(said)
        known = (one for key in _keys(said) for one in reversed(self._open.get(key, ())))
        first = next((one for one in known if not one.paired and _one_turn(one.said, said)), None)
        if first is None:
            last = self._last
            if last and said.trace is None and said.clock is None and last.rest == said.rest:
                self._n["undecided"] += 1
            self._last = said
            self._remember(_First(said, injected))
            return False
        first.paired = True
        self._n["count"] += 1
        self._n["by_trace" if said.trace and first.said.trace else "by_time"] += 1
        self._n["differing"] += first.said.rest != said.rest
        self._n["injected"] += bool(first.injected and injected)
        return True

    def _remember(self, first: _First) -> None:
        # A line without a trace and a time pairs with none.
        if first.said.trace is None and first.said.clock is None:
            return
        self._recent.append(first)
        for key in _keys(first.said):
            self._open[key].append(first)

    def _expire(self, now: Said) -> None:
        """Forget firsts whose second can no longer come."""
        while self._recent:
            first = self._recent[0]
            apart = _apart(first.said, now)
            if not first.paired and len(self._recent) < _MOST and (apart is None or apart <= SECONDS):
                return
            self._recent.popleft()
            for key in _keys(first.said):
                self._open[key].remove(first)
                if not self._open[key]:
                    del self._open[key]

    def end_turn(self, said: Said) -> None:
        """A receipt of a capture: what its session recalls next is of another turn."""
        for one in self._recent:
            one.paired |= one.said.session == said.session and not one.said.trace

    def as_json(self, answered: int) -> dict[str, Any]:
        """Counts; ``injected_rate`` is of so many answered recalls, pairs counted once."""
        return {**self._n, "injected_rate": self._n["injected"] / answered if answered else None}


def _keys(said: Said) -> list[tuple[str | None, ...]]:
    by_receipt = (said.session, said.rest)
    return [(said.trace,), by_receipt] if said.trace else [by_receipt]


def _one_turn(first: Said, second: Said) -> bool:
    apart = _apart(first, second)
    if apart is not None and not 0 <= apart <= SECONDS:
        return False
    if first.trace and second.trace:
        same = first.trace == second.trace
        return same and (first.rest == second.rest or (second.parent is not None and second.parent == first.span))
    return apart is not None and first.session == second.session and first.rest == second.rest


def _apart(first: Said, second: Said) -> float | None:
    """Seconds from a line to a later one, less than 0 where it is earlier; None where a line tells no time."""
    if first.time is not None and second.time is not None:
        return second.time - first.time
    if first.clock is None or second.clock is None:
        return None
    return (second.clock - first.clock + DAY / 2) % DAY - DAY / 2
