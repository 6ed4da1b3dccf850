"""Two receipts of one turn: a host that runs two prompt hooks makes the engine recall twice, and inject twice.

The engine registers one handler for ``before_prompt_build`` and ``before_agent_start`` (spec 4). A host that runs both
(OpenClaw 2026.6.11) calls it twice a turn. The engine drops the second call only where session, prompt *and number of
messages* are those of a call within 4000 ms; where the host adds a message between its hooks, both calls recall.

Two receipts are of one turn where

* the host gave both lines one trace id, and the receipts are equal or the second line's span is a child of the first's;
* or lines name no trace: the receipts are equal to the last digit, the lines name one session or none, and they stand
  at most :data:`SECONDS` apart, with no receipt of a capture between them, which ends a turn. Where lines name no
  session, two sessions that get the same answer at once (two "ok", two recalls that find nothing) look the same.

A recall has one second receipt at most, so a stream of equal receipts never becomes one recall.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from lab.audit.said import DAY, Said

# The window of the engine's own de-duplication.
SECONDS = 4.0
_RECENT = 16


@dataclass(slots=True)
class _First:
    """A first receipt; ``paired`` once its second was read, or can no longer come."""

    said: Said
    injected: int
    paired: bool = False


class Pairs:
    """The latest receipts, and how many were the second of a turn."""

    def __init__(self) -> None:
        self._recent = deque[_First](maxlen=_RECENT)
        self._n = {"count": 0, "by_trace": 0, "by_time": 0, "differing": 0, "injected": 0, "undecided": 0}

    def is_second(self, said: Said, injected: int) -> bool:
        """Whether this receipt is the second of a turn whose first was read; ``injected`` is how many items it says."""
        first = next((one for one in reversed(self._recent) if not one.paired and _one_turn(one.said, said)), None)
        if first is None:
            last = self._recent[-1].said if self._recent else None
            if last and said.trace is None and said.clock is None and last.rest == said.rest:
                self._n["undecided"] += 1
            self._recent.append(_First(said, injected))
            return False
        first.paired = True
        self._n["count"] += 1
        self._n["by_trace" if said.trace and first.said.trace else "by_time"] += 1
        self._n["differing"] += first.said.rest != said.rest
        self._n["injected"] += bool(first.injected and injected)
        return True

    def end_turn(self, said: Said) -> None:
        """A receipt of a capture: what its session recalls next is of another turn."""
        for one in self._recent:
            one.paired |= one.said.session == said.session and not one.said.trace

    def as_json(self, answered: int) -> dict[str, Any]:
        """Counts; ``injected_rate`` is of so many answered recalls, pairs counted once."""
        return {**self._n, "injected_rate": self._n["injected"] / answered if answered else None}


def _one_turn(first: Said, second: Said) -> bool:
    if first.trace and second.trace:
        same = first.trace == second.trace
        return same and (first.rest == second.rest or (second.parent is not None and second.parent == first.span))
    if first.session != second.session or first.rest != second.rest:
        return False
    if first.time is not None and second.time is not None:
        return 0 <= second.time - first.time <= SECONDS
    if first.clock is None or second.clock is None:
        return False
    return (second.clock - first.clock) % DAY <= SECONDS
