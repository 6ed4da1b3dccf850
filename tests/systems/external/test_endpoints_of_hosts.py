"""Hosts behind a URL: a real server on loopback, and its faults."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.systems.external.arm import ExternalArm
from tests.systems.external.hosting import TEXTS, answers_of, arm_of, reasons
from tests.systems.external.web import FAULTS, Handler, Server, refuses, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as own:
        yield own


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
        (500, "http_500 in hello; see the log of the endpoint"),
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
    with pytest.raises(UnusableInput, match="is another machine, and texts would be sent there"):
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
