"""Functions of the plugin that recorded vectors check, and that nothing in the lab needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lab.base.utf16 import WHITESPACE
from lab.recordings.model import GLOBAL
from lab.systems.openclaw.capture.pipeline import Message
from lab.systems.openclaw.js import js_text, to_number
from lab.systems.openclaw.memory import importance_score, normal_category, resolve_label
from lab.systems.openclaw.near_duplicate import normal_text

_TOO_LONG = re.compile(
    rf"max(?:imum)? context length|requested[{WHITESPACE}]+[0-9]+[{WHITESPACE}]+tokens"
    "|Please reduce the length of the messages",
    re.IGNORECASE | re.ASCII,
)


def scalar_row(raw: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a stored row as the plugin reads them: every one present and normalised (E-1, E-2).

    ``createdAt`` is 0 if it is null, and NaN if it is not a number. The vector is left out.
    """
    raw = {} if raw is None else raw
    created = raw.get("createdAt")
    importance = importance_score(raw.get("importance"))
    return {
        "id": js_text(raw.get("id")),
        "text": js_text(raw.get("text")),
        "createdAt": 0 if created is None else to_number(created),
        "category": normal_category(raw.get("category")),
        "importance": importance,
        "importance_label": resolve_label(raw.get("importance_label"), importance),
        "scope": js_text(raw.get("scope")) or GLOBAL,
        "trust_tier": js_text(raw.get("trust_tier")) or "unknown",
    }


def is_too_long(message: str) -> bool:
    """Whether an embedder's error message says that the input was too long."""
    return _TOO_LONG.search(message) is not None


def token_overlap(first: str, second: str) -> float:
    """Return the Jaccard similarity of the words between spaces; a run of Chinese characters is one word."""
    one, other = _words(first), _words(second)
    return len(one & other) / len(one | other) if one and other else 0.0


def read_messages(messages: Iterable[Any]) -> list[Message]:
    """Return the messages with role ``user`` of an event of the host, in order. Other values are ignored."""
    return [
        Message(tuple(_texts(message.get("content"))))
        for message in messages
        if isinstance(message, dict) and message.get("role") == "user"
    ]


def _words(text: str) -> frozenset[str]:
    return frozenset(normal_text(text).text.split())


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [
        block["text"]
        for block in content
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
