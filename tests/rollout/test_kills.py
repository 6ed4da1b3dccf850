"""A short run of the trial that kills canaries and recoveries; docs/canary-run.md has the figures of a long one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRIAL = Path(__file__).resolve().parents[1] / "trials" / "canary_kills.py"


@pytest.mark.slow
def test_killed_canaries_leave_the_gateway_as_before() -> None:
    words = ["--kills", "3", "--guarded", "1", "--every", "17", "--seed", "3"]
    path = os.pathsep.join([str(TRIAL.parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(TRIAL), *words], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("3 kills in ")
    assert "likewise" in done.stdout
