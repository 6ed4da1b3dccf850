"""An embedder behind an OpenAI-compatible ``/embeddings`` endpoint: OpenAI, Ollama, vLLM, llama.cpp and others.

It differs from a local model in three ways. The last bits of a vector may vary between calls, so the first response is
cached and reused. The number of dimensions is only known after the first response. And there is an API key, which is
read from the environment for each request and never stored.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from lab.embedding.cache import ABOUT, cache_folder
from lab.embedding.embedder import DOCUMENT, Embedder, Prompts, Role, role_key, roles_of, settings_in
from lab.errors import CannotMeasure, UnusableInput
from lab.files import read_json
from lab.formatting import counted

if TYPE_CHECKING:
    import numpy as np

    from lab.embedding.http import Answer

KEY, OPENAI_KEY = "LAB_EMBEDDER_KEY", "OPENAI_API_KEY"
OPENAI_HOST = "api.openai.com"
SETTINGS = ("dimensions", "query_prompt", "document_prompt", "batch", "timeout")
# Default and largest number of texts, and largest number of characters, in one request. Servers accept these sizes, and
# a failed request loses little work.
BATCH, MOST_BATCH, MOST_CHARACTERS = 32, 256, 60_000
# Seconds: timeout of a request, first wait before a retry (doubled each time), longest wait, and total of all retries.
TIMEOUT, FIRST_WAIT, LONGEST_WAIT, PATIENCE = 60, 0.5, 32.0, 180.0
ATTEMPTS = 8
# Attempts at an endpoint that has never answered, because its address is probably wrong.
FIRST_ATTEMPTS = 3
RETRIED = (408, 409, 425, 429)
# The tolerance for the length of a normalized vector: the rounding of float32.
UNIT = 1e-6
_SPLIT = re.compile(r"@(?=[A-Za-z][A-Za-z0-9+.-]*:)")


class EndpointEmbedder:
    """A model behind an endpoint.

    ``announce`` is called with a message before each wait. With ``cached_only``, no request is sent.
    """

    def __init__(self, model: str, url: str, settings: Mapping[str, str]) -> None:
        """``url`` is the base URL of the API; ``settings`` has keys of :data:`SETTINGS`."""
        self.model, self.url = model, url
        what = f"embedder openai:{model.partition('@')[0]}"
        self.prompts = Prompts().changed(settings)
        self.dimensions = _integer(settings, "dimensions", None, 1, 1 << 16, what)
        self.batch: int = _integer(settings, "batch", BATCH, 1, MOST_BATCH, what)
        self.timeout: int = _integer(settings, "timeout", TIMEOUT, 1, 3600, what)
        self.announce: Callable[[str], None] | None = None
        self.cached_only = False
        self._learned: dict[str, Any] = {}
        self._has_answered = False

    def __str__(self) -> str:
        return f"openai:{self.model}@{self.url}"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process: with the learned properties, without ``announce``."""
        return {**self.__dict__, "announce": None, "_learned": self.learned()}

    @property
    def dimension(self) -> int:
        """The number of dimensions in the first response of this or an earlier run."""
        dimension = self.learned().get("dimension")
        if dimension is None:
            raise CannotMeasure(f"{self}: the dimension of its vectors is unknown until its first response")
        return int(dimension)

    def identity(self) -> dict[str, Any]:
        """Return model, URL, requested dimensions and prompts; at another URL, the same name may be another model."""
        return {
            "kind": "openai",
            "model": self.model,
            "url": self.url,
            "dimensions": self.dimensions,
            **self.prompts.identity(),
            "normalize": True,
            "dtype": "float32",
        }

    def learned(self) -> dict[str, Any]:
        """Return the ``dimension`` of the first response, and whether its vectors were ``normalised``.

        Empty before the first response. The values of earlier runs are read from the cache.
        """
        if not self._learned:
            for role in roles_of(self):
                path = cache_folder() / "vectors" / role_key(self, role) / ABOUT
                about = read_json(path) if path.is_file() else None
                if isinstance(about, dict) and isinstance(about.get("dimension"), int):
                    self._learned = {name: about.get(name) for name in ("dimension", "normalised")}
                    break
        return dict(self._learned)

    def requests(self, texts: Sequence[str], role: Role = DOCUMENT) -> Iterator[list[str]]:
        """Yield the texts of each request that :meth:`encode` sends, in order."""
        return _batches(texts, self.batch, len(self.prompts.of(role)))

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Embed the texts request by request. Raises :class:`CannotMeasure` with a one-line message for any failure.

        Texts are sent after their prompt, with lone surrogates replaced. An empty text is sent as a space, because
        endpoints refuse empty ones.
        """
        import numpy as np

        if self.cached_only and texts:
            raise self._failed("a required vector is not in the cache; run the replay again first, with another --out")

        prompt = self.prompts.of(role)
        sent = [(prompt + text).encode("utf-8", "replace").decode() or " " for text in texts]
        rows = [self._vectors(batch) for batch in _batches(sent, self.batch)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimension), np.float32)

    def _vectors(self, texts: list[str]) -> np.ndarray:
        """Return the unit vectors of one request, float32 ``[len(texts), dimension]``."""
        import numpy as np

        raw = self._checked(self._ask(texts), len(texts))
        known = self.learned()
        if known.get("dimension", raw.shape[1]) != raw.shape[1]:
            raise self._failed(
                f"returned vectors of {raw.shape[1]} numbers, but earlier ones had {known['dimension']}; if it has "
                "another model now, give that another name"
            )
        if self.dimensions not in (None, raw.shape[1]):
            raise self._failed(
                f"returned vectors of {raw.shape[1]} numbers, but {self.dimensions} were requested; correct or remove "
                "?dimensions=…"
            )
        norms = np.linalg.norm(raw, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise self._failed("returned a vector whose length is 0 or not finite")
        # Vectors of length 1 are not divided again, which could change their last bits.
        unit = np.abs(norms - 1) <= UNIT
        if not known:
            self._learned = {"dimension": raw.shape[1], "normalised": bool(unit.all())}
        vectors: np.ndarray = np.where(unit, raw, raw / norms).astype(np.float32)
        return vectors

    def _checked(self, body: bytes, count: int) -> np.ndarray:
        """Return the vectors of a response, float64 ``[count, dimension]``, in the order of the texts."""
        import numpy as np

        if body.lstrip()[:1] == b"<":
            raise self._failed("returned HTML, not JSON; give the base URL of an API, such as http://HOST:PORT/v1")
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise self._failed("returned something that is not JSON") from None
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise self._failed("returned JSON without a list 'data' of vectors; the API may not be OpenAI-compatible")
        if len(data) != count:
            raise self._failed(f"returned {counted(len(data), 'vector')} for {counted(count, 'text')}")
        by_index = {item["index"]: item.get("embedding") for item in data if type(item.get("index")) is int}
        if by_index.keys() != set(range(count)):
            raise self._failed(f"returned vectors whose 'index' is not each of 0 to {count - 1} once")
        rows = [by_index[number] for number in range(count)]
        if not all(
            isinstance(row, list) and row and all(type(number) in (int, float) for number in row) for row in rows
        ):
            raise self._failed("returned an 'embedding' that is not a list of numbers")
        if len({len(row) for row in rows}) > 1:
            raise self._failed("returned vectors of different dimensions")
        try:
            matrix = np.asarray(rows, np.float64)
        except OverflowError:
            matrix = np.full((1, 1), np.nan)
        if not np.isfinite(matrix).all():
            raise self._failed("returned numbers that are not finite")
        return matrix

    def _ask(self, texts: list[str]) -> bytes:
        """Return the body of a response with status 200, with retries after fixed waits for temporary failures."""
        from lab.embedding.http import NoAnswer, post

        payload = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.dimensions is not None:
            payload["dimensions"] = self.dimensions
        data = json.dumps(payload).encode()
        started = time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1))
            try:
                answer = post(f"{self.url}/embeddings", data, self._headers(), self.timeout)
            except NoAnswer as error:
                why, limit = str(error), ATTEMPTS if self._has_answered else FIRST_ATTEMPTS
                if error.final:
                    raise self._failed(why) from None
                if error.late and not self._has_answered:
                    # The address may be wrong, so do not wait for several timeouts.
                    raise self._failed(
                        f"no response within {counted(self.timeout, 'second')}; check the address. If the model loads "
                        "slowly, add ?timeout=SECONDS to the address"
                    ) from None
            else:
                self._has_answered = True
                if answer.status == 200:
                    return answer.body
                why, limit = self._refusal(answer, texts), ATTEMPTS
                if answer.status not in RETRIED and answer.status < 500:
                    raise self._failed(why)
                wait = max(wait, answer.retry_after or 0.0)
            if attempt == limit or time.monotonic() - started + wait > max(PATIENCE, 3 * self.timeout):
                later = f", and requests a wait of {wait:.0f} s" if wait > LONGEST_WAIT else ""
                raise self._failed(f"{why}, {counted(attempt, 'time')} in a row{later}; run the same command again")
            if self.announce:
                self.announce(f"{self}: {why}; retrying in {wait:.1f} s ({attempt} of {limit})")
            time.sleep(wait)
        raise AssertionError("every attempt ends above")

    def _headers(self) -> dict[str, str]:
        name = _key_name(self.url)
        if name is None:
            return {}
        if not stays_private(self.url):
            raise UnusableInput(
                f"{self}: {name} would cross the network unencrypted; give an https:// address, or unset {name}"
            )
        key = os.environ[name].strip()
        if not re.fullmatch(r"[!-~]+", key):
            raise CannotMeasure(f"{name}: contains characters that a key cannot have; set it again, or unset it")
        return {"Authorization": f"Bearer {key}"}

    def _refusal(self, answer: Answer, texts: Sequence[str]) -> str:
        """Return the meaning of a status, without quoting the body, which may contain the texts or part of the key."""
        status = answer.status
        if status in (401, 403):
            name = _key_name(self.url)
            sent = f"refuses the key in {name}" if name else f"requires a key, and {KEY} is not set"
            only = f" ({OPENAI_KEY} is only sent to https://{OPENAI_HOST})" if name is None else ""
            return f"{sent} (status {status}){only}"
        if status == 404:
            return f"has no /embeddings, or no model {self.model!r} (status 404)"
        if status == 429:
            return "received too many requests, or the quota is used up (status 429)"
        if 300 <= status < 400:
            return f"redirects to another address (status {status}), which is not followed; give that address"
        if status in (400, 413, 422):
            longest = max(map(len, texts))
            return (
                f"refuses {counted(len(texts), 'text')}, the longest of {longest} characters (status {status}): a text "
                "is too long for the model (embedding.maxChars truncates texts), the request is too large (?batch=1 "
                "makes it smaller), or 'dimensions' is not supported"
            )
        return f"fails (status {status})"

    def _failed(self, why: str) -> CannotMeasure:
        return CannotMeasure(f"{self}: {why}")


def endpoint_named(name: str) -> EndpointEmbedder:
    """Return the embedder of ``MODEL@URL``, with optional settings after a question mark.

    Raises :class:`UnusableInput`. The message repeats nothing after the first ``@``, which may be a password.
    """
    parts = _SPLIT.split(name, maxsplit=1)
    model = parts[0].strip()
    if len(parts) < 2 or not model:
        raise UnusableInput(
            "embedder openai: needs a model and the base URL of an API: openai:MODEL@URL, such as "
            "openai:nomic-embed-text@http://127.0.0.1:11434/v1"
        )
    what = f"embedder openai:{model.partition('@')[0]}"
    if "//" in model:
        raise UnusableInput(f"{what}: the address after '@' must begin with http:// or https://")
    address, _, given = parts[1].partition("?")
    url = _base(address, what)
    return EndpointEmbedder(model, url, settings_in(given, SETTINGS, what))


def from_cache_alone(embedder: Embedder) -> Embedder:
    """Return the embedder; if it is an endpoint's, a copy that sends no requests and fails on missing vectors."""
    if not isinstance(embedder, EndpointEmbedder):
        return embedder
    copied = copy(embedder)
    copied.cached_only = True
    return copied


