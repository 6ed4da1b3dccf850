"""A replay depends only on its inputs, not on hash seeds, processes or earlier work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.systems.registry import BUILT_IN

pytestmark = pytest.mark.slow

# The two others run foreign programs.
ARMS = tuple(name for name in BUILT_IN if name not in ("external", "plugin"))
CONVERSATIONS = ("tea-mountain",)
# Every stage that keeps sets or maps has something to do.
BUSY = {
    "autoRecall": {"selectionMode": "tier_quota_v1", "repeatPenalty": 0.5},
    "workingSet": {"enabled": True, "maxChars": 600},
    "receipts": {"verbosity": "high", "maxItems": 10},
    "budget": {"maxChars": 2600},
    "lab": {"arm": "engine", "phases": {"trust": "soft", "relevance": "similarity", "score": {"novelty": True}}},
}


def replay(folder: Path, operators: Path, seed: str) -> dict[str, bytes]:
    """The receipts and the gold of a run in a process and a cache of its own."""
    lab, run = Path(sys.executable).with_name("lab"), folder / f"run-{seed}"
    chosen = [word for name in CONVERSATIONS for word in ("--conversation", name)]
    arms = [word for name in (*ARMS, f"busy={folder / 'busy.json'}") for word in ("--arm", name)]
    asked = [operators, "--format", "lab", *chosen, *arms, "--scope", "recorded", "--embedder", "hashing", "--out", run]
    asked += ["--labels", "distractors", "--must-share", "0.3", "--seed", "5"]
    subprocess.run(
        [lab, "replay", *asked],
        check=True,
        capture_output=True,
        timeout=300,
        env=os.environ | {"PYTHONHASHSEED": seed, "LAB_CACHE_DIR": str(folder / f"cache-{seed}"), "NO_COLOR": "1"},
    )
    files = [*sorted((run / "receipts").iterdir()), run / "golden.jsonl"]
    return {path.name: path.read_bytes() for path in files}


def test_two_processes_write_identical_receipts(tmp_path: Path, operators: Path) -> None:
    (tmp_path / "busy.json").write_text(json.dumps(BUSY), encoding="utf-8")
    one, other = replay(tmp_path, operators, "1"), replay(tmp_path, operators, "2")
    assert list(one) == [*(f"{name}.parquet" for name in CONVERSATIONS), "golden.jsonl"]
    assert [name for name in one if one[name] != other[name]] == []
