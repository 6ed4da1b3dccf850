"""Memories of a running rsclaw: a real server on loopback, complete, broken and silent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

import lab.replay.memories_from as client
from lab.base.errors import CannotMeasure, UnusableInput
from lab.replay.explain import explain
from lab.replay.memories_from import TOKEN, kept_at, read_stored
from lab.runs.tables import read_table
from tests.commands import run_here
from tests.loopback import JsonHandler, Loopback, serving
from tests.replay.conftest import Desk

Answer = Callable[["Handler", dict[str, str]], None]


def doc(number: int, scope: str = "agent:main", kind: str = "fact", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"0b0e9a3c-2222-4000-8000-{number:012}",
        "scope": scope,
        "kind": kind,
        "text": f"pears ripen in week {number}",
        "abstract_text": None,
        "overview_text": None,
        "tags": [],
        "tier": "working",
        "importance": 0.65,
        "pinned": False,
        "created_at": 1_700_000_000 + number,
        "accessed_at": 1_700_000_000,
        "access_count": 0,
        "relevance_score": 0.5,
    } | changes


class Handler(JsonHandler):
    """Answers like the API: at most ``most`` documents a request; ``fault`` answers in its place."""

    server: Gateway

    def do_GET(self) -> None:  # noqa: N802 - the server calls it by this name
        """Answer one request."""
        gateway, parts = self.server, urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        gateway.requests.append((parts.path, query, self.headers.get("Authorization", "")))
        if gateway.fault:
            gateway.fault(self, query)
        elif gateway.token and self.headers.get("Authorization") != f"Bearer {gateway.token}":
            self.say({"error": "who?"}, 401)
        elif parts.path == "/api/v1/memory/stats":
            self.say(
                {
                    "total": len(gateway.docs) + gateway.grown,
                    **{f"by_{name}": _counts(gateway.docs, name) for name in ("tier", "kind", "scope")},
                    "pinned": 0,
                }
            )
        elif parts.path == "/api/v1/memory/docs":
            found = [
                one for one in gateway.docs if all(one[key] == query.get(key, one[key]) for key in ("scope", "kind"))
            ]
            counted = {"total": len(found)} if gateway.totals else {}
            self.say({"docs": found[: min(gateway.most, int(query["limit"]))]} | counted)
        else:
            self.say({}, 404)


def _counts(docs: list[dict[str, Any]], name: str) -> dict[str, int]:
    return {value: sum(one[name] == value for one in docs) for value in {one[name] for one in docs}}


class Gateway(Loopback):
    """The server and what it holds."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.docs = [doc(1), doc(2, kind="lesson"), doc(3, "agent:main:cron")]
        self.token, self.most, self.grown = "", 1000, 0
        self.totals = True
        self.fault: Answer | None = None
        self.requests: list[tuple[str, dict[str, str], str]] = []


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Gateway]:
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    with serving(Gateway()) as server:
        yield server


def test_read_stored_from_an_address(gateway: Gateway) -> None:
    stored = read_stored(gateway.url)
    assert [(memory.text, memory.category, memory.scope) for memory in stored.memories] == [
        ("pears ripen in week 1", "fact", "agent:main"),
        ("pears ripen in week 2", "lesson", "agent:main"),
        ("pears ripen in week 3", "fact", "agent:main:cron"),
    ]
    assert stored.memories[0].created_at == 1_700_000_001_000
    assert stored.memories[0].label == "nice_to_have"
    assert [(path, query) for path, query, _ in gateway.requests] == [
        ("/api/v1/memory/stats", {}),
        ("/api/v1/memory/docs", {"limit": "1000"}),
    ]
    kept = kept_at(gateway.url)
    assert kept.stat().st_mode & 0o077 == 0


def test_read_stored_in_parts_if_there_are_too_many(gateway: Gateway) -> None:
    gateway.docs = [doc(number, f"agent:{number % 2}", "fact" if number % 3 else "note") for number in range(12)]
    gateway.most = 4
    stored = read_stored(gateway.url)
    assert sorted(memory.key for memory in stored.memories) == sorted(one["id"] for one in gateway.docs)
    assert len(gateway.requests) == 6
    gateway.most = 3
    with pytest.raises(CannotMeasure, match="has 4 documents of kind fact in one scope, and returns only 3"):
        read_stored(gateway.url)


