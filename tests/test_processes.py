"""Worker processes end with the block that uses them."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess

import pytest

from lab.base.processes import worker_pool


def end_early(found: list[BaseProcess]) -> None:
    with worker_pool(1) as pool:
        working = pool.submit(time.sleep, 120)
        while not working.running():
            time.sleep(0.01)
        found += multiprocessing.active_children()
        raise ValueError("early")


@pytest.mark.process
def test_worker_pool_with_error_kills_its_workers() -> None:
    found: list[BaseProcess] = []
    with pytest.raises(ValueError, match="early"):
        end_early(found)
    # One that was waited for would have ended by itself.
    assert [one.exitcode for one in found] == [-signal.SIGKILL]


CYCLE = """
import sys
from lab.base.processes import set_up

class Loud:
    def __del__(self):
        print("collected")

if sys.argv[1] == "set up":
    set_up()
held = Loud()
held.held = held
del held
"""


@pytest.mark.process
@pytest.mark.parametrize(("how", "said"), [("bare", "collected\n"), ("set up", "")])
def test_set_up_process_when_it_ends_collects_no_cycles(how: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", CYCLE, how], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (said, "")
