"""Compare the replay of docs/canary.md with the log of a real gateway, receipt by receipt."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table

MARKER = "autoRecall.receipt "
VERSION = "2026.9.6"


def test_upstream_writes_every_receipt_that_the_gateway_logged(
    shared: Callable[..., Path], provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    log = shared("live", "logs", f"gateway-{VERSION}.log").read_text("utf-8").splitlines()
    messages = [json.loads(line).get("message", "") for line in log]
    logged = [message.partition(MARKER)[2] for message in messages if MARKER in message]
    asked = ReplayRequest(
        str(shared("live", f"sessions-{VERSION}")),
        "openclaw",
        (f"engine={shared('live', 'config', f'openclaw-{VERSION}.json')}",),
        memories_from=str(shared("live", "lancedb", f"engine-{VERSION}")),
        profile="upstream",
        scope="tags",
        embedder=f"openai:text-embedding-3-small@{provider}",
        vectors="stored",
    )
    run = run_replay(asked, tmp_path / "run").run
    written = {row["receipt"] for name in run.done() for row in read_table(run.receipts(name)).to_pylist()}
    assert len(logged) == 19
    assert [receipt for receipt in logged if receipt not in written] == []
