"""``lab study scale``: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_command_prints_a_table_and_writes_a_chart(lab: Callable[..., Any], operators: Path, tmp_path: Path) -> None:
    arms = ("--arm", "tier_quota_v1")
    words = (
        "study",
        "scale",
        operators,
        "--format",
        "lab",
        *arms,
        "--embedder",
        "hashing",
        "--limit",
        "1",
        "--out",
        "out",
    )
    done = lab(*words, "--haystack", "2", "--haystack", "9000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert shown.startswith(
        "trial: embedder hashing, which is for tests; 1 conversation, the first ones 1 conversation, "
    )
    assert "with gold, labels recorded" in shown
    assert all(f"{term}: " in shown for term in ("In reach", "RepeatRate", "p50, p95"))
    assert "haystack 9,000: not available (at most " in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
    found = json.loads(lab(*words, "--haystack", "2", "--json", cwd=tmp_path).stdout)
    assert [(point["memories"], point["arm"]) for point in found["points"]] == [(2, "tier_quota_v1")]
    assert (tmp_path / found["page"]).is_file()
    assert found["trial"] == ["embedder hashing, which is for tests", "1 conversation, the first ones"]
    assert found["labels"] == "recorded"
    refused = lab(*words, "--haystack", "9000", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("command", ["saturation", "scale", "silence"])
def test_out_that_is_a_run_directory_is_refused(lab: Callable[..., Any], place: Path, command: str) -> None:
    done = lab("study", command, "datasets/tiny", "--format", "lab", "--out", "run", cwd=place)
    assert (done.returncode, done.stderr) == (2, "error: run: is a run directory; choose another --out\n")
