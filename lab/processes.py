"""How a process of the lab is set up, and how it gets helpers."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager


def set_up() -> None:
    """Settle what must be settled before numpy is loaded, in this process and in those it starts."""
    # More threads of one small product are slower, and their number must not matter.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A replay holds many small records without cycles; looking for some among them costs a tenth of its time.
    gc.set_threshold(200_000, 20, 20)


@contextmanager
def worker_pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, spawned and never forked: neither LanceDB's threads nor torch's survive a fork.

    Whatever ends the block early ends them, too, in the middle of what they do.
    """
    import multiprocessing

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


def _begin() -> None:
    """Set up a helper."""
    import signal
    import threading

    set_up()
    # An interrupt reaches the whole group; it is for whoever started us to tell what becomes of the work.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the process that started us is gone: one that is killed cannot tell its helpers to end."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
