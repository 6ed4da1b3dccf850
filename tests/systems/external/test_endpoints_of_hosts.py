"""Hosts behind a URL: a real server on loopback, and its faults."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lab.errors import CannotMeasure, UnusableInput
from lab.systems.external.arm import ExternalArm
from tests.systems.external.hosting import TEXTS, answers_of, arm_of, reasons

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
        is_second = [one["op"] for one in server.asked].count("recall") == 2 and request["op"] == "recall"
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
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.kept: dict[str, dict[str, str]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/memory"

    def handle_error(self, *_: Any) -> None:
        """Ignore a client that gave up."""


@pytest.fixture
def server() -> Iterator[Server]:
    own = Server()
    thread = threading.Thread(target=own.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield own
    own.shutdown()
    thread.join()
    own.server_close()


def arm_at(server: Server, **config: Any) -> ExternalArm:
    return arm_of({"url": server.url, "timeouts": {"recall": 0.5}, **config})


def test_host_behind_a_url_recalls_what_it_was_given(server: Server) -> None:
    answers = answers_of(arm_at(server))
    assert [answer.recall.context.splitlines() for answer in answers] == [[*TEXTS[:count]] for count in (1, 2, 3, 3)]
    # Items without a text have the one that was given.
    assert [item.text for item in answers[3].recall.items] == [*TEXTS]
    hello, ended, again, *_ = server.asked
    assert (hello["op"], hello["conversation"], ended["op"], again["conversation"]) == ("hello", None, "close", "c")
    assert (hello["home"], hello["embedder"]) == (None, None)
    assert hello["instance"] != again["instance"]
    assert [request["id"] for request in server.asked[2:]] == [*range(1, len(server.asked) - 1)]
    assert server.kept == {}


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


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_an_endpoint_fails_this_and_all_later_recalls(name: str, server: Server) -> None:
    server.fault, reason = FAULTS[name]
    arm = arm_at(server)
    assert reasons(answers_of(arm)) == [None, *[reason] * 3]
    # After the fault nothing more is sent, and a redirect was not followed.
    assert [request["op"] for request in server.asked][-1] == "recall"


def test_endpoint_that_goes_down_fails_all_later_recalls(server: Server) -> None:
    def ends(handler: Handler, request: dict[str, Any]) -> None:
        handler.server.socket.close()
        handler.connection.close()

    server.fault = ends
    found = reasons(answers_of(arm_at(server)))
    assert found[0] is None
    assert len({*found[1:]}) == 1
    assert str(found[1]).startswith("no_answer in recall at cannot be reached (")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "http_401 in hello; name the variable with its key under key_env in the arm's file"),
        (500, "http_500 in hello"),
    ],
)
def test_endpoint_that_refuses_hello_is_reported_before_the_run(status: int, message: str, server: Server) -> None:
    server.fault, server.always = refuses(status), True
    with pytest.raises(CannotMeasure) as caught:
        arm_at(server)
    assert str(caught.value) == f"live.json: the host does not answer hello: {message} (docs/external.md)"


def test_endpoint_that_is_down_is_reported_before_the_run() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(CannotMeasure, match=r"no_answer in hello at cannot be reached \(.+\); start it, or correct"):
        arm_of({"url": f"http://127.0.0.1:{port}/"})


def test_key_of_an_endpoint_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnusableInput, match="environment variable HOST_KEY is not set"):
        arm_at(server, key_env="HOST_KEY")
    monkeypatch.setenv("HOST_KEY", "open-sesame")
    arm = arm_at(server, key_env="HOST_KEY")
    assert reasons(answers_of(arm)) == [None] * 4
    assert {*server.keys} == {"Bearer open-sesame"}
    assert "open-sesame" not in json.dumps(dict(arm.describe().config))


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "https://memory.example.com/v1", "http://0x7f000002/"])
def test_other_machine_needs_permission(url: str) -> None:
    with pytest.raises(UnusableInput, match="is another machine, and texts of the recording would be sent there"):
        arm_of({"url": url})


def test_permission_reaches_the_endpoint_and_the_manifest(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.url.replace("127.0.0.1", "127.1")
    with pytest.raises(UnusableInput, match=r"127\.1 is another machine"):
        arm_of({"url": url})
    assert arm_of({"url": url}, allow_remote=True).describe().config["allow_remote"] is True
    assert arm_of({"url": url, "allow_remote": True}).identity["name"] == "web"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://me:pw@127.0.0.1/", "holds a password or a key"),
        ("http://127.0.0.1/?api_key=abc", "holds a password or a key"),
        ("ftp://127.0.0.1/", "expected http://HOST:PORT/PATH"),
        ("http://127.0.0.1:notaport/", "is not a URL"),
        ("http:///path", "expected http://HOST:PORT/PATH"),
    ],
)
def test_unusable_url_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(UnusableInput, match=message) as caught:
        arm_of({"url": url})
    assert "pw" not in str(caught.value).replace("password", "")
    assert "abc" not in str(caught.value)
