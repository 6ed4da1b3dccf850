"""Read the responses of embedding endpoints: vectors, and the reasons of refusals.

Servers call their API compatible with OpenAI's, and differ: in the encoding of vectors, in the field ``index``, and in
the status and the words with which they refuse a text. A refusal is only classified by its words. They are never
repeated, because they may quote the texts or a part of the key.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lab.base.errors import CannotMeasure
from lab.base.formatting import counted

if TYPE_CHECKING:
    import numpy as np

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
