"""What one recall is booked, stage by stage: what it would have taken alone.

Arms share work: the search of a tier is made, and its lanes are fused, for whoever asks first. So what was waited for
that is taken out of the stage in which it was asked for, and what it cost is put in, once a recall, whoever did it:
what an arm is booked depends on no other arm, and not on their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from lab.retrieval.contract import Filter, Lanes, View

SEARCH = "search"
T = TypeVar("T")


class Timed(NamedTuple, Generic[T]):
    """What was made, and the nanoseconds that it cost."""

    made: T
    cost: int


class StageTimer:
    """The stages of one recall, in nanoseconds."""

    def __init__(self) -> None:
        self.timings: dict[str, int] = {}
        self._waited = 0
        self._paid: set[Hashable] = set()

    def stage(self, name: str, work: Callable[[], T]) -> T:
        """Do some work, and book it to a stage, less what was waited for in it."""
        started, waited = time.perf_counter_ns(), self._waited
        try:
            return work()
        finally:
            self._book(name, time.perf_counter_ns() - started - (self._waited - waited))

    def search(self, view: View, where: Filter, limit: int) -> Lanes:
        """Search, as an arm does whose fusion is its own affair."""
        return self.share((where, limit), lambda: Timed(lanes := view.search(where, limit), lanes.nanoseconds))

    def share(self, what: Hashable, find: Callable[[], Timed[T]]) -> T:
        """Find what recalls share, made now or before, and book what it cost when it was made."""
        started = time.perf_counter_ns()
        found, cost = find()
        self._waited += time.perf_counter_ns() - started
        self._book(SEARCH, 0 if what in self._paid else cost)
        self._paid.add(what)
        return found

    def _book(self, stage: str, spent: int) -> None:
        self.timings[stage] = self.timings.get(stage, 0) + spent
