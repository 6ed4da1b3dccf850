"""Helpers end with what they help."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from lab.processes import helpers


def end_early() -> None:
    with helpers(1) as pool:
        working = pool.submit(time.sleep, 120)
        while not working.running():
            time.sleep(0.01)
        raise ValueError("early")


@pytest.mark.process
def test_what_ends_the_block_early_ends_helpers_in_the_middle_of_what_they_do() -> None:
    started = time.monotonic()
    with pytest.raises(ValueError, match="early"):
        end_early()
    assert time.monotonic() - started < 60


CYCLE = """
import sys
from lab.processes import set_up

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
