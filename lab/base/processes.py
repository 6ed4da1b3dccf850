"""Process-wide settings, and pools of worker processes."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")


def set_up() -> None:
    """Configure this process and its children. Call it before numpy is imported."""
    # Threads slow down small matrix products, and results must not depend on their number.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A replay keeps many small records without reference cycles; collecting at the default rate takes a tenth of its
    # time.
    gc.set_threshold(200_000, 20, 20)
    # Python looks for cycles once more when it ends: up to two seconds after a replay, to free what ends anyway.
    atexit.register(gc.freeze)


def processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not available on this platform
        return os.cpu_count() or 1


@contextmanager
def worker_pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of ``count`` worker processes, and kill them if the block raises.

    They are spawned, never forked: the threads of LanceDB and torch do not survive a fork.
    """
    # Every command imports this module, and few start processes.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - others:
            child.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def mapped(work: Callable[[T], R], items: Sequence[T], jobs: int) -> Iterator[R]:
    """Yield the result of each item in order, from worker processes if there are several items and ``jobs``."""
    if jobs <= 1 or len(items) <= 1:
        yield from map(work, items)
        return
    with worker_pool(min(jobs, len(items))) as pool:
        yield from pool.map(work, items)


def _begin() -> None:
    import signal
    import threading

    set_up()
    # Ctrl-C reaches the whole process group; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent process ends: a killed parent cannot stop its workers."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
