"""Worker processes end with the block that uses them."""

from __future__ import annotations

import time

import pytest

from lab.processes import worker_pool


def end_early() -> None:
    with worker_pool(1) as pool:
        working = pool.submit(time.sleep, 120)
        while not working.running():
            time.sleep(0.01)
        raise ValueError("early")


def test_worker_pool_with_error_kills_its_workers() -> None:
    started = time.monotonic()
    with pytest.raises(ValueError, match="early"):
        end_early()
    assert time.monotonic() - started < 60
