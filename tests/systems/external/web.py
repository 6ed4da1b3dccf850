"""A host behind a URL for tests: a real server on loopback, and its faults at the second recall."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tests import loopback
from tests.loopback import JsonHandler, Loopback

HELLO = {"protocol": 1, "name": "web", "version": "1", "writes": False, "cutoff": 6, "probes": "same"}
Fault = Callable[["Handler", dict[str, Any]], None]


class Handler(JsonHandler):
    """Answers one request, or does what the server's fault does at the second recall."""

    server: Server

    def do_POST(self) -> None:  # noqa: N802 - the server calls it by this name
        request = self.received()
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


class Server(Loopback):
    """A host with the memories of each instance, what it was asked, and the keys that it was shown."""

    def __init__(self) -> None:
        super().__init__(Handler, path="/memory")
        self.fault: Fault | None = None
        self.always = False
        # With a name, only in the conversation of that name.
        self.faulty_in: str | None = None
        self.talks: dict[str, str | None] = {}
        self.recalls = 0
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.kept: dict[str, dict[str, str]] = {}


def serving() -> AbstractContextManager[Server]:
    """Serve in a thread."""
    return loopback.serving(Server())


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
