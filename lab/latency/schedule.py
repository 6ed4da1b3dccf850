"""Who is asked when: arms in ABBA blocks, and an open loop whose requests start at intended times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

Subject = TypeVar("Subject")
# Turns of a block: one forward, one backward.
BLOCK = 2


class Clock(Protocol):
    """A clock that can be waited on."""

    def now(self) -> int:
        """Nanoseconds from some point."""
        ...

    def wait_until(self, point: int) -> None:
        """Return at ``moment`` or later; at once if it has passed."""
        ...


class MonotonicClock:
    """The machine's, by ``time.perf_counter_ns``."""

    def now(self) -> int:
        """Nanoseconds from some point."""
        return time.perf_counter_ns()

    def wait_until(self, point: int) -> None:
        """Sleep until ``moment``."""
        while (left := point - time.perf_counter_ns()) > 0:
            time.sleep(left / 1e9)


def abba(subjects: Sequence[Subject], turns: int) -> Iterator[tuple[int, list[Subject]]]:
    """Turn and the order in which subjects are asked in it: forward and backward by turns.

    So in each block of two turns every subject stands as early as it stands late, and a drift of the machine, or what
    one warms for the next, falls on all alike.
    """
    for turn in range(turns):
        yield turn, list(subjects if turn % BLOCK == 0 else reversed(subjects))


def stretches(subjects: Sequence[Subject], turns: int) -> Iterator[tuple[Subject, range]]:
    """Subject and its turns, for what must run one subject at a time: A B … B A, half of the turns in each."""
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
        """From the intended start, so that waiting behind slow requests counts."""
        return self.ended - self.intended


def open_loop(clock: Clock, rate: float, turns: Sequence[int], serve: Callable[[int], object]) -> Iterator[Served]:
    """Serve ``turns`` at ``rate`` a second, one at a time, and yield when each was meant to start, did and ended.

    The intended times are fixed beforehand: a slow answer does not put off the questions behind it, they queue (no
    coordinated omission).
    """
    first = clock.now()
    for place, turn in enumerate(turns):
        intended = first + round(place * 1e9 / rate)
        clock.wait_until(intended)
        started = clock.now()
        serve(turn)
        yield Served(intended, started, clock.now())
