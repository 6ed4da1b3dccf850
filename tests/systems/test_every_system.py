"""Every system of the lab in whole runs: equal bytes over processes and orders, and after kills.

The two that run foreign programs, ``external`` and ``plugin``, have tests of their own beside their hosts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.runs.tables import read_table
from lab.systems.registry import BUILT_IN

pytestmark = [pytest.mark.slow, pytest.mark.process]

SYSTEMS = tuple(name for name in BUILT_IN if name not in {"external", "plugin"})
# Configurations that change how a system stores and ranks.
VARIANTS = {
    "rsclaw_code": {"lab": {"arm": "rsclaw", "profile": "code"}},
    "engine_set": {"lab": {"arm": "engine"}, "workingSet": {"enabled": True}},
}
KILLS = Path(__file__).resolve().parents[1] / "trials" / "kills.py"


@pytest.fixture
def arms(tmp_path: Path) -> list[str]:
    for name, config in VARIANTS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config), "utf-8")
    return [*SYSTEMS, *(f"{name}={tmp_path / name}.json" for name in VARIANTS)]


def words(operators: Path, source: str, arms: list[str]) -> list[str]:
    chosen = [word for arm in arms for word in ("--arm", arm)]
    options = ["--format", "lab", "--embedder", "hashing", "--limit", "3", "--source", source]
    return [sys.executable, "-m", "lab", "replay", str(operators), *chosen, *options]


def rows_by_arm(out: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the rows of all receipts and writes by file and arm."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for kind in ("receipts", "writes"):
        for path in sorted((out / kind).glob("*")):
            for row in read_table(path).to_pylist():
                rows.setdefault((f"{kind}/{path.name}", row["arm"]), []).append(row)
    return rows


@pytest.mark.parametrize("source", ["given", "captured"])
def test_receipts_and_writes_are_equal_over_processes_and_arm_order(
    operators: Path, tmp_path: Path, arms: list[str], source: str
) -> None:
    """Other hash seeds, two workers, empty caches and another order of the arms change no byte."""
    runs = []
    for seed, order, jobs in (("1", arms, "1"), ("2", arms, "2"), ("3", arms[::-1], "1")):
        out = tmp_path / f"run-{seed}"
        env = os.environ | {"PYTHONHASHSEED": seed, "LAB_CACHE_DIR": str(tmp_path / f"cache-{seed}")}
        command = [*words(operators, source, order), "--jobs", jobs, "--out", str(out)]
        subprocess.run(command, check=True, capture_output=True, env=env)
        runs.append(rows_by_arm(out))
    assert runs[0] == runs[1] == runs[2]
    assert {arm for file, arm in runs[0] if file.startswith("receipts")} == {*SYSTEMS, *VARIANTS}
    injected = {arm for (_, arm), rows in runs[0].items() if any(row.get("injected") for row in rows)}
    assert {"engine", "rsclaw", "auto_recall", "memory_core", "memory_lancedb", "long_context"} <= injected


@pytest.mark.full
@pytest.mark.parametrize("source", ["given", "captured"])
def test_killed_run_resumes_to_the_same_bytes(operators: Path, arms: list[str], source: str) -> None:
    """Killed three times in the middle of a conversation, the same command then ends like an unbroken one."""
    command = [sys.executable, KILLS, "--kills", "3", "--", *words(operators, source, arms), "--out", "OUT"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("3 kills in ")
