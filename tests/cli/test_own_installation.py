"""First look at an installation: six commands with only paths and a format."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
# Sessions, turns and memories of each sample, counted by hand.
COUNTS = {"2026.9.6": (4, 58, 6), "2026.6.11": (2, 26, 2)}


@pytest.mark.parametrize("version", sorted(COUNTS))
def test_first_look_at_a_live_sample_needs_six_commands(
    lab: Lab, shared: Callable[..., Path], tmp_path: Path, version: str
) -> None:
    sessions = shared("live", f"sessions-{version}")
    store, log = shared("live", "lancedb", "engine-2026.9.6"), shared("live", "logs", f"gateway-{version}.log")

    found = json.loads(lab("recordings", "validate", sessions, "--format", "openclaw", "--json", cwd=tmp_path).stdout)
    counted = [sum(one[name] for one in found["conversations"]) for name in ("turns", "memories")]
    assert (len(found["conversations"]), *counted) == COUNTS[version]

    replay = ("replay", sessions, "--format", "openclaw", "--memories-from", store, "--out", "run")
    for arguments, code in (
        (replay, 0),
        (("compare", "run"), 0),
        (("canary", "audit", log, "--out", "audit.json"), 0),
        # The logs are too short for a verdict.
        (("gate", "audit.json"), 3),
        (("report", "run"), 0),
    ):
        done = lab(*arguments, cwd=tmp_path)
        assert done.returncode == code, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 80 or arguments[0] == "report"
    assert (tmp_path / "run" / "report.html").is_file()
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert (verdict["policy"], verdict["status"]) == ("stage-b", "inconclusive")
    assert f"run: 0 done, {COUNTS[version][0]} skipped, 0 failed" in lab(*replay, cwd=tmp_path).stdout
