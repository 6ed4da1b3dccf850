"""A host behind a URL for tests: a real server on loopback, and its faults at the second recall."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HELLO = {"protocol": 1, "name": "web", "version": "1", "writes": False, "cutoff": 6, "probes": "same"}
Fault = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Answers one request, or does what the server's fault does at the second recall."""

    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        server.asked.append(request)
        server.keys.append(self.headers.get("Authorization"))
        if request["op"] == "hello":
            server.talks[request["instance"]] = request["conversation"]
        is_here = server.faulty_in in (None, server.talks.get(request["instance"]))
        server.recalls += is_here and request["op"] == "recall"
        is_second = is_here and request["op"] == "recall" and server.recalls == 2
        if server.fault is not None and (is_second or server.always):
            server.fault(self, request)
        else:
            self.say(self.right(request))

    def right(self, request: dict[str, Any]) -> dict[str, Any]:
        kept = self.server.kept.setdefault(request["instance"], {})
        result: dict[str, Any] = {}
        if request["op"] == "hello":
            result = HELLO
        elif request["op"] == "remember":
            kept.update((memory["key"], memory["text"]) for memory in request["memories"])
        elif request["op"] == "recall":
            items = [{"id": key, "score": 1} for key in kept]
            result = {"items": items, "context": "\n".join(kept.values())} if items else {"status": "skipped"}
        elif request["op"] == "close":
            del self.server.kept[request["instance"]]
        return {"id": request["id"], "ok": True, "result": result}

    def say(self, answer: object, status: int = 200, **headers: str) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Suppress logging."""


class Server(ThreadingHTTPServer):
    """A host with the memories of each instance, what it was asked, and the keys that it was shown."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault: Fault | None = None
        self.always = False
        # With a name, only in the conversation of that name.
        self.faulty_in: str | None = None
        self.talks: dict[str, str | None] = {}
        self.recalls = 0
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.kept: dict[str, dict[str, str]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/memory"

    def handle_error(self, *_: Any) -> None:
        """Ignore a client that gave up."""


@contextmanager
def serving() -> Iterator[Server]:
    """Serve in a thread."""
    own = Server()
    thread = threading.Thread(target=own.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield own
    own.shutdown()
    thread.join()
    own.server_close()


def silent(handler: Handler, request: dict[str, Any]) -> None:
    time.sleep(2)


def trickle(handler: Handler, request: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def half(handler: Handler, request: dict[str, Any]) -> None:
    handler.say(json.dumps(handler.right(request)).encode()[:30])


def cut_off(handler: Handler, request: dict[str, Any]) -> None:
    handler.say(b'{"id": 1', **{"Content-Length": "500"})


def hangs_up(handler: Handler, request: dict[str, Any]) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def twice(handler: Handler, request: dict[str, Any]) -> None:
    handler.say(json.dumps(handler.right(request)).encode() * 2)


def refuses(status: int) -> Fault:
    return lambda handler, request: handler.say({"error": "rye bread is dark"}, status)


def elsewhere(handler: Handler, request: dict[str, Any]) -> None:
    handler.say(b"", 307, Location=f"http://127.0.0.1:{handler.server.server_port}/other")


FAULTS: dict[str, tuple[Fault, str]] = {
    "silent": (silent, "timed_out in recall at 0.5 s"),
    "trickle": (trickle, "timed_out in recall at 0.5 s"),
    "half a JSON": (half, "not_json in recall"),
    "cut off": (cut_off, "no_answer in recall at the response was truncated"),
    "hangs up": (hangs_up, "no_answer in recall at cannot be reached (RemoteDisconnected)"),
    "two answers": (twice, "not_json in recall"),
    "401": (refuses(401), "http_401 in recall"),
    "500": (refuses(500), "http_500 in recall"),
    "redirect": (elsewhere, "http_307 in recall"),
    "HTML": (lambda handler, _: handler.say(b"<html>rye bread</html>"), "not_json in recall"),
}
