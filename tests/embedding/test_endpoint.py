"""An OpenAI-compatible endpoint on loopback: its vectors, its faults, and the requests that it receives."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.embedding import endpoint as endpoint_module
from lab.embedding.embedder import SentenceTransformerEmbedder, embedder_key
from lab.embedding.endpoint import EndpointEmbedder
from lab.embedding.vectors import Recomputed, Vectors, embedder_named
from tests.embedding.conftest import Endpoint

TEXTS = [
    "dark mode",
    "深色模式",
    "",
    "lone \ud83d",
    "naïve",
    *(f"fact {number} on the port" for number in range(29)),
]
SECRET = "sk-1a2b3c4d5e6f7g8h"
HTML = "<!doctype html><html><body>It works!</body></html>"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the durations of waits instead of waiting, and return them."""
    waits: list[float] = []
    monkeypatch.setattr(endpoint_module.time, "sleep", waits.append)
    return waits


def test_endpoint_serving_the_model_gives_its_vectors_bit_for_bit(
    endpoint: Endpoint, model: SentenceTransformerEmbedder
) -> None:
    found = Vectors(embedder_named(endpoint.named()))
    assert found.prepare(TEXTS) == len(TEXTS)
    assert found.of(TEXTS).tobytes() == model.encode(TEXTS).tobytes()
    state = endpoint.state()
    assert (state["requests"], state["texts"], state["largest"]) == (2, len(TEXTS), 32)
    assert state["payload"] == {"model": "all-MiniLM-L6-v2", "encoding_format": "float"}
    assert set(state["paths"]) == {"/v1/embeddings"}


