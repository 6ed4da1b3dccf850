"""What one recall is booked, stage by stage: what it would have taken alone.

Arms share work: the search of a tier is made, and its lanes are fused, for whoever asks first. So what was waited for
that is taken out of the stage in which it was asked for, and what it cost is put in, once a recall, whoever did it:
what an arm is booked depends on no other arm, and not on their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from lab.retrieval.contract import Filter, Lanes, View

SEARCH = "search"
T = TypeVar("T")


class Priced(Protocol):
    """What was made, and says what it cost."""

    @property
    def nanoseconds(self) -> int:
        """What making it took."""
        ...


P = TypeVar("P", bound=Priced)


class Booking:
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
        return self.share((where, limit), lambda: view.search(where, limit))

    def share(self, what: Hashable, find: Callable[[], P]) -> P:
        """Find what recalls share, made now or before, and book what it cost when it was made."""
        started = time.perf_counter_ns()
        found = find()
        self._waited += time.perf_counter_ns() - started
        self._book(SEARCH, 0 if what in self._paid else found.nanoseconds)
        self._paid.add(what)
        return found

    def _book(self, stage: str, spent: int) -> None:
        self.timings[stage] = self.timings.get(stage, 0) + spent


class Unbooked(Booking):
    """The same for a recall whose timings nobody will read: work is done, and no clock is looked at."""

    def stage(self, name: str, work: Callable[[], T]) -> T:  # noqa: ARG002 - as a booking is asked
        """Do some work."""
        return work()

    def share(self, what: Hashable, find: Callable[[], P]) -> P:  # noqa: ARG002 - as above
        """Find what recalls share."""
        return find()
