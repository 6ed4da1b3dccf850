"""The order and timing of requests: ABBA blocks of arms, and an open loop with intended start times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

Subject = TypeVar("Subject")
# Turns of a block: one in forward, one in backward order.
BLOCK = 2


class Clock(Protocol):
    """A clock with a wait."""

    def now(self) -> int:
        """Return nanoseconds since an arbitrary point."""
        ...

    def wait_until(self, point: int) -> None:
        """Return at ``point`` or later; at once if it has passed."""
        ...


class MonotonicClock:
    """The machine's clock, ``time.perf_counter_ns``."""

    def now(self) -> int:
        """Return nanoseconds since an arbitrary point."""
        return time.perf_counter_ns()

    def wait_until(self, point: int) -> None:
        """Sleep until ``point``."""
        while (left := point - time.perf_counter_ns()) > 0:
            time.sleep(left / 1e9)


def abba(subjects: Sequence[Subject], turns: int) -> Iterator[tuple[int, list[Subject]]]:
    """Yield each turn with the order of the subjects in it: forward, then backward.

    In each block of two turns, every subject is as often early as late, so that drift of the machine and warmed caches
    affect all subjects equally.
    """
    for turn in range(turns):
        yield turn, list(subjects if turn % BLOCK == 0 else reversed(subjects))


def stretches(subjects: Sequence[Subject], turns: int) -> Iterator[tuple[Subject, range]]:
    """Yield each subject with its turns, one subject at a time in the order A B … B A, half of the turns in each."""
    half = (turns + 1) // 2
    for subject in subjects:
        yield subject, range(half)
    for subject in reversed(subjects):
        yield subject, range(half, turns)


class Served(NamedTuple):
    """One request of an open loop, in nanoseconds of its clock."""

    intended: int
    started: int
    ended: int

    @property
    def latency(self) -> int:
        """Return the time from the intended start, which includes queueing behind slow requests."""
        return self.ended - self.intended


def open_loop(clock: Clock, rate: float, turns: Sequence[int], serve: Callable[[int], object]) -> Iterator[Served]:
    """Serve ``turns`` at ``rate`` per second, one at a time; yield the intended start, the start and the end of each.

    The intended starts are fixed beforehand, so requests behind a slow one queue (no coordinated omission).
    """
    first = clock.now()
    for index, turn in enumerate(turns):
        intended = first + round(index * 1e9 / rate)
        clock.wait_until(intended)
        started = clock.now()
        serve(turn)
        yield Served(intended, started, clock.now())