def test_vectors_once_cached_need_no_endpoint_and_no_key(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_EMBEDDER_KEY", SECRET)
    first = Vectors(embedder_named(endpoint.named()))
    first.prepare(TEXTS)
    assert endpoint.state()["keys"] == [f"Bearer {SECRET}"] * 2
    monkeypatch.delenv("LAB_EMBEDDER_KEY")
    again = Vectors(embedder_named(endpoint.named()))
    assert (again.prepare(TEXTS), again.dimension, again.embedder.dimension) == (0, 384, 384)
    assert again.of(TEXTS).tobytes() == first.of(TEXTS).tobytes()
    assert endpoint.state()["requests"] == 0


def test_endpoint_vectors_are_normalised_and_recorded(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.fail({"scale": 3.0}, {"scale": 3.0})
    vectors = Vectors(embedder_named(endpoint.named()))
    vectors.prepare(TEXTS)
    norms = np.linalg.norm(vectors.of(TEXTS).astype(np.float64), axis=1)
    np.testing.assert_allclose(norms, 1, atol=1e-6)
    (about,) = (tmp_path / "cache" / "vectors").rglob("about.json")
    told = json.loads(about.read_text())
    assert (told["dimension"], told["normalised"], told["url"]) == (384, False, endpoint.url)


def test_endpoint_requests_are_split_by_characters(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "MOST_CHARACTERS", 60)
    embedder_named(endpoint.named()).encode(["word " * 5, "word " * 6, "word " * 7])
    state = endpoint.state()
    assert (state["requests"], state["largest"]) == (2, 2)


def test_endpoint_settings_are_sent_but_not_in_the_identity(endpoint: Endpoint) -> None:
    given = embedder_named(endpoint.named("?dimensions=384&batch=7&timeout=5"))
    assert isinstance(given, EndpointEmbedder)
    given.encode(TEXTS[:8])
    state = endpoint.state()
    assert (state["requests"], state["largest"], state["payload"]["dimensions"]) == (2, 7, 384)
    bare = embedder_named(endpoint.named("?batch=9"))
    assert embedder_key(bare) == embedder_key(embedder_named(endpoint.named())) != embedder_key(given)


def test_endpoint_role_prompts_give_different_vectors(endpoint: Endpoint, model: SentenceTransformerEmbedder) -> None:
    vectors = Vectors(embedder_named(endpoint.named("?query_prompt=query: &document_prompt=passage: ")))
    assert vectors.prepare(["port"], role="query") == vectors.prepare(["port"], role="document") == 1
    assert vectors.of(["port"], "query").tobytes() == model.encode(["query: port"]).tobytes()
    assert vectors.of(["port"], "document").tobytes() == model.encode(["passage: port"]).tobytes()
    same = Vectors(embedder_named(endpoint.named("?query_prompt=passage: &document_prompt=passage: ")))
    assert (same.prepare(["port"], role="query"), same.prepare(["port"], role="document")) == (0, 0)


def test_endpoint_pickled_embedder_keeps_its_dimension(endpoint: Endpoint) -> None:
    embedder = embedder_named(endpoint.named())
    with pytest.raises(CannotMeasure, match="unknown until its first response"):
        _ = embedder.dimension
    Vectors(embedder).prepare(["port"])
    assert pickle.loads(pickle.dumps(embedder_named(endpoint.named()))).dimension == 384


@pytest.mark.parametrize(
    ("fault", "waits", "said"),
    [
        ({"status": 429, "headers": {"Retry-After": "3"}}, [3.0, 3.0], "too many requests"),
        ({"status": 429}, [0.5, 1.0], "too many requests"),
        ({"status": 503, "headers": {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}}, [0.5, 1.0], "status 503"),
        ({"status": 429, "headers": {"Retry-After": "0"}}, [0.5, 1.0], "too many requests"),
        ({"status": 500}, [0.5, 1.0], "fails (status 500)"),
        ({"missing": 9}, [0.5, 1.0], "the response was truncated"),
    ],
    ids=["retry-after", "backoff", "a date", "no wait", "500", "cut connection"],
)
def test_endpoint_temporary_failures_are_retried(
    endpoint: Endpoint, quick: list[float], fault: dict[str, Any], waits: list[float], said: str
) -> None:
    endpoint.fail(fault, fault)
    heard: list[str] = []
    vectors = Vectors(embedder_named(endpoint.named()))
    assert vectors.prepare(["port"], heard.append) == 1
    assert quick == waits
    assert endpoint.state()["requests"] == 3
    assert sum(said in line for line in heard) == 2
    assert heard[1].startswith(f"{endpoint.named()}: ")


def test_endpoint_late_response_is_retried(endpoint: Endpoint) -> None:
    endpoint.fail({}, {"sleep": 1.6})
    embedder = embedder_named(endpoint.named("?timeout=1"))
    embedder.encode(["host"])
    assert embedder.encode(["port"]).shape == (1, 384)
    assert endpoint.state()["requests"] == 3


def test_endpoint_without_any_response_fails_after_one_timeout(endpoint: Endpoint, quick: list[float]) -> None:
    endpoint.fail({"sleep": 3}, {"sleep": 3})
    with pytest.raises(CannotMeasure, match=r"no response within 1 second; .* add \?timeout=SECONDS"):
        embedder_named(endpoint.named("?timeout=1")).encode(["port"])
    assert quick == []


def test_endpoint_permanent_failures_end_after_all_attempts(endpoint: Endpoint, quick: list[float]) -> None:
    endpoint.fail(*[{"status": 502}] * 20)
    with pytest.raises(CannotMeasure, match=r"fails \(status 502\), 8 times in a row; run the same command again$"):
        embedder_named(endpoint.named()).encode(["port"])
    assert quick == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    endpoint.fail({"status": 429, "headers": {"Retry-After": "86400"}})
    with pytest.raises(
        CannotMeasure, match="1 time in a row, and requests a wait of 86400 s; run the same command again"
    ):
        embedder_named(endpoint.named()).encode(["port"])


def test_endpoint_unreachable_address_fails_soon(quick: list[float]) -> None:
    with pytest.raises(CannotMeasure, match=r"cannot be reached \(Connection refused\), 3 times in a row"):
        embedder_named("openai:m@http://127.0.0.1:9/v1").encode(["port"])
    assert quick == [0.5, 1.0]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"raw": HTML}, "returned HTML, not JSON; give the base URL of an API"),
        ({"raw": "OK"}, "returned something that is not JSON"),
        ({"cut": True}, "returned something that is not JSON"),
        ({"raw": "[]"}, "without a list 'data' of vectors"),
        ({"raw": '{"data": [1, 2]}'}, "without a list 'data' of vectors"),
        ({"short": True}, "returned 1 vector for 2 texts"),
        ({"uneven": True}, "vectors of different dimensions"),
        ({"first": "nan"}, "returned numbers that are not finite"),
        ({"first": "inf"}, "returned numbers that are not finite"),
        ({"first": "0"}, "returned a vector whose length is 0"),
        ({"raw": json.dumps({"data": [{"index": at, "embedding": ["1"]} for at in (0, 1)]})}, "not a list of numbers"),
        ({"raw": json.dumps({"data": [{"index": at, "embedding": [None]} for at in (0, 1)]})}, "not a list of numbers"),
        ({"status": 401}, "requires a key, and LAB_EMBEDDER_KEY is not set (status 401)"),
        ({"status": 403}, "OPENAI_API_KEY is only sent to https://api.openai.com"),
        ({"status": 404}, "has no /embeddings, or no model 'all-MiniLM-L6-v2' (status 404)"),
        ({"status": 307, "headers": {"Location": "/elsewhere"}}, "another address (status 307), which is not followed"),
        ({"status": 418}, "fails (status 418)"),
    ],
    ids=lambda value: json.dumps(value)[:30] if isinstance(value, dict) else "",
)
def test_endpoint_invalid_responses_give_one_line(
    endpoint: Endpoint, quick: list[float], tmp_path: Path, fault: dict[str, Any], said: str
) -> None:
    endpoint.fail(fault)
    with pytest.raises(CannotMeasure) as caught:
        Vectors(embedder_named(endpoint.named())).prepare(["private", "secret"])
    text = str(caught.value)
    assert text.startswith(f"{endpoint.named()}: ")
    assert said in text
    assert "\n" not in text
    assert not any(word in text for word in ("private", "secret", "/elsewhere"))
    assert (endpoint.state()["requests"], quick) == (1, [])
    assert list((tmp_path / "cache" / "vectors").iterdir()) == []


