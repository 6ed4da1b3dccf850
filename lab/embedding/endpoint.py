"""An embedder behind an OpenAI-compatible ``/embeddings`` endpoint: OpenAI, Ollama, vLLM, llama.cpp and others.

It differs from a local model in three ways. The last bits of a vector may vary between calls, so the first response is
cached and reused. The number of dimensions is only known after the first response. And there is an API key, which is
read from the environment for each request and never stored.

Servers call their API compatible with OpenAI's, and differ: in the encoding of vectors, in the field ``index``, and in
the status and the words with which they refuse a text. A refusal is only classified by its words. They are never
repeated, because they may quote the texts or a part of the key.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import read_json
from lab.base.formatting import counted
from lab.base.regex import regex
from lab.embedding.address import KEY, base_url, stays_private
from lab.embedding.cache import ABOUT, cache_folder
from lab.embedding.embedder import DOCUMENT, Embedder, Prompts, Role, role_key, roles_of, settings_in

if TYPE_CHECKING:
    import numpy as np

    from lab.embedding.http import Answer

TOO_LONG, TOO_MANY, NO_MODEL, NO_QUOTA, NO_EMBEDDINGS = "too long", "too many", "no model", "no quota", "no embeddings"
# The words of llama.cpp, vLLM, Ollama, LM Studio, TEI, OpenAI and LiteLLM. The order matters: what llama.cpp says of a
# long text also names its batch.
_REASONS = (
    (
        TOO_LONG,
        (
            r"too large to process|too long|context[ _-]?(?:length|size|window)|contextwindow|exceed_context|n_ctx"
            r"|(?:maximum|max) (?:input|sequence|prompt|token)s? ?(?:length|size|limit)?"
            r"|must have less than \d+ tokens|reduce (?:the|your) (?:length|prompt|input)|too many tokens"
            r"|tokens?\b.{0,40}\bexceed|exceed\w*.{0,40}\btokens?\b|larger than the max"
        ),
    ),
    (
        TOO_MANY,
        (
            r"batch[ _-]?size|(?:maximum|max|allowed) batch|too many (?:inputs|texts|items|elements)|array (?:is )?too"
            r"|at most \d+ (?:inputs|items|texts|elements)|max_tokens_per_request|tokens per request"
            r"|(?:entity|payload|request|body) too large"
        ),
    ),
    (NO_QUOTA, r"insufficient_quota|exceeded your current quota|billing|credit balance"),
    (
        NO_EMBEDDINGS,
        (
            r"(?:does not|doesn't|not) support(?:ed)?\b.{0,40}\bembedding"
            r"|embeddings?\b.{0,60}\bnot (?:supported|enabled)"
            r"|start it with .{0,4}--embedding|not an embedding model"
        ),
    ),
    (
        NO_MODEL,
        (
            r"model\b.{0,120}\b(?:not found|does not exist|not loaded|not exist|unknown|is not available)"
            r"|no (?:such )?models?\b|model_not_found|invalid model|unknown model|pulling it first"
        ),
    ),
)
UNKNOWN = "unknown"
_CAUSES = {
    UNKNOWN: "it may be too long for the model (embedding.maxChars cuts texts), or ?dimensions=… is not supported",
    TOO_LONG: "it is too long for the model; embedding.maxChars cuts texts, or let the server take longer ones",
    TOO_MANY: "the server takes fewer tokens or bytes in a request; embedding.maxChars cuts texts",
}
_READ = 4096


class BadResponse(Exception):
    """A response with status 200 that has no usable vectors; the message says why, and quotes nothing.

    ``place``: the text whose vector is the cause, if one is.
    """

    def __init__(self, message: str, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


class NoOrder(BadResponse):
    """The vectors of several texts cannot be distinguished: ``index`` is missing in part, or repeated."""


class TextRefused(CannotMeasure):
    """An endpoint refuses one text, ``text``; the message has its length and its place, never the text."""

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class Refused(Exception):
    """The text at ``place`` of a request is refused; ``why`` ends before the text is named."""

    def __init__(self, why: str, texts: Sequence[str], place: int, reason: str | None = None) -> None:
        super().__init__(why)
        self.why, self.place, self.length, self.reason = why, place, len(texts[place]), reason

    def said(self, place: int, total: int) -> str:
        """Return the message about this text, which is at ``place`` of ``total``."""
        text = f"{self.why} text {place + 1} of {total}, of {counted(self.length, 'character')}"
        return text if self.reason is None else f"{text}, sent alone: {_CAUSES[self.reason]}"


def reason_in(body: bytes) -> str | None:
    """Return why a server says that it refused a request, or None if its words are not known."""
    text = body[:_READ].decode("utf-8", "replace").lower()
    return next((reason for reason, pattern in _REASONS if re.search(pattern, text, re.DOTALL)), None)


def vectors_in(body: bytes, count: int) -> np.ndarray:
    """Return the vectors of a response, float64 ``[count, dimension]``, in the order of the texts.

    Vectors are lists of numbers, or float32 in base64, little-endian. Without any ``index`` they are in the order of
    the texts, as in the responses of most servers; indices may count from 1 or be text. Raises :class:`BadResponse`,
    and :class:`NoOrder` if the same texts can be sent one at a time instead.
    """
    import numpy as np

    items = _in_order(_items(body), count)
    rows = [_numbers(item.get("embedding"), place) for place, item in enumerate(items)]
    if len({len(row) for row in rows}) > 1:
        raise BadResponse("returned vectors of different dimensions")
    try:
        matrix = np.asarray(rows, np.float64)
    except OverflowError:
        matrix = np.full((1, 1), np.nan)
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        raise BadResponse("returned numbers that are not finite", int(finite.argmin()))
    return matrix


def _items(body: bytes) -> list[dict[str, Any]]:
    if body.lstrip()[:1] == b"<":
        raise BadResponse("returned HTML, not JSON; give the base URL of an API, such as http://HOST:PORT/v1")
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise BadResponse("returned something that is not JSON") from None
    data = answer.get("data") if isinstance(answer, dict) else None
    if isinstance(data, list) and all(isinstance(item, dict) for item in data):
        return data
    if isinstance(answer, dict) and answer.get("error"):
        # LM Studio does so for a path that it does not have.
        raise BadResponse(
            f"returned an error with status 200{_hint(reason_in(body))}; check the model and the base URL, such as "
            "http://HOST:PORT/v1"
        )
    raise BadResponse("returned JSON without a list 'data' of vectors; the API may not be OpenAI-compatible")


def _hint(reason: str | None) -> str:
    return {TOO_LONG: ": a text is too long", NO_MODEL: ": it has no such model"}.get(reason or "", "")


def _in_order(items: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return the items in the order of the texts."""
    if len(items) != count:
        raise BadResponse(f"returned {counted(len(items), 'vector')} for {counted(count, 'text')}")
    if count == 1 or all(item.get("index") is None for item in items):
        return items
    by_index = {_index(item.get("index")): item for item in items}
    first = min((number for number in by_index if number is not None), default=0)
    if first not in (0, 1) or by_index.keys() != set(range(first, first + count)):
        raise NoOrder(f"returned vectors whose 'index' is not each of 0 to {count - 1} once")
    return [by_index[first + number] for number in range(count)]


