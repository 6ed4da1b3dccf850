"""Compare the replay of docs/canary.md with the log of a real gateway, receipt by receipt."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.replay.plan import ReplayRequest
from lab.replay.run import run_replay
from lab.runs.tables import read_table

MARKER = "autoRecall.receipt "
VERSION = "2026.9.6"


@pytest.fixture
def provider(shared: Callable[..., Path]) -> Iterator[str]:
    """Return the base URL of a loopback provider like the gateway's."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node here, which the gateway's provider runs on")
    script = shared("live", "tools", "stub_provider.mjs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([node, str(script), str(port)], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until, "the provider does not start"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


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
