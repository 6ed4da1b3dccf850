"""The JSON Schema (2020-12) of the ``lab`` format: one line of a recording or of a golden set.

A schema can check only one line at a time. Errors across lines (duplicate keys, times that run backwards, unknown
memories) are found by ``lab recordings validate`` and ``lab golden lint``.
"""

from __future__ import annotations

from typing import Any

from lab.golden.read import FIELDS as PROBE_FIELDS
from lab.golden.read import HIGHEST
from lab.recordings.model import LABELS, ORIGINS, SOURCE_KINDS
from lab.recordings.native import CATEGORIES, FIELDS, ROLES, SCHEMA

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: dict[str, Any] = {"type": "string"}
_NAME = {"type": "string", "pattern": r"^(?=.*\S)[^/#]+$"}
_TIME = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$",
    "description": "ISO 8601 with a time zone",
}
_JUDGEMENTS = {"type": "array", "items": {"$ref": "#/$defs/judgement"}}
_KNOWN: dict[str, dict[str, Any]] = {
    "session": {
        "session": {"type": "string", "pattern": r"^(?=.*\S)[^/]+$"},
        "time": _TIME,
        "scope": _TEXT,
    },
    "turn": {
        "turn": _NAME,
        "role": {"enum": list(ROLES)},
        "text": _TEXT,
        "time": _TIME,
        "speaker": _TEXT,
        "scope": _TEXT,
        "said": _TEXT,
        "index_text": _TEXT,
    },
    "memory": {
        "key": {"type": "string", "pattern": "^[^/#]+/"},
        "time": _TIME,
        "text": _TEXT,
        "index_text": _TEXT,
        "category": {"enum": list(CATEGORIES)},
        "importance_label": {"enum": [*LABELS, None]},
        "scope": _TEXT,
        "supersedes": {"type": "array", "items": _TEXT},
        "trust": _TEXT,
        "hard_rule": {"type": "boolean"},
        "source_kind": {"enum": ["", *SOURCE_KINDS]},
        "source_ref": _TEXT,
        "lang": _TEXT,
        "due_at": _TIME,
        "media_refs": {"type": "array", "items": _TEXT},
        "media_kind": _TEXT,
        "forgotten_after": {"type": "string", "pattern": "^[^/]+/[^/]+/."},
    },
    "probe": {
        "turn": {"type": ["string", "null"], "pattern": "^[^/]+/[^/]+/."},
        "id": _TEXT,
        "conversation": _TEXT,
        "query": {"type": ["string", "null"]},
        "type": _TEXT,
        "condition": _TEXT,
        "slices": {"type": "object", "additionalProperties": _TEXT},
        "reason": _TEXT,
        "relevant": _JUDGEMENTS,
        "forbidden": _JUDGEMENTS,
        "irrelevant": {"type": "array", "items": _TEXT, "uniqueItems": True},
    },
}
_NEEDED = {"session": ["session", "time"], "turn": ["turn", "role", "text"], "memory": ["text"], "probe": []}


def line_schema() -> dict[str, Any]:
    """Return the schema of a line, with one branch per ``kind``.

    Each kind has its own ``if``, so that a validator reports the wrong field instead of every kind that did not match.
    """
    fields = FIELDS | {"probe": PROBE_FIELDS}
    kinds = {kind: _object(kind, fields[kind]) for kind in _KNOWN}
    # A probe names a turn or has its own query, never both.
    kinds["probe"] |= {
        "if": {"required": ["turn"], "properties": {"turn": {"not": {"type": "null"}}}},
        "then": {"properties": {"query": {"type": "null"}}},
        "else": {"required": ["id", "conversation", "query"], "properties": {"query": {"type": "string"}}},
    }
    recording = {
        "type": "object",
        "description": "the first line of a recording; other fields, such as a title, are allowed",
        "properties": {
            "kind": {"const": "recording"},
            "schema": {"const": SCHEMA},
            "conversation": _NAME,
            "language": _TEXT,
            "origin": {"enum": list(ORIGINS)},
            "notes": {"type": "array", "items": _TEXT},
        },
        "required": ["kind", "schema", "conversation"],
    }
    judgement = {
        "type": "object",
        "properties": {
            "memory": _TEXT,
            "grade": {"type": "integer", "minimum": 1, "maximum": HIGHEST},
            "reason": _TEXT,
        },
        "required": ["memory"],
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:{SCHEMA}",
        "title": "One line of a recording or of a golden set",
        "type": "object",
        "properties": {"kind": {"enum": ["recording", *kinds]}},
        "required": ["kind"],
        "allOf": [
            {
                "if": {"required": ["kind"], "properties": {"kind": {"const": kind}}},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
            for kind in ("recording", *kinds)
        ],
        "$defs": {"recording": recording, **kinds, "judgement": judgement},
    }


def _object(kind: str, fields: set[str]) -> dict[str, Any]:
    # The reader's list of fields is authoritative: a field without a schema above may hold any value.
    described = {name: _KNOWN[kind].get(name, {}) for name in sorted(fields - {"kind"})}
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}} | described,
        "required": ["kind", *_NEEDED[kind]],
        "additionalProperties": False,
    }
