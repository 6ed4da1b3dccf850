"""Lines of progress: how many parts are done, and how long the others take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from lab.base.formatting import Announce, duration

# Below this many seconds the time left is not worth reading; before this many parts it would be a guess, because the
# first ones wait for a model or for the other processes.
SHORT, FEWEST = 5.0, 3
# Seconds of silence after which something that is under way says so.
BEAT = 10.0


class Passing(str):
    """A line of progress that the next one replaces where the output is a terminal."""

    __slots__ = ()


def each_once(announce: Announce) -> Announce:
    """Return a function that announces every text once, and every line of progress.

    For commands that replay the same recordings several times: each replay has the same notes.
    """
    before: set[str] = set()

    def tell(text: str) -> None:
        if isinstance(text, Passing) or text not in before:
            before.add(text)
            announce(text)

    return tell


@contextmanager
def beating(announce: Announce, what: str) -> Iterator[Announce]:
    """Yield a function that announces; where it was silent for :data:`BEAT` seconds, say ``WHAT (20 s so far)``."""
    began, over, told = time.perf_counter(), Event(), Event()

    def tell(text: str) -> None:
        told.set()
        announce(text)

    def beat() -> None:
        # Whoever reads the output may be gone.
        with suppress(OSError, ValueError):
            while not over.wait(BEAT):
                if not told.is_set():
                    announce(Passing(f"{what} ({duration(time.perf_counter() - began)} so far)"))
                told.clear()

    thread = Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()


class Progress:
    """Counts the parts of a task that are done.

    ``total`` is the number of parts, ``done`` those that an earlier process finished. The time left is that of the
    later half of the parts which this process has done.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self._total, self._done = total, done
        self._ends: list[float] = []

    def next(self, what: str) -> Passing:
        """Count a part as done; return the line ``WHAT (3 of 24, 40 s left)``."""
        self._done += 1
        self._ends.append(time.perf_counter())
        return self._line(what, self._done)

    def begin(self, what: str) -> str:
        """Return a line that stays, for a part that begins now; :meth:`next` counts it when it is done."""
        return str(self._line(what, self._done + 1))

    def _line(self, what: str, number: int) -> Passing:
        part = f"{number} of {self._total}"
        done, left = len(self._ends), 0.0
        if done >= FEWEST:
            many = max(FEWEST - 1, done // 2)
            left = (self._ends[-1] - self._ends[-1 - many]) / many * (self._total - self._done)
        return Passing(f"{what} ({part}, {duration(left)} left)" if left >= SHORT else f"{what} ({part})")
