"""The row of the memories table (E-1) and how its fields are normalised (E-2)."""

from __future__ import annotations

import math
import re
import uuid
from functools import lru_cache

from lab.recordings.model import GLOBAL, IGNORE, LABELS, MUST, NICE, UNKNOWN, Memory
from lab.retrieval.row import Row
from lab.systems.openclaw.upstream.js import js_number
from lab.utf16 import WHITESPACE

CATEGORIES = ("preference", "fact", "decision", "entity", "todo", "other")
_ALIASES = {
    **{label: label for label in LABELS},
    "none": UNKNOWN,
    "high": MUST,
    "medium": NICE,
    "low": IGNORE,
    "trivial": IGNORE,
}
_SPACES = re.compile(f"[{WHITESPACE}-]+")
# A namespace of the project's own: the same key gives the same id in every run and on every machine.
_NAMESPACE = uuid.UUID("6f1b6a5e-9f0b-5a39-8f39-3a1c7f7c2d10")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HARD_TAG = re.compile(r"\s*\[(?:HARD|ALWAYS_PIN)\]")


# A replay asks for each several times: who looks for kept candidates, who reads them, who searches.
@lru_cache(maxsize=1 << 16)
def engine_id(key: str) -> str:
    """The engine's id of a memory key.

    A UUIDv5, so that it is a function of the key; a key that is a UUID is the id of a row that was stored already, and
    stays as it is.
    """
    return key if _UUID.fullmatch(key) else str(uuid.uuid5(_NAMESPACE, key))


def importance_score(value: object) -> float | None:
    """A finite number, or a string that JavaScript reads as one, clamped to 0..1; anything else is no score.

    A blank string counts as 0, as in JavaScript.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    number = js_number(value) if isinstance(value, str) else value
    try:
        finite = number is not None and math.isfinite(number)
    except OverflowError:  # a whole number beyond every double: Infinity, in JavaScript
        finite = False
    return float(min(1, max(0, number))) if number is not None and finite else None


def label_of_score(score: float | None) -> str:
    """0.8 and more must_remember, 0.5 and more nice_to_have, less ignore; no score unknown."""
    if score is None:
        return UNKNOWN
    return MUST if score >= 0.8 else NICE if score >= 0.5 else IGNORE


def normal_label(value: object) -> str | None:
    """A label or one of its aliases, however it is cased and spaced; None for anything else."""
    if not isinstance(value, str):
        return None
    # Stored labels are spelt out: the rest is for what people write.
    return _ALIASES.get(value) or _ALIASES.get(_SPACES.sub("_", value.strip(WHITESPACE).lower()))


def resolve_label(label: object, score: object = None) -> str:
    """A recognised label beats the score; else the score decides."""
    return normal_label(label) or label_of_score(importance_score(score))


def normal_category(value: object) -> str:
    """A known category, trimmed and lower-cased; unknown ones become ``other``."""
    category = value.strip(WHITESPACE).lower() if isinstance(value, str) else ""
    return category if category in CATEGORIES else "other"


def normal_row(
    key: str,
    text: str,
    index_text: str,
    created_at: int,
    *,
    category: object,
    label: object,
    scope: object,
    importance: object = None,
    trust: object = "user",
    hard_rule: bool = False,
    position: int | None = None,
    embedded: bool = True,
) -> Row:
    """A row with every field normalised as E-1 and E-2 say.

    A text that begins with the tag ``[HARD]`` or ``[ALWAYS_PIN]`` is a hard rule, too (E-58).
    """
    score = importance_score(importance)
    return Row(
        engine_id(key),
        key,
        text,
        index_text,
        created_at,
        normal_category(category),
        resolve_label(label, score),
        scope if isinstance(scope, str) and scope else GLOBAL,
        trust if isinstance(trust, str) and trust else "unknown",
        score,
        hard_rule or is_hard_rule(text),
        position,
        embedded,
    )


def is_hard_rule(text: str) -> bool:
    """Whether a text begins with the tag of a hard rule (E-58)."""
    return _HARD_TAG.match(text) is not None


def row_of(memory: Memory) -> Row:
    """The row of a memory from outside."""
    return normal_row(
        memory.key,
        memory.text,
        memory.index_text,
        memory.created_at,
        category=memory.category,
        label=memory.label or UNKNOWN,
        scope=memory.scope,
        trust=memory.trust,
        hard_rule=memory.hard_rule,
        position=memory.place,
        embedded=memory.embedded,
    )
