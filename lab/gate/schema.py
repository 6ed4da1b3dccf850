"""JSON Schemas (2020-12) of a policy, built from its keys, and of verdict.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lab.gate.keys import ARMS, CONTROL, CONTROL_ARM, HEAD, ONE_OF, REQUIRED, RULES, TEXT, Key
from lab.gate.labels import LABELS
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, OF_NIGHTLY, PASS, SKIPPED
from lab.gate.verdict import SCHEMA

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT, _FLAG = {"type": "string"}, {"type": "boolean"}
_MAYBE_TEXT, _MAYBE_NUMBER = {"type": ["string", "null"]}, {"type": ["number", "null"]}
_COUNT, _MAYBE_COUNT = {"type": "integer", "minimum": 0}, {"type": ["integer", "null"], "minimum": 0}
_VERDICTS = [PASS, FAIL, INCONCLUSIVE, ERROR]


def policy_schema() -> dict[str, Any]:
    """Return the schema of a policy, as parsed from TOML."""
    arms = {name: Key(TEXT, f"An arm, or DIR:ARM; {arm}.") for name, arm in ARMS.items()}
    rules = {
        kind: {"type": "array", "items": _object(keys, REQUIRED[kind], ONE_OF.get(kind, ()))}
        for kind, keys in RULES.items()
    }
    schema = _object(HEAD, ("name", "about"), tuple(RULES))
    schema["properties"] |= {"comparison": _object(arms, ()), CONTROL_ARM: _object(CONTROL, tuple(CONTROL)), **rules}
    return {"$schema": DIALECT, "$id": "lab.policy.v1", "title": "A policy of lab gate"} | schema


def _object(keys: Mapping[str, Key], required: tuple[str, ...], one_of: tuple[str, ...] = ()) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"description": key.about, **key.form.schema} for name, key in keys.items()},
    }
    if required:
        schema["required"] = list(required)
    if one_of:
        schema["anyOf"] = [{"required": [name]} for name in one_of]
    return schema


def verdict_schema() -> dict[str, Any]:
    """Return the schema of verdict.json."""
    sequence = {
        **dict.fromkeys(("sessions", "rules", "worst"), _COUNT),
        **dict.fromkeys(("decided", "to_pass", "to_fail"), _MAYBE_COUNT),
        "time": _MAYBE_TEXT,
        "error": {"type": "number"},
        "pass_limit": {"type": "number"},
    }
    line = {
        "kind": {"enum": [*RULES, LABELS, *OF_NIGHTLY]},
        "measure": _TEXT,
        "status": {"enum": [*_VERDICTS, SKIPPED]},
        "critical": _FLAG,
        "reason": _TEXT,
        "settles": _MAYBE_TEXT,
        **dict.fromkeys(("baseline", "candidate", "difference", "low", "high"), _MAYBE_NUMBER),
        **dict.fromkeys(("conversations", "n"), _MAYBE_COUNT),
        **dict.fromkeys(("limit", "slice", "against"), _MAYBE_TEXT),
        "more_recalls": _MAYBE_COUNT,
        **dict.fromkeys(("confidence", "threshold"), _MAYBE_NUMBER),
        "unmeasured": _FLAG,
        "sequence": {"anyOf": [{"type": "null"}, _closed(sequence)]},
    }
    audit = {
        "silent": _MAYBE_TEXT,
        "files": {"type": "array", "items": _TEXT},
        **dict.fromkeys(("receipts", "answered"), _COUNT),
        **dict.fromkeys(("first_time", "last_time"), _MAYBE_TEXT),
    }
    evidence = {
        "policy": _TEXT,
        "run": _MAYBE_TEXT,
        "others": {"type": "object", "additionalProperties": _TEXT},
        **dict.fromkeys(("policy_file", "audit", "audit_file"), _MAYBE_TEXT),
        "record": {"type": ["object", "null"]},
        "does_not_show": {"type": "array", "items": _TEXT},
    }
    answer = {"arm": _TEXT, "status": {"enum": _VERDICTS}, "sentence": _TEXT}
    shares = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
    judged = {
        "k": _COUNT,
        "shares": shares,
        "apart": _MAYBE_TEXT,
    }
    names = {"type": "array", "items": _TEXT}
    named = {"type": "array", "items": _closed(dict.fromkeys(("probe", "memory", "called"), _TEXT))}
    turns = {
        **dict.fromkeys(("sentence", "status"), _TEXT),
        "judgements": _COUNT,
        "wrong": _closed({"least": _COUNT, "most": _MAYBE_COUNT, "named": named}),
        "at_random": shares,
        "unjudged": _closed({"memories": _COUNT, "most": _MAYBE_COUNT}),
        "rules": {"type": "object", "additionalProperties": _TEXT},
        "fixed": names,
    }
    verdict = {
        "schema": {"const": SCHEMA},
        **dict.fromkeys(("policy", "about"), _TEXT),
        **dict.fromkeys(("run", "baseline", "candidate"), _MAYBE_TEXT),
        "status": {"enum": _VERDICTS},
        "lines": {"type": "array", "minItems": 1, "items": _closed(line)},
        **dict.fromkeys(("rollback", "against", "undone"), _MAYBE_TEXT),
        "audit": {"anyOf": [{"type": "null"}, _closed(audit)]},
        **{name: {"type": "array", "items": _TEXT} for name in ("embedder", "trial")},
        "evidence": {"anyOf": [{"type": "null"}, _closed(evidence)]},
        "control": {"anyOf": [{"type": "null"}, _closed(answer)]},
        "judged": {"anyOf": [{"type": "null"}, _closed(judged)]},
        "turns": {"anyOf": [{"type": "null"}, _closed(turns)]},
    }
    return {"$schema": DIALECT, "$id": SCHEMA, "title": "verdict.json of lab gate"} | _closed(verdict)


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {"verdict": verdict_schema, "policy": policy_schema}
