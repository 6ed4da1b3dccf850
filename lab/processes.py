"""How a process of the lab is set up, and how it gets helpers."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ProcessPoolExecutor


def set_up() -> None:
    """Settle what must be settled before numpy is loaded, in this process and in those it starts."""
    # More threads of one small product are slower, and their number must not matter.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A replay holds many small records without cycles; looking for some among them costs a tenth of its time.
    gc.set_threshold(200_000, 20, 20)


def helpers(count: int) -> ProcessPoolExecutor:
    """A pool of processes, spawned and never forked: neither LanceDB's threads nor torch's survive a fork."""
    import multiprocessing

    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=set_up)
