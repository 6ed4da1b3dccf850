"""What an observation of a stored memory says of it: the memory's id and governance fields (WB-2, WB-3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lab.memory.ledger.ledger import Observation
from lab.memory.ledger.rows import scope_name
from lab.recordings.model import IGNORE, LABELS, MUST, NICE, UNKNOWN
from lab.systems.openclaw.memory import CATEGORIES, label_of_score
from lab.systems.sidecar.importance import is_importance, parse_importance, sidecar_label

# The order in which fields are compared and reported.
SAFE_FIELDS = ("importance", "importance_label", "scope", "category")
FORCE_FIELDS = (*SAFE_FIELDS, "trust_tier")
TRUSTS = ("trusted", "untrusted", "quarantined")
# The score that stands for a label without one.
SCORE_OF = {MUST: 0.9, NICE: 0.7, IGNORE: 0.2, UNKNOWN: 0.0}
HINTS = frozenset(
    ("memory_id", "memoryid", "memory_uuid", "memoryuuid", "lancedb_id", "lancedbid", "lancedb", "lance_id")
)
_HEX = "[0-9a-fA-F]"
_UUID = rf"\b{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}\b"
# For the sidecar a Chinese character is part of a word, so that an id beside one is not found.
_ID = {True: re.compile(_UUID), False: re.compile(_UUID, re.ASCII)}
_TRUST_KEYS = ("trust", "trust_tier", "trustTier")
DEEPEST = 64


def memory_id(row: Observation, detail: Mapping[str, Any], *, upstream: bool) -> str | None:
    """Return the id of the memory that an observation is about; None if it names none (WB-2).

    With ``upstream``, a UUID in any list of the detail counts as the memory's, as in the sidecar.
    """
    pattern = _ID[upstream]
    named = next(_named(detail, pattern, upstream, DEEPEST), None)
    if named is not None:
        return named
    found = (pattern.search(text) for text in (row.summary, row.summary_en) if text)
    return next((match.group() for match in found if match), None)


def _named(value: Any, pattern: re.Pattern[str], upstream: bool, depth: int) -> Iterator[str]:
    """Yield the ids in a detail, depth first."""
    if depth == 0:
        return
    if isinstance(value, Mapping):
        for key, nested in value.items():
            if str(key).lower() in HINTS:
                texts = nested if isinstance(nested, list) else [nested]
                yield from (match.group() for text in texts if (match := _match(pattern, text)))
            if isinstance(nested, Mapping | list):
                yield from _named(nested, pattern, upstream, depth - 1)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, Mapping | list):
                yield from _named(item, pattern, upstream, depth - 1)
            elif upstream and (match := _match(pattern, item)):
                yield match.group()


def _match(pattern: re.Pattern[str], value: Any) -> re.Match[str] | None:
    return pattern.search(value) if isinstance(value, str) else None


def incoming(row: Observation, detail: Mapping[str, Any], *, upstream: bool) -> dict[str, Any]:
    """Return the governance fields that an observation gives its memory (WB-3).

    In profile ``seed`` what the observation does not say is left out; the sidecar makes a scope and a category of its
    kind, and a score of 0 of the label ``unknown``.
    """
    score, label = (_upstream_importance if upstream else _importance)(detail.get("importance"))
    kind = row.kind if isinstance(row.kind, str) else ""
    scope = scope_name(detail.get("scope") or (kind if upstream else None))
    category = detail.get("category")
    category = (category if isinstance(category, str) else kind).strip()
    if not upstream:
        category = category.lower() if category.lower() in CATEGORIES else ""
    fields = {
        "importance": score,
        "importance_label": label,
        "scope": scope,
        "category": category,
        "trust_tier": trust_of(detail),
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _importance(value: Any) -> tuple[float | None, str | None]:
    """Return score and label as the ledger reads them (E-51); neither for what is unknown or cannot be read."""
    label = sidecar_label(value.get("label") if isinstance(value, Mapping) else value)
    score = value.get("score") if isinstance(value, Mapping) else value
    number = parse_importance(score) if not isinstance(score, Mapping) and is_importance(score) else None
    if label is None and number is not None:
        label = label_of_score(number)
    return (SCORE_OF[label] if number is None else number, label) if label else (None, None)


def _upstream_importance(value: Any) -> tuple[float | None, str | None]:
    """Return score and label as the sidecar's writeback reads them: no percentages, and no labels as plain text."""
    label = _plain_label(value.get("label")) if isinstance(value, Mapping) else None
    number = _number(value.get("score") if isinstance(value, Mapping) else value)
    if number is None:
        return (SCORE_OF[label], label) if label else (None, None)
    return number, label or label_of_score(number)


def _plain_label(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.strip().lower()
    name = {"low": IGNORE, "medium": NICE, "high": MUST}.get(text) or text.replace("-", "_").replace(" ", "_")
    return name if name in LABELS else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    # What is no number becomes 1 in the sidecar: min(1.0, nan) is 1.0 in Python.
    return max(0.0, min(1.0, number))


def trust_of(detail: Mapping[str, Any]) -> str | None:
    """Return the trust tier that a detail or its provenance names; None for an unknown one."""
    provenance = detail.get("provenance")
    for source in (detail, provenance if isinstance(provenance, Mapping) else {}):
        for key in _TRUST_KEYS:
            value = source.get(key)
            name = value.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(value, str) else ""
            name = "quarantined" if name == "quarantine" else name
            if name in TRUSTS:
                return name
    return None