def test_endpoint_changed_dimension_is_refused(endpoint: Endpoint) -> None:
    first = Vectors(embedder_named(endpoint.named()))
    first.prepare(["port"])
    endpoint.fail({"dimension": 200})
    later = Vectors(embedder_named(endpoint.named()))
    with pytest.raises(CannotMeasure, match="returned vectors of 200 numbers, but earlier ones had 384"):
        later.prepare(["port", "host"])
    assert later.prepare(["port", "host"]) == 1
    with pytest.raises(CannotMeasure, match="returned vectors of 384 numbers, but 256 were requested"):
        embedder_named(endpoint.named("?dimensions=256")).encode(["port"])


def test_endpoint_vectors_before_a_failure_are_kept(endpoint: Endpoint) -> None:
    endpoint.fail({}, {}, {"status": 401})
    vectors = Vectors(embedder_named(endpoint.named("?batch=4")))
    with pytest.raises(CannotMeasure, match="requires a key"):
        vectors.prepare(TEXTS)
    assert Vectors(embedder_named(endpoint.named("?batch=4"))).prepare(TEXTS) == len(TEXTS) - 8


def test_endpoint_requests_before_a_refused_one_are_kept(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "MOST_CHARACTERS", 110)
    name, texts = endpoint.named("?document_prompt=passage: "), [f"{number} {'word ' * 8}" for number in range(6)]
    endpoint.fail({}, {}, {"status": 413}, {"status": 413})
    with pytest.raises(CannotMeasure, match=r"refuses \(status 413\) text 1 of 2, of 51 characters"):
        Vectors(embedder_named(name)).prepare(texts)
    state = endpoint.state()
    assert (state["requests"], state["largest"]) == (4, 2)
    assert Vectors(embedder_named(name)).prepare(texts) == 2
    assert endpoint.state()["requests"] == 1


