"""Threads that compute batches, one batch each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

J = TypeVar("J")
R = TypeVar("R")
# Seconds between two signs of life.
TICK = 0.5
# More threads than these would wait for the interpreter's lock, which a batch holds for up to a twelfth of its time.
MOST = 8


def team_size() -> int:
    """How many threads compute: one a processor that this process may use, and no more than :data:`MOST`."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # a system that keeps no such set
        processors = os.cpu_count() or 1
    return min(processors, MOST)


def each_done(
    work: Callable[[J], R], jobs: Iterable[J], threads: int, begin: Callable[[], None] | None = None
) -> Iterator[tuple[J, R] | None]:
    """Each job with its result, as they end; None where :data:`TICK` seconds passed and none did.

    ``begin`` is called once in each thread. Whatever ends the iteration early, an interrupt or an error of a job, waits
    for the jobs that run, and begins no other.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="embedding", initializer=begin)
    waiting, running = iter(jobs), dict[Future[R], J]()
    try:
        while True:
            # One job a thread waits, so that no thread does.
            for job in islice(waiting, 2 * threads - len(running)):
                running[pool.submit(work, job)] = job
            if not running:
                return
            done, _ = wait(running, TICK, FIRST_COMPLETED)
            if not done:
                yield None
            for future in done:
                yield running.pop(future), future.result()
    finally:
        pool.shutdown(cancel_futures=True)
