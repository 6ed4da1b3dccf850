"""Short runs of the trials that kill canaries, watches and guards; docs/canary-run.md has the figures of long ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run_trial(name: str, *words: str) -> str:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", f"tests.trials.{name}", *words],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


pytestmark = pytest.mark.slow


def test_canaries_killed_before_a_call_leave_the_gateway_as_before() -> None:
    assert re.match(
        r"killed before \d+ calls of a canary and \d+ of a recovery", run_trial("canary_kills", "--every", "41")
    )


def test_canaries_watches_and_guards_killed_at_random_are_rolled_back() -> None:
    said = run_trial("guard_kills", "--kills", "10", "--parallel", "2", "--seed", "1")
    assert said.startswith("10 kills in ")
    counts = said.splitlines()[-1].split()
    assert (counts[0], sum(map(int, counts[1:4])), counts[4]) == ("all", 10, "0")


def test_killed_watches_leave_a_whole_configuration_and_count_once() -> None:
    words = ("--kills", "2", "--guarded", "1", "--every", "13", "--seed", "3")
    assert "kills at random and " in run_trial("watch_kills", *words)