def test_token_is_sent_as_bearer_and_never_shown(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.token = "right"
    with pytest.raises(UnusableInput, match=f"needs a token; set {TOKEN} .status 401"):
        read_stored(gateway.url)
    monkeypatch.setenv(TOKEN, "wrong-and-secret")
    with pytest.raises(UnusableInput, match=f"refuses the token in {TOKEN} .status 401") as error:
        read_stored(gateway.url)
    assert "secret" not in str(error.value)
    monkeypatch.setenv(TOKEN, " right ")
    assert len(read_stored(gateway.url).memories) == 3
    assert gateway.requests[-1][2] == "Bearer right"
    monkeypatch.setenv(TOKEN, "a\nb")
    with pytest.raises(UnusableInput, match="contains characters that a token cannot have"):
        read_stored(gateway.url)


def _late(handler: Handler, _: dict[str, str]) -> None:
    time.sleep(1.5)
    handler.say({})


FAULTS: dict[str, tuple[Answer, type[Exception], str]] = {
    "500": (lambda handler, _: handler.say({}, 500), CannotMeasure, "/stats: fails (status 500)"),
    "403": (lambda handler, _: handler.say({}, 403), UnusableInput, "needs a token"),
    "404": (lambda handler, _: handler.say({}, 404), UnusableInput, "is not there (status 404)"),
    "302": (lambda handler, _: handler.say({}, 302), UnusableInput, "redirects (status 302)"),
    "half": (
        lambda handler, _: handler.say(b'{"total": 3, "by', **{"Content-Length": "400"}),
        CannotMeasure,
        "the response was truncated",
    ),
    "cut": (lambda handler, _: handler.say(b'{"total": 3, "by'), CannotMeasure, "is not JSON"),
    "page": (lambda handler, _: handler.say(b"<html>"), CannotMeasure, "is not JSON"),
    "list": (lambda handler, _: handler.say([]), CannotMeasure, "is not a JSON object"),
    "empty": (lambda handler, _: handler.say({}), UnusableInput, "has no field 'total'"),
    "late": (_late, CannotMeasure, "no answer in time"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_server_are_named(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    gateway.fault, kind, message = FAULTS[name]
    monkeypatch.setattr(client, "SECONDS", 0.5)
    with pytest.raises(kind) as error:
        read_stored(gateway.url)
    assert message in str(error.value)
    assert not kept_at(gateway.url).exists()


def test_read_stored_from_nobody(gateway: Gateway) -> None:
    gateway.shutdown()
    gateway.server_close()
    with pytest.raises(CannotMeasure, match="cannot be reached"):
        read_stored(gateway.url)


def test_store_that_changes_meanwhile_is_refused(gateway: Gateway) -> None:
    gateway.grown = 1
    with pytest.raises(CannotMeasure, match="counts 4 documents and returns 3; it changed meanwhile"):
        read_stored(gateway.url)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": 3}, r"docs\[0\]: field 'text': expected a string, found a number"),
        ({"created_at": "now"}, r"docs\[0\]: field 'created_at': expected seconds since 1970, found a string"),
        ({"importance": "high"}, None),
        ({"importance": []}, r"docs\[0\]: field 'importance': expected a number, found a list"),
    ],
)
def test_malformed_documents_are_named(gateway: Gateway, change: dict[str, Any], message: str | None) -> None:
    gateway.docs = [doc(1, **change)]
    if message is None:
        assert len(read_stored(gateway.url).memories) == 1
        return
    with pytest.raises(UnusableInput, match=message):
        read_stored(gateway.url)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://192.0.2.7:18888", "would cross the network unencrypted"),
        ("http://me:secret@127.0.0.1:1", "must be http://HOST:PORT"),
        ("http://127.0.0.1:1/other", "give the address of the gateway without a path"),
        ("http://127.0.0.1:port", "must be http://HOST:PORT"),
        ("http://", "must be http://HOST:PORT"),
    ],
)
def test_addresses_that_cannot_be_used(address: str, message: str) -> None:
    with pytest.raises(UnusableInput) as error:
        read_stored(address)
    assert message in str(error.value)
    assert "secret" not in str(error.value)


def test_answer_without_a_total_is_read_and_one_that_was_cut_is_not(gateway: Gateway) -> None:
    gateway.totals = False
    gateway.docs = [doc(number, "shop") for number in range(3)] + [doc(3, "home")]
    assert len(read_stored(gateway.url).memories) == 4
    gateway.most = 3
    # Two scopes, each of which fits.
    assert len(read_stored(gateway.url).memories) == 4
    gateway.most = 2
    with pytest.raises(CannotMeasure, match="counts 4 documents and returns 3"):
        read_stored(gateway.url)


def test_saved_answer_of_the_api_is_an_export(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "docs.json"
    path.write_text(json.dumps({"docs": gateway.docs, "total": 3}), "utf-8")
    assert read_stored(path).memories == read_stored(gateway.url).memories


def test_run_over_an_address_is_explained_without_the_server(gateway: Gateway, desk: Desk) -> None:
    gateway.docs = [doc(number, "shop", created_at=1) for number in range(3)]
    desk.say("later", ("shop", [("user", "when do pears ripen?"), ("assistant", "soon"), ("user", "pears")]))
    outcome = desk.run("rsclaw", "bm25", memories_from=gateway.url, conversation=("later",))
    rows = read_table(outcome.run.receipts("later")).to_pylist()
    assert {row["injected"] for row in rows} == {3}
    assert outcome.run.manifest.asked["memories_from"] == gateway.url
    asked = len(gateway.requests)
    assert explain(outcome.run, rows[0]["turn"], "rsclaw").recall.injected == 3
    assert len(gateway.requests) == asked
    kept_at(gateway.url).unlink()
    with pytest.raises(CannotMeasure, match="is not in the cache"):
        explain(outcome.run, rows[0]["turn"], "rsclaw")


def test_command_reads_an_address_and_names_an_absent_server(gateway: Gateway, desk: Desk, tmp_path: Path) -> None:
    desk.say("c", ("global", [("user", "pears")]))
    words = ["replay", str(desk.folder), "--format", "lab", "--arm", "rsclaw", "--embedder", "hashing"]
    ended = run_here(*words, "--memories-from", gateway.url, "--out", str(tmp_path / "out"))
    assert ended.returncode == 0, ended.stderr
    gateway.shutdown()
    gateway.server_close()
    ended = run_here(*words, "--memories-from", gateway.url, "--out", str(tmp_path / "other"))
    assert ended.returncode == 4
    assert "cannot be reached" in ended.stderr
    assert "Traceback" not in ended.stderr
