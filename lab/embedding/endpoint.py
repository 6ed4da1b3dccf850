"""An embedder behind an OpenAI-compatible ``/embeddings`` endpoint: OpenAI, Ollama, vLLM, llama.cpp and others.

Three things differ from a model on this machine. A vector may differ in its last bits from call to call, so what was
answered first and kept in the cache is what counts. The number of dimensions is known with the first answer. And there
is a key, which is read from the environment at the moment of a request and held nowhere.
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
# Texts and characters of a request: what all servers take, and what is lost with one that fails.
BATCH, MOST_BATCH, MOST_CHARACTERS = 32, 256, 60_000
# Seconds: for an answer, for the first wait before asking again (then twice as long each time), and for all of it.
TIMEOUT, FIRST_WAIT, LONGEST_WAIT, PATIENCE = 60, 0.5, 32.0, 180.0
ATTEMPTS = 8
# Of an endpoint that has never answered: its address is probably wrong.
FIRST_ATTEMPTS = 3
RETRIED = (408, 409, 425, 429)
# What a vector may be off length 1 and still count as normalised: the rounding of float32.
UNIT = 1e-6
_SPLIT = re.compile(r"@(?=[A-Za-z][A-Za-z0-9+.-]*:)")


class EndpointEmbedder:
    """A model that an endpoint serves.

    ``announce`` is called with a sentence before each wait. With ``cached_only`` no request is made.
    """

    def __init__(self, model: str, url: str, settings: Mapping[str, str]) -> None:
        """``url`` is the base of the API; ``settings`` are of :data:`SETTINGS`."""
        self.model, self.url = model, url
        what = f"embedder openai:{model.partition('@')[0]}"
        self.prompts = Prompts().changed(settings)
        self.dimensions = _whole(settings, "dimensions", None, 1, 1 << 16, what)
        self.batch: int = _whole(settings, "batch", BATCH, 1, MOST_BATCH, what)
        self.timeout: int = _whole(settings, "timeout", TIMEOUT, 1, 3600, what)
        self.announce: Callable[[str], None] | None = None
        self.cached_only = False
        self._learned: dict[str, Any] = {}
        self._has_answered = False

    def __str__(self) -> str:
        return f"openai:{self.model}@{self.url}"

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: what was learned, and no ``announce``."""
        return {**self.__dict__, "announce": None, "_learned": self.learned()}

    @property
    def dimension(self) -> int:
        """Numbers of a vector, as the first answer had them, now or in an earlier run."""
        found = self.learned().get("dimension")
        if found is None:
            raise CannotMeasure(f"{self}: the dimension of its vectors is not known before it has answered once")
        return int(found)

    def identity(self) -> dict[str, Any]:
        """Model, base URL, dimensions asked for, prompts and form. The same name elsewhere may be another model."""
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
        """What the first answer showed: ``dimension``, and whether its vectors were ``normalised`` already.

        Empty before any answer. What an earlier run learned stands beside the vectors that it kept.
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
        """The texts in order as :meth:`encode` sends them: those of one request together."""
        return _batches(texts, self.batch, len(self.prompts.of(role)))

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Ask the endpoint, request by request. Raises :class:`CannotMeasure`, with one line, for whatever fails.

        A text is sent as it is embedded: prompt first, lone surrogates replaced. An empty one is sent as a blank, for
        endpoints refuse it.
        """
        import numpy as np

        if self.cached_only and texts:
            raise self._failed(
                "a vector that is needed is not in the cache; run the replay again first, into another --out"
            )

        prompt = self.prompts.of(role)
        sent = [(prompt + text).encode("utf-8", "replace").decode() or " " for text in texts]
        found = [self._vectors(batch) for batch in _batches(sent, self.batch)]
        return np.concatenate(found) if found else np.zeros((0, self.dimension), np.float32)

    def _vectors(self, texts: list[str]) -> np.ndarray:
        """Float32 unit rows of one request."""
        import numpy as np

        wide = self._checked(self._ask(texts), len(texts))
        known = self.learned()
        if known.get("dimension", wide.shape[1]) != wide.shape[1]:
            raise self._failed(f"answers vectors of {wide.shape[1]} numbers, and earlier ones had {known['dimension']}")
        if self.dimensions not in (None, wide.shape[1]):
            raise self._failed(f"answers vectors of {wide.shape[1]} numbers, and {self.dimensions} were asked for")
        norms = np.linalg.norm(wide, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise self._failed("answers a vector of zeros, or one too long to measure")
        # Divided once more, a vector of length 1 would lose its last bit.
        unit = np.abs(norms - 1) <= UNIT
        if not known:
            self._learned = {"dimension": wide.shape[1], "normalised": bool(unit.all())}
        vectors: np.ndarray = np.where(unit, wide, wide / norms).astype(np.float32)
        return vectors

    def _checked(self, body: bytes, count: int) -> np.ndarray:
        """The vectors of an answer, float64 ``[count, dimension]``, in the order of the texts."""
        import numpy as np

        if body.lstrip()[:1] == b"<":
            raise self._failed("answers HTML, not JSON; give the base of an API, such as http://HOST:PORT/v1")
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise self._failed("answers something that is not JSON") from None
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
            raise self._failed("answers JSON without a list 'data' of vectors; it may be no OpenAI-compatible API")
        if len(data) != count:
            raise self._failed(f"answers {counted(len(data), 'vector')} to {counted(count, 'text')}")
        by_index = {one["index"]: one.get("embedding") for one in data if type(one.get("index")) is int}
        if by_index.keys() != set(range(count)):
            raise self._failed(f"answers vectors whose 'index' is not each of 0 to {count - 1} once")
        rows = [by_index[number] for number in range(count)]
        if not all(isinstance(row, list) and row and all(type(one) in (int, float) for one in row) for row in rows):
            raise self._failed("answers an 'embedding' that is not a list of numbers")
        if len({len(row) for row in rows}) > 1:
            raise self._failed("answers vectors of different dimensions")
        try:
            found = np.asarray(rows, np.float64)
        except OverflowError:
            found = np.full((1, 1), np.nan)
        if not np.isfinite(found).all():
            raise self._failed("answers numbers that are not finite")
        return found

    def _ask(self, texts: list[str]) -> bytes:
        """The body of an answer with status 200. What may pass is asked again, after waits that are the same always."""
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
                why, most = str(error), ATTEMPTS if self._has_answered else FIRST_ATTEMPTS
                if error.final:
                    raise self._failed(why) from None
                if error.late and not self._has_answered:
                    # It may be no endpoint at all; whoever waits is not to wait for several times the limit.
                    raise self._failed(
                        f"no answer within {counted(self.timeout, 'second')}; is the address right? A model that loads "
                        "slowly may need more: ?timeout=SECONDS after the address"
                    ) from None
            else:
                self._has_answered = True
                if answer.status == 200:
                    return answer.body
                why, most = self._refusal(answer, texts), ATTEMPTS
                if answer.status not in RETRIED and answer.status < 500:
                    raise self._failed(why)
                wait = max(wait, answer.retry_after or 0.0)
            if attempt == most or time.monotonic() - started + wait > max(PATIENCE, 3 * self.timeout):
                later = f", and asks to wait {wait:.0f} s" if wait > LONGEST_WAIT else ""
                raise self._failed(f"{why}, {counted(attempt, 'time')} in a row{later}; run the same command again")
            if self.announce:
                self.announce(f"{self}: {why}; asking again in {wait:.1f} s ({attempt} of {most})")
            time.sleep(wait)
        raise AssertionError("every attempt ends above")

    def _headers(self) -> dict[str, str]:
        name = _key_name(self.url)
        if name is None:
            return {}
        if not _keeps_secrets(self.url):
            raise UnusableInput(
                f"{self}: {name} would cross the network unencrypted; give an https:// address, or unset {name}"
            )
        key = os.environ[name].strip()
        if not re.fullmatch(r"[!-~]+", key):
            raise CannotMeasure(f"{name}: holds characters that a key cannot have; set it again, or unset it")
        return {"Authorization": f"Bearer {key}"}

    def _refusal(self, answer: Answer, texts: Sequence[str]) -> str:
        """What a status means. Nothing of the body is repeated: it may quote the texts, or a part of the key."""
        status = answer.status
        if status in (401, 403):
            name = _key_name(self.url)
            sent = f"refuses the key in {name}" if name else f"wants a key, and {KEY} is not set"
            only = f" ({OPENAI_KEY} goes to https://{OPENAI_HOST} alone)" if name is None else ""
            return f"{sent} (status {status}){only}"
        if status == 404:
            return f"has no /embeddings, or no model {self.model!r} (status 404)"
        if status == 429:
            return "has had too many requests, or no quota is left (status 429)"
        if 300 <= status < 400:
            return f"sends requests on to another address (status {status}), which is not followed; give that address"
        if status in (400, 413, 422):
            longest = max(map(len, texts))
            return (
                f"refuses {counted(len(texts), 'text')}, the longest of {longest} characters (status {status}): one is "
                "too long for the model (embedding.maxChars of a configuration cuts texts), the request is too large "
                "(?batch=1 makes it smaller), or 'dimensions' cannot be set"
            )
        return f"fails (status {status})"

    def _failed(self, why: str) -> CannotMeasure:
        return CannotMeasure(f"{self}: {why}")


def endpoint_named(name: str) -> EndpointEmbedder:
    """The embedder of ``MODEL@URL``, with settings after a question mark.

    Raises :class:`UnusableInput`, which repeats nothing after the first ``@``: it may be a password.
    """
    parts = _SPLIT.split(name, maxsplit=1)
    model = parts[0].strip()
    if len(parts) < 2 or not model:
        raise UnusableInput(
            "embedder openai: needs a model and the base of an API: openai:MODEL@URL, such as "
            "openai:nomic-embed-text@http://127.0.0.1:11434/v1"
        )
    what = f"embedder openai:{model.partition('@')[0]}"
    if "//" in model:
        raise UnusableInput(f"{what}: the address after '@' must begin with http:// or https://")
    address, _, given = parts[1].partition("?")
    url = _base(address, what)
    return EndpointEmbedder(model, url, settings_in(given, SETTINGS, what))


def from_cache_alone(embedder: Embedder) -> Embedder:
    """The same embedder, which makes no request where it is an endpoint's: a missing vector is an error."""
    if not isinstance(embedder, EndpointEmbedder):
        return embedder
    found = copy(embedder)
    found.cached_only = True
    return found


def _base(address: str, what: str) -> str:
    """The base of an API as it is kept: nothing in it but scheme, host, port and path."""
    try:
        parts: SplitResult = urlsplit(address)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise UnusableInput(f"{what}: the address after '@' is no URL") from None
    if parts.scheme not in ("http", "https"):
        raise UnusableInput(f"{what}: the address after '@' must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise UnusableInput(f"{what}: the URL holds a user name or password; a key belongs in {KEY}, which is not kept")
    if parts.fragment or "#" in address:
        raise UnusableInput(f"{what}: the URL has a part after '#'; leave it out")
    if not host or not host.isascii() or not re.fullmatch(r"[!-~]*", parts.path):
        raise UnusableInput(f"{what}: the URL has no host, or letters in it that a URL cannot have")
    place = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix("/embeddings").rstrip("/")
    return f"{parts.scheme}://{place}{f':{port}' if port else ''}{path}"


def _key_name(url: str) -> str | None:
    """The variable whose key is sent; OpenAI's own goes to OpenAI alone."""
    if os.environ.get(KEY, "").strip():
        return KEY
    at_openai = urlsplit(url).scheme == "https" and urlsplit(url).hostname == OPENAI_HOST
    return OPENAI_KEY if at_openai and os.environ.get(OPENAI_KEY, "").strip() else None


def _keeps_secrets(url: str) -> bool:
    """Whether a key may be sent to an address: over TLS, or within this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _batches(texts: Sequence[str], most: int, prompt: int = 0) -> Iterator[list[str]]:
    """Texts in order, cut into requests by number and by characters; ``prompt`` of these come before each text."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        length = max(1, prompt + len(text))
        if batch and (len(batch) == most or characters + length > MOST_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += length
    if batch:
        yield batch


def _whole(settings: Mapping[str, str], name: str, default: Any, low: int, high: int, what: str) -> Any:
    value = settings.get(name)
    if value is None:
        return default
    if not re.fullmatch(r"[0-9]{1,6}", value) or not low <= int(value) <= high:
        raise UnusableInput(f"{what}: setting {name!r} is a whole number from {low} to {high}")
    return int(value)
