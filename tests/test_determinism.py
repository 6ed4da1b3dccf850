"""A replay depends only on its inputs, not on hash seeds, processes or earlier work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONVERSATIONS = ("harbor-release", "tea-mountain")
# Every stage that keeps sets or maps has something to do.
BUSY = {
    "autoRecall": {"selectionMode": "tier_quota_v1", "repeatPenalty": 0.5},
    "workingSet": {"enabled": True, "maxChars": 600},
    "receipts": {"verbosity": "high", "maxItems": 10},
    "budget": {"maxChars": 2600},
    "lab": {"arm": "engine", "phases": {"trust": "soft", "relevance": "similarity", "score": {"novelty": True}}},
}


def replay(folder: Path, operators: Path, seed: str, *arguments: str) -> dict[str, bytes]:
    """The receipts of a run in a process and a cache of its own, by conversation."""
    lab, run = Path(sys.executable).with_name("lab"), folder / f"run-{seed}"
    chosen = [word for name in CONVERSATIONS for word in ("--conversation", name)]
    arms = ["--arm", "seed_full", "--arm", "engine", "--arm", f"busy={folder / 'busy.json'}"]
    asked = [operators, "--format", "lab", *chosen, *arms, "--scope", "recorded", "--embedder", "hashing", "--out", run]
    subprocess.run(
        [lab, "replay", *asked, *arguments],
        check=True,
        capture_output=True,
        timeout=300,
        env=os.environ | {"PYTHONHASHSEED": seed, "LAB_CACHE_DIR": str(folder / f"cache-{seed}"), "NO_COLOR": "1"},
    )
    return {path.name: path.read_bytes() for path in sorted((run / "receipts").iterdir())}


def test_two_processes_write_identical_receipts(tmp_path: Path, operators: Path) -> None:
    (tmp_path / "busy.json").write_text(json.dumps(BUSY), encoding="utf-8")
    one, other = replay(tmp_path, operators, "1"), replay(tmp_path, operators, "2", "--jobs", "2")
    assert list(one) == [f"{name}.parquet" for name in CONVERSATIONS]
    assert [name for name in one if one[name] != other[name]] == []