def _base(address: str, what: str) -> str:
    """Return the base URL of an API, reduced to scheme, host, port and path. Raises :class:`UnusableInput`."""
    try:
        parts: SplitResult = urlsplit(address)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise UnusableInput(f"{what}: the address after '@' is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise UnusableInput(f"{what}: the address after '@' must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise UnusableInput(
            f"{what}: the URL contains a user name or password; put the key into {KEY}, which is never stored"
        )
    if parts.fragment or "#" in address:
        raise UnusableInput(f"{what}: the URL has a part after '#'; leave it out")
    if not host or not host.isascii() or not re.fullmatch(r"[!-~]*", parts.path):
        raise UnusableInput(f"{what}: the URL has no host, or invalid characters")
    host_part = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix("/embeddings").rstrip("/")
    return f"{parts.scheme}://{host_part}{f':{port}' if port else ''}{path}"


def _key_name(url: str) -> str | None:
    """Return the variable whose key is sent; OpenAI's key is only sent to OpenAI."""
    if os.environ.get(KEY, "").strip():
        return KEY
    at_openai = urlsplit(url).scheme == "https" and urlsplit(url).hostname == OPENAI_HOST
    return OPENAI_KEY if at_openai and os.environ.get(OPENAI_KEY, "").strip() else None


def stays_private(url: str) -> bool:
    """Return whether keys and texts sent to an address stay private: over TLS, or within this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _batches(texts: Sequence[str], limit: int, prompt: int = 0) -> Iterator[list[str]]:
    """Split texts into requests by number and characters, in order; ``prompt`` is the length of the prompt."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        length = max(1, prompt + len(text))
        if batch and (len(batch) == limit or characters + length > MOST_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += length
    if batch:
        yield batch


def _integer(settings: Mapping[str, str], name: str, default: Any, low: int, high: int, what: str) -> Any:
    value = settings.get(name)
    if value is None:
        return default
    if not re.fullmatch(r"[0-9]{1,6}", value) or not low <= int(value) <= high:
        raise UnusableInput(f"{what}: setting {name!r} must be an integer from {low} to {high}")
    return int(value)
