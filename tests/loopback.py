"""Servers of JSON on this machine, for tests of what the lab sends to others."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class JsonHandler(BaseHTTPRequestHandler):
    """Reads and says JSON, and logs nothing."""

    # Headers and body are two writes; the client would wait for the second one.
    disable_nagle_algorithm = True

    def received(self) -> Any:
        """Return the body of the request."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def say(self, answer: object, status: int = 200, **headers: str) -> None:
        """Send a value as JSON, or bytes as they are; ``headers`` replace those that are right."""
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Loopback(ThreadingHTTPServer):
    """A server at a free port, or a given one, of 127.0.0.1."""

    daemon_threads = True

    def __init__(self, handler: type[JsonHandler], port: int = 0, path: str = "") -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, *_: Any) -> None:
        """Ignore a client that gave up."""


S = TypeVar("S", bound=Loopback)


@contextmanager
def serving(server: S) -> Iterator[S]:
    """Serve in a thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
