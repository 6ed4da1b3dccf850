"""The live plugin in a Node process, and its embedding endpoint."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.conformance.embedding import embed

HOST = Path(__file__).with_name("host.mjs")


class Endpoint:
    """An embedding provider on loopback. Texts in ``refused`` get an error, as from a provider that is down."""

    def __init__(self) -> None:
        self.refused: Collection[str] = ()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
                down = any(text in endpoint.refused for text in texts)
                found = [{"index": at, "embedding": embed(text).tolist()} for at, text in enumerate(texts)]
                answer: dict[str, Any] = {"error": {"message": "down"}} if down else {"data": found}
                body = json.dumps(answer).encode()
                self.send_response(500 if down else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Suppress logging."""

        return Handler


class Plugin:
    """The plugin under one configuration, with its table in ``state/db``."""

    def __init__(self, node: str, folder: Path, settings: dict[str, Any], state: Path, endpoint: Endpoint) -> None:
        state.mkdir(parents=True, exist_ok=True)
        self.table = state.resolve() / "db"
        own = {"embedding": {"apiKey": "none", "model": "text-embedding-3-small"}, "dbPath": str(self.table)}
        file = state / "settings.json"
        file.write_text(json.dumps(settings | own), "utf-8")
        words = [node, "--experimental-transform-types", "--no-warnings", str(HOST), str(folder), str(file), str(state)]
        self._process = subprocess.Popen(
            [*words, endpoint.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def __enter__(self) -> Plugin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        if self._process.stdout:
            self._process.stdout.close()
        self._process.wait(60)

    def ask(self, operation: str, **values: Any) -> tuple[Any, list[tuple[str, str]]]:
        """Return the response to one request, and the log lines written meanwhile with their levels."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the host has no pipes")
        self._process.stdin.write(json.dumps({"op": operation} | values) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the host ended with {self._process.wait(60)} at {operation}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{operation}: {answer['error']}")
        return answer["result"], [(level, text) for level, text in answer["log"]]
