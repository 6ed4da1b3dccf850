"""A thread pool that computes one batch per thread and reports idle time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

J = TypeVar("J")
R = TypeVar("R")
# Seconds without a result after which None is yielded, so that the caller can report progress.
TICK = 0.5
# More threads would wait for the global interpreter lock, which a batch holds for up to a twelfth of its time.
MOST = 8


def team_size() -> int:
    """Return the number of threads: one per processor that this process may use, at most :data:`MOST`."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # not available on this platform
        processors = os.cpu_count() or 1
    return min(processors, MOST)


def each_done(
    work: Callable[[J], R], jobs: Iterable[J], threads: int, initializer: Callable[[], None] | None = None
) -> Iterator[tuple[J, R] | None]:
    """Yield each job with its result, as they finish, or None whenever :data:`TICK` seconds pass without a result.

    ``initializer`` is called once in each thread. If the iteration ends early, by an interrupt or a job's error, no
    further job starts, and the running jobs are awaited.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="embedding", initializer=initializer)
    waiting, running = iter(jobs), dict[Future[R], J]()
    try:
        while True:
            # Queue one extra job per thread, so that no thread is idle.
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
