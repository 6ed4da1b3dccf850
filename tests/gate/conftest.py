"""A run of the shipped recordings, and an audit of the receipts that it wrote, as a live engine would log them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.canary.audit.audit import audit as read_logs
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table

ARMS = ("tier_first_v1", "tier_quota_v1")


@pytest.fixture(scope="session")
def run(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Both policies over all six conversations, scopes as recorded."""
    asked = ReplayRequest(str(operators), "lab", ARMS, scope="recorded", embedder="hashing")
    return run_replay(asked, tmp_path_factory.mktemp("gate") / "run").run


@pytest.fixture(scope="session")
def log_lines(run: RunDirectory) -> list[str]:
    """A log with the receipts of tier_quota_v1: a recall in a second, 40 minutes between sessions."""
    rows = (
        row
        for conversation in run.conversations
        for row in read_table(run.receipts(conversation), ("arm", "turn", "receipt")).to_pylist()
        if row["arm"] == ARMS[1]
    )
    lines, now, last = [], datetime(2026, 3, 1, tzinfo=UTC), ""
    for row in rows:
        session = row["turn"].rpartition("/")[0]
        now += timedelta(seconds=1) if session == last else timedelta(minutes=40)
        lines.append(f"{now:%Y-%m-%dT%H:%M:%S}Z openclaw-mem-engine:autoRecall.receipt {row['receipt']}")
        last = session
    return lines


@pytest.fixture(scope="session")
def audit(log_lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The audit of that log."""
    path = tmp_path_factory.mktemp("logs") / "gateway.log"
    path.write_text("\n".join(log_lines) + "\n", "utf-8")
    return read_logs([str(path)])


@pytest.fixture(scope="session")
def three(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The arms that rollout compares, over all conversations."""
    arms = ("tier_first_v1", "tier_quota_v1", "hybrid")
    asked = ReplayRequest(str(operators), "lab", arms, scope="recorded", embedder="hashing")
    return run_replay(asked, tmp_path_factory.mktemp("control") / "run").run
