"""Time the stages of one recall as if its arm had run alone.

Arms share work: the first arm that needs a tier searches it and fuses its lanes, and the others reuse the result. So
the time spent on shared work is subtracted from the stage that requested it, and the work's recorded cost is added
once per recall, whichever arm did it. An arm's timings therefore do not depend on other arms or on their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from lab.retrieval.contract import Filter, Lanes, View

SEARCH = "search"
T = TypeVar("T")


class Timed(NamedTuple, Generic[T]):
    """A value and the nanoseconds that it took to compute."""

    value: T
    nanoseconds: int


class StageTimer:
    """The timings of one recall: nanoseconds by stage."""

    def __init__(self) -> None:
        self.timings: dict[str, int] = {}
        self._waited = 0
        self._paid: set[Hashable] = set()

    def stage(self, name: str, work: Callable[[], T]) -> T:
        """Run ``work`` and add its time to a stage, minus the time spent on shared work."""
        started, waited = time.perf_counter_ns(), self._waited
        try:
            return work()
        finally:
            self._book(name, time.perf_counter_ns() - started - (self._waited - waited))

    def search(self, view: View, where: Filter, limit: int) -> Lanes:
        """Search for an arm that fuses the lanes itself."""
        return self.share((where, limit), lambda: Timed(lanes := view.search(where, limit), lanes.nanoseconds))

    def share(self, key: Hashable, compute: Callable[[], Timed[T]]) -> T:
        """Return a shared result, computed now or earlier, and add what computing it took to :data:`SEARCH`."""
        started = time.perf_counter_ns()
        value, cost = compute()
        self._waited += time.perf_counter_ns() - started
        self._book(SEARCH, 0 if key in self._paid else cost)
        self._paid.add(key)
        return value

    def _book(self, stage: str, spent: int) -> None:
        self.timings[stage] = self.timings.get(stage, 0) + spent
