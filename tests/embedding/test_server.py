"""The endpoint that serves the lab's own vectors to systems in other processes."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.embedding.embedder import HashingEmbedder
from lab.embedding.endpoint import endpoint_named
from lab.embedding.server import EmbeddingServer

TEXTS = ["the kiln is at 900 degrees", "窯爐", "half a pair \ud83d"]


class Hashed:
    """Vectors of hashed words, as :class:`lab.embedding.vectors.Vectors` gives them: only of prepared texts."""

    dimension = HashingEmbedder.dimension

    def __init__(self) -> None:
        self.prepared: set[str] = set()
        self.down = False

    def prepare(self, texts: Sequence[str]) -> int:
        if self.down:
            raise CannotMeasure("no model")
        self.prepared |= set(texts)
        return len(texts)

    def of(self, texts: Sequence[str]) -> np.ndarray:
        assert self.prepared >= set(texts)
        return HashingEmbedder().encode(texts)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(Hashed(), "some-model")
    yield server
    server.close()


def send(url: str, body: Any, path: str = "/embeddings") -> tuple[int, Any]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request("POST", parts.path + path, body if isinstance(body, bytes) else json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def floats(answer: Any) -> np.ndarray:
    return np.asarray([row["embedding"] for row in answer["data"]], np.float32)


def test_server_gives_the_vectors_of_the_lab_bit_by_bit(server: EmbeddingServer) -> None:
    status, answer = send(server.url, {"model": "any", "input": TEXTS})
    assert status == 200
    assert np.array_equal(floats(answer), HashingEmbedder().encode(TEXTS))
    assert [row["index"] for row in answer["data"]] == [0, 1, 2]
    assert (server.requests, server.texts, answer["model"]) == (1, 3, "any")


@pytest.mark.parametrize("how", ["own", "field"])
def test_server_pads_with_zeros_to_the_dimension_asked_for(how: str) -> None:
    server = EmbeddingServer(Hashed(), "m", 1536 if how == "own" else None)
    _, answer = send(server.url, {"input": TEXTS} | ({"dimensions": 1536} if how == "field" else {}))
    server.close()
    found, expected = floats(answer), HashingEmbedder().encode(TEXTS)
    assert found.shape == (3, 1536)
    assert np.array_equal(found[:, :64], expected)
    assert not found[:, 64:].any()
    assert np.array_equal(found @ found.T, expected @ expected.T)
    assert server.dimension == (1536 if how == "own" else 64)


def test_server_without_room_for_the_vectors_is_refused() -> None:
    with pytest.raises(UnusableInput, match="dimension 32: the embedder's vectors have 64 numbers; give 64 or more"):
        EmbeddingServer(Hashed(), "m", 32)


def test_server_encodes_base64_as_little_endian_floats(server: EmbeddingServer) -> None:
    _, answer = send(server.url, {"input": TEXTS[0], "encoding_format": "base64"})
    found = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), "<f4")
    assert np.array_equal(found, HashingEmbedder().encode(TEXTS[:1])[0])


def test_server_serves_the_labs_own_endpoint_embedder(server: EmbeddingServer) -> None:
    embedder = endpoint_named(f"some-model@{server.url}")
    assert np.allclose(embedder.encode(TEXTS[:2]), HashingEmbedder().encode(TEXTS[:2]), atol=1e-6)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "Expecting"),
        (b"\xff", "utf-8"),
        ([], "expected an object"),
        ({}, "'input': expected a text or a list of texts"),
        ({"input": []}, "'input'"),
        ({"input": [1, 2]}, "'input'"),
        ({"input": "a", "dimensions": 32}, "dimension 32: the embedder's vectors have 64 numbers; give 64 or more"),
        ({"input": "a", "dimensions": "many"}, "'dimensions': expected a whole number"),
        ({"input": "a", "encoding_format": "int8"}, "'encoding_format': expected float or base64"),
    ],
)
def test_server_refuses_a_bad_request_with_its_reason(server: EmbeddingServer, body: Any, message: str) -> None:
    status, answer = send(server.url, body)
    assert status == 400
    assert message in answer["error"]["message"]
    assert (server.requests, server.texts) == (0, 0)


def test_server_answers_404_elsewhere_and_413_without_a_length(server: EmbeddingServer) -> None:
    assert send(server.url, {"input": "a"}, "/chat/completions")[0] == 404
    assert send(f"{server.url.rpartition('/')[0][:-3]}000/v1", {"input": "a"})[0] == 404
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    connection.putrequest("POST", urlsplit(server.url).path + "/embeddings")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(("fault", "status"), [("embedder_down", 503), ("input_too_long", 400)])
def test_server_under_an_injected_fault_fails_as_a_provider(server: EmbeddingServer, fault: str, status: int) -> None:
    server.faults = frozenset({fault, "fts_error"})
    assert send(server.url, {"input": "a"})[0] == status
    server.faults = frozenset({"fts_error"})
    assert send(server.url, {"input": "a"})[0] == 200
    assert server.texts == 1


def test_server_keeps_the_error_of_the_labs_embedder() -> None:
    source = Hashed()
    source.down = True
    server = EmbeddingServer(source, "m")
    try:
        status, answer = send(server.url, {"input": "a"})
        assert (status, answer["error"]["message"]) == (500, "the lab's embedder failed")
        assert str(server.error) == "no model"
    finally:
        server.close()


def test_servers_share_one_thread_and_leave_none_behind() -> None:
    before = set(threading.enumerate())
    one, two = EmbeddingServer(Hashed(), "a"), EmbeddingServer(Hashed(), "b")
    assert urlsplit(one.url).port == urlsplit(two.url).port
    assert [thread.name for thread in set(threading.enumerate()) - before] == ["embedding-server"]
    send(one.url, {"input": "a"})
    one.close()
    one.close()
    assert send(one.url, {"input": "a"})[0] == 404
    assert send(two.url, {"input": "a"})[0] == 200
    # A client that keeps its connection does not keep the server.
    kept = http.client.HTTPConnection(urlsplit(two.url).netloc, timeout=60)
    kept.request("POST", urlsplit(two.url).path + "/embeddings", json.dumps({"input": "a"}))
    kept.getresponse().read()
    two.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "embedding-server"]
    assert (one.texts, two.texts) == (1, 2)
    with pytest.raises(OSError, match=r"."):
        send(two.url, {"input": "a"})
    kept.close()
