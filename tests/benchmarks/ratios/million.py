"""Time and memory of a thousand turns of both policies over a million memories in the exact store, in its own process.

``python million.py MEMORIES TURNS`` does it and prints what it took as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import Bench, Side, Sides, ratio

MEMORIES, TURNS = 1_000_000, 1_000
# The memory limit in bytes: 4 GB, not GiB.
ALLOWED = 4_000_000_000


def peak() -> int:
    """Return the peak memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


def run(memories: int, turns: int) -> dict[str, Any]:
    """Build the store from vectors made in batches, then run the turns."""
    from ground import filled, policies, questions, together

    with Bench(Path(), lambda text: sys.stderr.write(f"{text}\n") and None) as bench:
        started = time.perf_counter()
        loaded, arms, queries = filled(bench, "exact", memories), policies(bench), questions(bench, turns)
        ready, built = time.perf_counter(), peak()
        together("", loaded, arms, queries).work()
        ended = time.perf_counter()
    return {
        "memories": memories,
        "turns": turns,
        "build_s": ready - started,
        "turns_s": ended - ready,
        "peak_built": built,
        "peak": peak(),
    }


@ratio(
    "million",
    at_most=1,
    asked_only=True,
    repeats=1,
    warm=False,
    about="Peak memory of a million memories and a thousand turns, exact.",
)
def million(bench: Bench) -> Sides:
    """Peak memory relative to 4 GB; the time is in the notes."""
    from ground import shipped

    found: dict[str, Any] = {}

    def work() -> float:
        # Texts not yet embedded are embedded here, outside the measured process.
        shipped(bench)
        words = [sys.executable, str(Path(__file__)), str(MEMORIES), str(TURNS)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
        found.update(json.loads(done.stdout))
        return found["peak"] / 1e9

    return Sides(
        Side("peak resident memory of the process", work, unit="GB"),
        Side("allowed", lambda: ALLOWED / 1e9, unit="GB"),
        lambda: found,
    )


if __name__ == "__main__":
    from lab.base.processes import set_up

    set_up()
    sys.stdout.write(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))) + "\n")
