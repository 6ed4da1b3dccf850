"""Time the stages of one recall as if its arm had run alone.

Arms share work: the first arm that needs a tier searches it and fuses its lanes, and the others reuse the result. So
the time spent on shared work is subtracted from the stage that requested it, and the work's recorded cost is added
once per recall, whichever arm did it. An arm's timings therefore do not depend on other arms or on their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from lab.retrieval.contract import Filter, Lanes, View

SEARCH = "search"
T = TypeVar("T")


class Timed(Protocol):
    """A shared result that records what it took to compute."""

    @property
    def nanoseconds(self) -> int:
        """The nanoseconds that it took to compute."""
        ...


TimedT = TypeVar("TimedT", bound=Timed)


class StageTimer:
    """The timings of one recall: nanoseconds by stage."""

    def __init__(self) -> None:
        self.timings: dict[str, int] = {}
        self._waited = 0
        self._counted: set[Hashable] = set()

    def stage(self, name: str, work: Callable[[], T]) -> T:
        """Run ``work`` and add its time to a stage, minus the time spent on shared work."""
        started, waited = time.perf_counter_ns(), self._waited
        try:
            return work()
        finally:
            self._add(name, time.perf_counter_ns() - started - (self._waited - waited))

    def search(self, view: View, where: Filter, limit: int) -> Lanes:
        """Search for an arm that fuses the lanes itself."""
        return self.share((where, limit), lambda: view.search(where, limit))

    def share(self, key: Hashable, compute: Callable[[], TimedT]) -> TimedT:
        """Return a shared result, computed now or earlier, and add what computing it took to :data:`SEARCH`."""
        started = time.perf_counter_ns()
        value = compute()
        self._waited += time.perf_counter_ns() - started
        self._add(SEARCH, 0 if key in self._counted else value.nanoseconds)
        self._counted.add(key)
        return value

    def _add(self, stage: str, spent: int) -> None:
        self.timings[stage] = self.timings.get(stage, 0) + spent


class NoTimer(StageTimer):
    """A timer that records nothing and reads no clock, for recalls whose timings are not used."""

    def stage(self, name: str, work: Callable[[], T]) -> T:  # noqa: ARG002 - the signature of StageTimer
        """Run ``work``."""
        return work()

    def share(self, key: Hashable, compute: Callable[[], TimedT]) -> TimedT:  # noqa: ARG002 - as above
        """Return a shared result."""
        return compute()
