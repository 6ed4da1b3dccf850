"""Fixtures: the real model, loaded once, and an endpoint that serves it on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from lab.embedding.embedder import SentenceTransformerEmbedder
from tests.embedding.endpoint_server import Server

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]


@pytest.fixture(scope="session")
def model() -> SentenceTransformerEmbedder:
    """Return the default embedder."""
    return SentenceTransformerEmbedder()


class Endpoint:
    """A client of the server in ``endpoint_server.py``."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/v1"

    def named(self, settings: str = "", model: str = "all-MiniLM-L6-v2") -> str:
        """Return the value of ``--embedder`` for this server."""
        return f"openai:{model}@{self.url}{settings}"

    def fail(self, *faults: dict[str, Any]) -> None:
        """Set the faults of the next requests, one each; an empty fault changes nothing."""
        self._send("/faults", json.dumps(faults).encode())

    def state(self) -> dict[str, Any]:
        """Return what the server received since the last call, and reset the counts."""
        return dict(json.loads(self._send("/state")))

    def _send(self, path: str, body: bytes | None = None) -> bytes:
        with urlopen(Request(f"http://127.0.0.1:{self.port}{path}", body), timeout=30) as found:
            return bytes(found.read())


@pytest.fixture(scope="session")
def running(model: SentenceTransformerEmbedder) -> Iterator[Endpoint]:
    """Start the server for the test session and stop it at the end."""
    with Server(model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Endpoint(server.server_address[1])
        server.shutdown()


@pytest.fixture
def endpoint(running: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Endpoint:
    """Return the server without faults and with counts reset. No key is set, and the cache is private to the test."""
    for name in ("LAB_EMBEDDER_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    running.fail()
    running.state()
    return running
