"""A command killed at random times with all its worker processes resumes, and ends with the same bytes.

``LAB_KILLS=100`` sets the number of kills, by default a few. Every command that can be resumed has a line in
:data:`COMMANDS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import lives

pytestmark = pytest.mark.process

LAB = Path(sys.executable).with_name("lab")
TRIAL = Path(__file__).resolve().parents[1] / "trials" / "kills.py"
KILLS = os.environ.get("LAB_KILLS", "2")
REPLAY = ("replay", "RECORDINGS", "--format", "lab", "--arm", "tier_quota_v1", "--embedder", "hashing", "--out", "OUT")
SWEEP = ("study", "sweep", "RECORDINGS", "--format", "lab", "--limit", "3", "--embedder", "hashing", "--out", "OUT")
COMMANDS = {"replay in two processes": (*REPLAY, "--jobs", "2"), "sweep": SWEEP}


@pytest.mark.full
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_replay_killed_at_random_times_loses_nothing(operators: Path, command: tuple[str, ...]) -> None:
    words = [str(operators) if word == "RECORDINGS" else word for word in command]
    ended = subprocess.run(
        [sys.executable, TRIAL, "--kills", KILLS, "--", LAB, *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"{KILLS} kills in ")


def test_workers_of_a_killed_process_end(tmp_path: Path) -> None:
    """A killed process cannot stop its workers, so they must notice; otherwise they would wait for work forever."""
    program = (
        "import os, signal, sys\n"
        "from lab.base.processes import worker_pool\n"
        "if __name__ == '__main__':\n"
        "    with worker_pool(1) as pool:\n"
        "        print(pool.submit(os.getpid).result(), flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (tmp_path / "parent.py").write_text(program, encoding="utf-8")
    ended = subprocess.run([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == -9
    worker = int(ended.stdout)
    until = time.monotonic() + 60
    while lives(worker):
        assert time.monotonic() < until, "the worker outlived its parent"
        time.sleep(0.02)