def test_recompute_endpoint_compares_with_tolerance(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = Vectors(embedder_named(endpoint.named()))
    vectors.prepare(["one", "two"])
    encode = EndpointEmbedder.encode

    def off(self: EndpointEmbedder, *given: Any) -> np.ndarray:
        return encode(self, *given) + np.float32(1e-5)

    monkeypatch.setattr(EndpointEmbedder, "encode", off)
    assert vectors.recompute(["one", "two", "three"]) == Recomputed(2, 1, {})
    monkeypatch.setattr(EndpointEmbedder, "encode", lambda self, texts, role: encode(self, texts[::-1], role))
    assert list(vectors.recompute(["one", "two"]).differing.values()) == [2]


@pytest.mark.parametrize("set_up", [{"LAB_EMBEDDER_KEY": SECRET}, {"LAB_EMBEDDER_KEY": f" {SECRET}\n"}])
def test_endpoint_refused_key_is_named_but_not_shown(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, set_up: dict[str, str]
) -> None:
    for name, value in set_up.items():
        monkeypatch.setenv(name, value)
    endpoint.fail({"status": 401})
    with pytest.raises(CannotMeasure, match=r"refuses the key in LAB_EMBEDDER_KEY \(status 401\)$") as caught:
        embedder_named(endpoint.named()).encode(["port"])
    assert SECRET not in str(caught.value)
    assert endpoint.state()["keys"] == [f"Bearer {SECRET}"]


def test_endpoint_openai_key_is_only_sent_to_openai(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    embedder_named(endpoint.named()).encode(["port"])
    assert endpoint.state()["keys"] == [None]
    key_name: Callable[[str], str | None] = endpoint_module._key_name
    assert key_name("https://api.openai.com/v1") == "OPENAI_API_KEY"
    for other in ("http://api.openai.com/v1", "https://api.openai.com.example.org/v1", "https://example.org/v1"):
        assert key_name(other) is None
    monkeypatch.setenv("LAB_EMBEDDER_KEY", SECRET)
    assert key_name("https://api.openai.com/v1") == key_name("https://example.org") == "LAB_EMBEDDER_KEY"


@pytest.mark.parametrize("host", ["192.0.2.1:80", "example.org", "localhost.example.org"])
def test_endpoint_key_is_never_sent_unencrypted(monkeypatch: pytest.MonkeyPatch, quick: list[float], host: str) -> None:
    sent: list[str] = []
    monkeypatch.setattr("lab.embedding.http.post", lambda url, *_: sent.append(url))
    monkeypatch.setenv("LAB_EMBEDDER_KEY", SECRET)
    with pytest.raises(UnusableInput, match="LAB_EMBEDDER_KEY would cross the network unencrypted; give an https://"):
        embedder_named(f"openai:m@http://{host}/v1").encode(["port"])
    assert (sent, quick) == ([], [])


@pytest.mark.parametrize("base", ["https://example.org", "http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1"])
def test_endpoint_key_is_sent_over_https_and_locally(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    monkeypatch.setenv("LAB_EMBEDDER_KEY", SECRET)
    found = embedder_named(f"openai:m@{base}/v1")
    assert isinstance(found, EndpointEmbedder)
    assert found._headers() == {"Authorization": f"Bearer {SECRET}"}


@pytest.mark.parametrize("key", [f"{SECRET}\nX-Other: 1", f"{SECRET} {SECRET}", f"{SECRET}é"])
def test_endpoint_invalid_key_is_not_shown(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("LAB_EMBEDDER_KEY", key)
    with pytest.raises(CannotMeasure) as caught:
        embedder_named(endpoint.named()).encode(["port"])
    assert (
        str(caught.value) == "LAB_EMBEDDER_KEY: contains characters that a key cannot have; set it again, or unset it"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openai", "needs a model and the base URL of an API: openai:MODEL@URL"),
        ("openai:", "openai:MODEL@URL"),
        ("openai:small", "openai:MODEL@URL"),
        ("openai:@http://127.0.0.1/v1", "openai:MODEL@URL"),
        ("openai:small@127.0.0.1:80/v1", "openai:MODEL@URL"),
        ("openai:small@ftp://127.0.0.1/v1", "must begin with http:// or https://"),
        ("openai:small@http:///v1", "has no host"),
        ("openai:small@http://127.0.0.1:port/v1", "is not a URL"),
        (f"openai:small@https://me:{SECRET}@127.0.0.1/v1", "put the key into LAB_EMBEDDER_KEY"),
        (f"openai:small@https://{SECRET}@127.0.0.1/v1", "put the key into LAB_EMBEDDER_KEY"),
        (f"openai:small@https://127.0.0.1/v1?api_key={SECRET}", "settings after '?' are dimensions, query_prompt"),
        (f"openai:small@https://127.0.0.1/v1?{SECRET}=", "settings after '?' are dimensions, query_prompt"),
        (f"openai:small@https://127.0.0.1/v1#{SECRET}", "a part after '#'"),
        ("openai:small@http://127.0.0.1/v1?dimensions=many", "'dimensions' must be an integer from 1 to 65536"),
        ("openai:small@http://127.0.0.1/v1?batch=0", "'batch' must be an integer from 1 to 256"),
        ("openai:small@http://127.0.0.1/v1?batch=1&batch=2", "each once"),
        (f"http://me:{SECRET}@127.0.0.1/v1", "unknown kind of embedder 'http:'; known: all-MiniLM-L6-v2, FOLDER"),
        (f"openai:m@//user:{SECRET}@host:80/v1", "must begin with http:// or https://"),
        (f"openai:m@https//user:{SECRET}@host/v1", "openai:MODEL@URL"),
        (f"openai:m@//user:{SECRET}@http://host/v1?batch=0", "embedder openai:m: "),
        (f"openai:m@user:{SECRET}@http://host/v1?key=0", "embedder openai:m: "),
        (f"//user:{SECRET}@host/v1", "unknown kind of embedder"),
        (f"https//user:{SECRET}@host/v1", "unknown kind of embedder"),
        (f"{SECRET}@host/v1", "unknown kind of embedder"),
        (f"st://user:{SECRET}@host/v1", "no such folder"),
        (f"st:m@host?key={SECRET}", "no such folder"),
        ("ollama:nomic", "unknown kind of embedder 'ollama:'"),
        ("st:nowhere", "no such folder"),
        ("st:.?batch=3", "settings after '?' are query_prompt, document_prompt"),
    ],
)
def test_endpoint_invalid_names_are_refused_without_secrets(name: str, said: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        embedder_named(name)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
    assert issubclass(type(caught.value), LabError)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "model", "url"),
    [
        ("openai:m@http://127.0.0.1:11434/v1/", "m", "http://127.0.0.1:11434/v1"),
        ("openai:m@http://LocalHost/v1/embeddings", "m", "http://localhost/v1"),
        ("openai:qwen3-embedding:0.6b@http://[::1]:80/v1", "qwen3-embedding:0.6b", "http://[::1]:80/v1"),
        ("openai:@cf/baai/bge@https://example.org/ai/v1", "@cf/baai/bge", "https://example.org/ai/v1"),
        ("openai:m@https://example.org?document_prompt=a@https://b", "m", "https://example.org"),
    ],
)
def test_endpoint_named_parses_model_and_url(name: str, model: str, url: str) -> None:
    found = embedder_named(name)
    assert isinstance(found, EndpointEmbedder)
    assert (found.model, found.url) == (model, url)
    assert found.identity()["url"] == url