def _index(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    return value if type(value) is int else None


def _numbers(value: Any, place: int) -> Any:
    """Return the numbers of one vector."""
    import numpy as np

    if isinstance(value, str):
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            data = b""
        if not data or len(data) % 4:
            raise BadResponse("returned an 'embedding' that is neither a list of numbers nor float32 in base64", place)
        return np.frombuffer(data, "<f4").astype(np.float64)
    if isinstance(value, list) and value and all(type(number) in (int, float) for number in value):
        return value
    raise BadResponse("returned an 'embedding' that is not a list of numbers", place)


OPENAI_KEY = "OPENAI_API_KEY"
OPENAI_HOST = "api.openai.com"
SETTINGS = ("dimensions", "query_prompt", "document_prompt", "batch", "timeout")
# Default and largest number of texts, and largest number of characters, in one request. Servers accept these sizes, and
# a failed request loses little work.
BATCH, MOST_BATCH, MOST_CHARACTERS = 32, 256, 60_000
# Seconds: timeout of a request, first wait before a retry (doubled each time), longest wait, and total of all retries.
TIMEOUT, FIRST_WAIT, LONGEST_WAIT, PATIENCE = 60, 0.5, 32.0, 180.0
ATTEMPTS = 8
# Statuses by which servers refuse a text: also 500, which llama.cpp and others return for one that is too long.
BY_TEXT = (400, 413, 422, 500)
# Characters that every model takes.
SHORT = 100
# Attempts at an endpoint that has never answered, because its address is probably wrong.
FIRST_ATTEMPTS = 3
RETRIED = (408, 409, 425, 429, *range(502, 600))
# The tolerance for the length of a normalized vector: the rounding of float32.
UNIT = 1e-6
_SPLIT = regex(r"@(?=[A-Za-z][A-Za-z0-9+.-]*:)")


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
        self._has_answered = self._has_embedded = False
        # Texts in a request, which shrinks if the server takes fewer.
        self._most = self.batch

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
        endpoints refuse empty ones. A text that the endpoint refuses alone raises :class:`TextRefused`.
        """
        import numpy as np

        if self.cached_only and texts:
            raise self._failed("a required vector is not in the cache; run the replay again first, with another --out")

        prompt = self.prompts.of(role)
        sent = [(prompt + text).encode("utf-8", "replace").decode() or " " for text in texts]
        rows: list[np.ndarray] = []
        done = 0
        try:
            while done < len(sent):
                batch = next(_batches(sent[done:], self._most))
                vectors = self._vectors(batch)
                if vectors is not None:
                    rows.append(vectors)
                    done += len(batch)
        except Refused as refused:
            place = done + refused.place
            raise TextRefused(f"{self}: {refused.said(place, len(texts))}", texts[place]) from None
        return np.concatenate(rows) if rows else np.zeros((0, self.dimension), np.float32)

    def _vectors(self, texts: list[str]) -> np.ndarray | None:
        """Return the unit vectors of one request, float32 ``[len(texts), dimension]``; None to send fewer texts."""
        import numpy as np

        body = self._ask(texts)
        if body is None:
            return None
        try:
            raw = vectors_in(body, len(texts))
        except NoOrder as error:
            self._send_at_most(1, str(error))
            return None
        except BadResponse as error:
            if error.place is not None:
                raise Refused(f"{error}, for", texts, error.place) from None
            raise self._failed(str(error)) from None
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
        sound = np.isfinite(norms) & (norms != 0)
        if not sound.all():
            place = int(np.flatnonzero(~sound)[0])
            raise Refused("returned a vector whose length is 0 or not finite, for", texts, place)
        # Vectors of length 1 are not divided again, which could change their last bits.
        unit = np.abs(norms - 1) <= UNIT
        if not known:
            self._learned = {"dimension": raw.shape[1], "normalised": bool(unit.all())}
        self._has_embedded = True
        vectors: np.ndarray = np.where(unit, raw, raw / norms).astype(np.float32)
        return vectors

    def _send_at_most(self, count: int, why: str) -> None:
        """Send fewer texts in a request from now on, and say so."""
        self._most = count
        if self.announce:
            self.announce(f"{self}: {why}; sending at most {counted(count, 'text')} a request from now on")

    def _ask(self, texts: list[str]) -> bytes | None:
        """Return the body of a response with status 200; None if fewer texts must be sent.

        A temporary failure is retried after fixed waits. A permanent one is found within two requests: of several
        texts, the longest is sent alone, and of a long one, a short one in its place.
        """
        started, blamed = time.monotonic(), False
        for attempt in range(1, ATTEMPTS + 1):
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1))
            answer = self._post(texts)
            if isinstance(answer, str):
                why, limit = answer, ATTEMPTS if self._has_answered else FIRST_ATTEMPTS
            elif answer.status == 200:
                return answer.body
            else:
                why, limit = self._refusal(answer), ATTEMPTS
                if answer.status in BY_TEXT:
                    if not blamed and not self._blame(answer, texts):
                        return None
                    # The server fails whatever the text is. It may be starting.
                    blamed, limit = True, ATTEMPTS if self._has_embedded else FIRST_ATTEMPTS
                elif answer.status not in RETRIED or reason_in(answer.body) == NO_QUOTA:
                    raise self._failed(why)
                wait = max(wait, answer.retry_after or 0.0)
            if attempt == limit or time.monotonic() - started + wait > max(PATIENCE, 3 * self.timeout):
                later = f", and requests a wait of {wait:.0f} s" if wait > LONGEST_WAIT else ""
                raise self._failed(f"{why}, {counted(attempt, 'time')} in a row{later}; run the same command again")
            if self.announce:
                self.announce(f"{self}: {why}; retrying in {wait:.1f} s ({attempt} of {limit})")
            time.sleep(wait)
        raise AssertionError("every attempt ends above")

    def _blame(self, answer: Answer, texts: list[str]) -> bool:
        """Find out why texts were refused. Return False to send fewer, True if no text is the cause.

        Raises :class:`Refused` for a text that is refused alone, and :class:`CannotMeasure` if the model is the cause.
        """
        reason, status = reason_in(answer.body), answer.status
        if reason in (NO_MODEL, NO_EMBEDDINGS, NO_QUOTA):
            raise self._failed(self._refusal(answer))
        # A script other than Latin has more tokens in a character, and more bytes.
        place = max(range(len(texts)), key=lambda number: len(texts[number].encode()))
        longest = texts[place]
        is_clear = status != 500 or reason == TOO_LONG
        refused = Refused(f"refuses (status {status})", texts, place, reason or UNKNOWN)
        if len(texts) > 1:
            alone = self._post([longest])
            if not isinstance(alone, str) and alone.status == 200:
                self._send_at_most(len(texts) // 2, f"refuses {len(texts)} texts at once (status {status})")
                return False
            is_cause = not isinstance(alone, str) and alone.status in BY_TEXT and (is_clear or len(longest) > SHORT)
        elif is_clear or len(longest) <= SHORT:
            is_cause = is_clear
        else:
            short = self._post([longest[:SHORT]])
            is_cause = not isinstance(short, str) and short.status == 200
        if is_cause:
            raise refused
        return True

    def _post(self, texts: list[str]) -> Answer | str:
        """Send one request; return the response, or why there was none.

        Raises :class:`CannotMeasure` if a retry would not help.
        """
        from lab.embedding.http import NoAnswer, post

        payload = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.dimensions is not None:
            payload["dimensions"] = self.dimensions
        try:
            answer = post(f"{self.url}/embeddings", json.dumps(payload).encode(), self._headers(), self.timeout)
        except NoAnswer as error:
            if error.final:
                raise self._failed(str(error)) from None
            if error.late and not self._has_answered:
                # The address may be wrong, so do not wait for several timeouts.
                raise self._failed(
                    f"no response within {counted(self.timeout, 'second')}; check the address. If the model loads "
                    "slowly, add ?timeout=SECONDS to the address"
                ) from None
            return str(error)
        self._has_answered = True
        return answer

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

    def _refusal(self, answer: Answer) -> str:
        """Return the meaning of a status, without quoting the body, which may contain the texts or part of the key."""
        status, reason = answer.status, reason_in(answer.body)
        if status in (401, 403):
            name = _key_name(self.url)
            sent = f"refuses the key in {name}" if name else f"requires a key, and {KEY} is not set"
            only = f" ({OPENAI_KEY} is only sent to https://{OPENAI_HOST})" if name is None else ""
            return f"{sent} (status {status}){only}"
        if reason == NO_QUOTA or status == 402:
            return f"says that the quota is used up (status {status})"
        if reason == NO_EMBEDDINGS or status == 501:
            return (
                f"does not embed with model {self.model!r} (status {status}); start the server for embeddings, or name "
                "an embedding model"
            )
        if status == 404:
            return f"has no /embeddings, or no model {self.model!r} (status 404)"
        if reason == NO_MODEL:
            return f"has no model {self.model!r} (status {status})"
        if status == 429:
            return "received too many requests, or the quota is used up (status 429)"
        if 300 <= status < 400:
            return f"redirects to another address (status {status}), which is not followed; give that address"
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
    url = base_url(address, what)
    return EndpointEmbedder(model, url, settings_in(given, SETTINGS, what))


def from_cache_alone(embedder: Embedder) -> Embedder:
    """Return the embedder; if it is an endpoint's, a copy that sends no requests and fails on missing vectors."""
    if not isinstance(embedder, EndpointEmbedder):
        return embedder
    copied = copy(embedder)
    copied.cached_only = True
    return copied


def _key_name(url: str) -> str | None:
    """Return the variable whose key is sent; OpenAI's key is only sent to OpenAI."""
    if os.environ.get(KEY, "").strip():
        return KEY
    at_openai = urlsplit(url).scheme == "https" and urlsplit(url).hostname == OPENAI_HOST
    return OPENAI_KEY if at_openai and os.environ.get(OPENAI_KEY, "").strip() else None


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
