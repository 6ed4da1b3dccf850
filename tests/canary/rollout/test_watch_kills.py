"""A short run of the trial that kills watches; docs/canary-watch.md has the figures of a long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_killed_watches_leave_a_whole_configuration_and_count_once() -> None:
    words = ["--kills", "2", "--guarded", "1", "--every", "13", "--seed", "3"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.trials.watch_kills", *words],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills at random and " in done.stdout
