"""Responses of servers that differ from OpenAI's: encodings, order, and refusals found within two requests."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lab.base.errors import CannotMeasure
from lab.embedding import endpoint as endpoint_module
from lab.embedding import http
from lab.embedding.endpoint import (
    NO_EMBEDDINGS,
    NO_MODEL,
    NO_QUOTA,
    TOO_LONG,
    TOO_MANY,
    BadResponse,
    EndpointEmbedder,
    NoOrder,
    TextRefused,
    endpoint_named,
    reason_in,
    vectors_in,
)
from lab.embedding.http import Answer, NoAnswer
from lab.replay.doctor import LONG, SENTENCE, _embedder

Reply = Callable[[list[str]], "Answer | Exception"]
SECRET = "the vault opens at nine"


def vector(text: str) -> list[float]:
    """Return a vector of length 1 that differs between texts."""
    angle = sum(text.encode()) % 628 / 100
    return [float(np.cos(angle)), float(np.sin(angle))]


def vectors(texts: list[str]) -> Answer:
    data = [{"index": at, "embedding": vector(text)} for at, text in enumerate(texts)]
    return Answer(200, json.dumps({"data": data}).encode(), None)


def refusal(status: int, message: str = "") -> Answer:
    return Answer(status, json.dumps({"error": {"message": message}}).encode(), None)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reply], tuple[EndpointEmbedder, list[list[str]]]]:
    """Serve replies in this process; return an embedder and the texts of each request. Nobody waits."""

    def serve(reply: Reply) -> tuple[EndpointEmbedder, list[list[str]]]:
        requests: list[list[str]] = []

        def post(_: str, payload: bytes, *__: Any) -> Answer:
            texts = json.loads(payload)["input"]
            requests.append(texts)
            answer = reply(texts)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(http, "post", post)
        monkeypatch.setattr(endpoint_module.time, "sleep", lambda _: None)
        return endpoint_named("m@http://127.0.0.1:1/v1"), requests

    return serve


SAID = [
    (500, "input (537 tokens) is too large to process. increase the physical batch size (current batch size: 512)"),
    (400, "the request exceeds the available context size, try increasing it"),
    (400, "This model's maximum context length is 512 tokens. However, you requested 900 tokens in the input."),
    (400, "the input length exceeds the context length"),
    (413, "Input validation error: `inputs` must have less than 512 tokens. Given: 621"),
    (400, "litellm.ContextWindowExceededError: OpenAIException"),
    (500, "Trying to keep the first 900 tokens when the context overflows, context length is 512"),
    (422, ""),
    (500, ""),
]


@pytest.mark.parametrize(("status", "message"), SAID)
@pytest.mark.parametrize("others", [0, 6])
def test_too_long_text_is_named_within_two_requests(served: Any, status: int, message: str, others: int) -> None:
    long = f"{SECRET} " * 60
    embedder, requests = served(
        lambda texts: refusal(status, f"{message} {texts}") if max(map(len, texts)) > 200 else vectors(texts)
    )
    with pytest.raises(TextRefused) as caught:
        embedder.encode([*(f"short {number}" for number in range(others)), long])
    said = str(caught.value)
    assert len(requests) <= 2
    assert f"status {status}" in said
    assert f"text {others + 1} of {others + 1}, of {len(long):,} characters" in said
    assert "too long" in said
    assert "vault" not in said
    assert caught.value.text == long
    assert pickle.loads(pickle.dumps(caught.value)).text == long


@pytest.mark.parametrize("most", [1, 3, 8, 20])
@pytest.mark.parametrize(
    ("status", "message"),
    [(413, "batch size 32 > maximum allowed batch size 8"), (400, "array too long, at most 8 items"), (500, "")],
)
def test_server_of_smaller_requests_gets_smaller_ones(served: Any, most: int, status: int, message: str) -> None:
    embedder, requests = served(lambda texts: refusal(status, message) if len(texts) > most else vectors(texts))
    heard: list[str] = []
    embedder.announce = heard.append
    texts = [f"text {number}" for number in range(40)]
    found = embedder.encode(texts)
    assert np.allclose(found, [vector(text) for text in texts], atol=1e-6)
    assert "a request from now on" in heard[0]
    before = len(requests)
    embedder.encode(texts)
    assert all(len(texts) <= most for texts in requests[before:])


def test_refused_short_text_among_longer_ones_is_found(served: Any) -> None:
    texts = [*(f"a longer text {number}" for number in range(9)), "bad"]
    embedder, _ = served(lambda sent: refusal(400) if "bad" in sent else vectors(sent))
    with pytest.raises(TextRefused, match=r"text 10 of 10, of 3 characters"):
        embedder.encode(texts)


@pytest.mark.parametrize(
    ("status", "message", "said"),
    [
        (401, "", "requires a key"),
        (403, "", "requires a key"),
        (404, "", "has no /embeddings, or no model 'm'"),
        (404, 'model "m" not found, try pulling it first', "no model 'm'"),
        (400, "The model `m` does not exist", "has no model 'm' (status 400)"),
        (400, "Model m is not loaded", "has no model 'm'"),
        (501, "This server does not support embeddings. Start it with `--embeddings`", "start the server for embed"),
        (500, "this model does not support embeddings", "start the server for embeddings"),
        (429, "You exceeded your current quota, please check your plan: insufficient_quota", "the quota is used up"),
        (402, "", "the quota is used up"),
        (307, "", "redirects to another address"),
    ],
)
def test_fault_of_the_address_is_found_in_one_request(served: Any, status: int, message: str, said: str) -> None:
    embedder, requests = served(lambda _: refusal(status, message))
    with pytest.raises(CannotMeasure) as caught:
        embedder.encode([SECRET, "b"])
    assert said in str(caught.value)
    assert "vault" not in str(caught.value)
    assert len(requests) == 1


@pytest.mark.parametrize(
    "fault", [refusal(429), refusal(503, "Loading model"), refusal(502), NoAnswer("cannot be reached (reset)")]
)
def test_transient_fault_is_retried(served: Any, fault: Answer | Exception) -> None:
    left = [fault, fault]
    embedder, requests = served(lambda texts: left.pop() if left else vectors(texts))
    assert embedder.encode(["a", "b"]).shape == (2, 2)
    assert len(requests) == 3


def test_server_that_breaks_down_later_is_retried(served: Any) -> None:
    left: list[Answer] = []
    embedder, requests = served(lambda texts: left.pop() if left else vectors(texts))
    embedder.encode(["a"])
    left += [refusal(500)] * 5
    embedder.encode(["b"])
    assert len(requests) == 7


def response(*rows: dict[str, Any]) -> bytes:
    return json.dumps({"data": rows}).encode()


def encoded(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.mark.parametrize(
    "indices", [[0, 1, 2], [1, 2, 3], ["0", "1", "2"], [None, None, None]], ids=["0", "1", "text", "none"]
)
def test_vectors_in_array_order_or_by_index(indices: list[Any]) -> None:
    rows = [{"index": index, "embedding": encoded(at, 0.5)} for at, index in enumerate(indices)]
    turned = rows if indices[0] is None else rows[::-1]
    assert vectors_in(response(*turned), 3).tolist() == [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5]]
    without = [{name: value for name, value in row.items() if value is not None} for row in turned]
    assert vectors_in(response(*without), 3).tolist() == [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5]]


@pytest.mark.parametrize("indices", [[0, 0, 0], [0, None, 2], [0, 1, 1], [2, 3, 4], [-1, 0, 1], [0, 1, 2.0]])
def test_vectors_without_an_order_are_asked_for_one_at_a_time(served: Any, indices: list[Any]) -> None:
    def reply(texts: list[str]) -> Answer:
        rows = [{"index": index, "embedding": vector(text)} for index, text in zip(indices, texts, strict=False)]
        return Answer(200, response(*rows[::-1]), None)

    with pytest.raises(NoOrder, match="'index' is not each of 0 to 2 once"):
        vectors_in(reply(["a", "b", "c"]).body, 3)
    embedder, requests = served(reply)
    assert np.allclose(embedder.encode(["a", "b", "c"]), [vector(text) for text in "abc"], atol=1e-6)
    assert [len(texts) for texts in requests] == [3, 1, 1, 1]


@pytest.mark.parametrize("bad", ["", "AAA", "####", "AAAA", None, [], [None], ["1"], [[1.0]], {"a": 1}])
def test_vectors_in_bad_vector_is_named_by_its_place(bad: Any) -> None:
    with pytest.raises(BadResponse) as caught:
        vectors_in(response({"embedding": [1.0]}, {"embedding": bad}), 2)
    assert caught.value.place == 1


def test_endpoint_unusable_vector_names_its_text(served: Any) -> None:
    embedder, _ = served(lambda _: Answer(200, response({"embedding": [1.0]}, {"embedding": [float("nan")]}), None))
    with pytest.raises(TextRefused, match=r"not finite, for text 2 of 2, of 23 characters$"):
        embedder.encode(["a", SECRET])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error":"input is too large to process. increase the physical batch size"}', TOO_LONG),
        (b'{"error":{"code":"context_length_exceeded"}}', TOO_LONG),
        (b'{"error":{"type":"exceed_context_size_error"}}', TOO_LONG),
        (b"<html>413 Request Entity Too Large</html>", TOO_MANY),
        (b'{"error":"batch size 33 > maximum allowed batch size 32"}', TOO_MANY),
        (b'{"error":{"code":"insufficient_quota"}}', NO_QUOTA),
        (b'{"error":{"code":"model_not_found"}}', NO_MODEL),
        (b'{"error":"model not loaded"}', NO_MODEL),
        (b'{"error":"This server does not support embeddings"}', NO_EMBEDDINGS),
        (b"", None),
        (b"\xff\xfe", None),
        (b'{"error":"internal error"}', None),
    ],
)
def test_reason_in_words_of_servers(body: bytes, reason: str | None) -> None:
    assert reason_in(body) == reason


def raw_deflate(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


DATA = b'{"data": []}' * 1000


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(DATA, mtime=0)),
        ("GZIP", gzip.compress(DATA[:100], mtime=0) + gzip.compress(DATA[100:], mtime=0)),
        ("x-gzip", gzip.compress(DATA, mtime=0)),
        ("deflate", zlib.compress(DATA)),
        ("deflate", raw_deflate(DATA)),
        ("gzip, deflate", zlib.compress(gzip.compress(DATA, mtime=0))),
        ("identity", DATA),
        ("", DATA),
    ],
)
def test_content_encodings_are_decoded(encoding: str, body: bytes) -> None:
    assert http._decoded(body, encoding) == DATA


@pytest.mark.parametrize(
    ("encoding", "body", "said"),
    [
        ("br", DATA, "neither gzip nor deflate"),
        ("gzip", DATA, "cannot be decoded"),
        ("gzip", gzip.compress(DATA, mtime=0)[:-9], "the response was truncated"),
    ],
)
def test_bad_content_encoding_is_no_answer(encoding: str, body: bytes, said: str) -> None:
    with pytest.raises(NoAnswer, match=said):
        http._decoded(body, encoding)


def test_decompressed_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 1000)
    with pytest.raises(NoAnswer, match="returned more than"):
        http._decoded(gzip.compress(b"0" * 1_000_000), "gzip")


def test_doctor_sends_a_short_and_a_long_text_and_names_the_bad_one(served: Any) -> None:
    name = "openai:m@http://127.0.0.1:1/v1"
    _, requests = served(vectors)
    found = _embedder(name)
    assert (found.ok, requests) == (True, [[SENTENCE, LONG]])
    assert len(LONG) == 6000
    served(lambda texts: refusal(500, "too large to process") if LONG in texts else vectors(texts))
    failed = _embedder(name)
    assert not failed.ok
    assert "the long one of two texts" in failed.detail
    assert "text 2 of 2, of 6,000 characters" in failed.detail
    served(lambda texts: Answer(200, response(*[{"embedding": [1.0, 0.0]}] * len(texts)), None))
    assert "one vector for two texts" in _embedder(name).detail
