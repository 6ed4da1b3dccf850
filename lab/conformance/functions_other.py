"""Adapters: what is embedded, configuration, the docs lane's input, and the sidecar's grading (E-5, E-47 to E-53)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

from lab.conformance.functions_inject import unknown_function
from lab.conformance.values import UNDEFINED
from lab.errors import UnusableInput
from lab.retrieval.clamp import Clamp, clamp, is_too_long
from lab.systems.openclaw.config.values import normal_boolean, number_in_range, parse_env_boolean
from lab.systems.openclaw.docs.globs import glob_matches, read_tool_input
from lab.systems.openclaw.docs.scope import matches_scope, pushdown_repos, scope_token
from lab.systems.openclaw.upstream.js import js_text, text_or_blank
from lab.systems.openclaw.upstream.plugin import parse, resolve_embedding_clamp, resolve_section
from lab.systems.sidecar.heuristic import grade_observation
from lab.systems.sidecar.importance import graded_label, is_importance, parse_importance, sidecar_label
from lab.systems.sidecar.task_markers import has_task_marker, strip_task_prefix
from lab.utf16 import js_utf8

Value = dict[str, Any]


def embedding_clamp(record: Value) -> Any:
    """``clampEmbeddingInput``, its configuration, and the refusals that mean "too long"."""
    given, name = record["input"], record["fn"]
    if name == "looksLikeEmbeddingInputTooLongMessage":
        return is_too_long(as_text(given.get("body")))
    if name == "resolveEmbeddingClampConfig":
        found = resolve_embedding_clamp(without_undefined(given["raw"]))
        return {key: UNDEFINED if value is None else value for key, value in found.items()}
    if name != "clampEmbeddingInput":
        raise unknown_function(name)
    text = given["repeat"][0] * given["repeat"][1] if "repeat" in given else as_text(given["text"])
    found = shown_clamp(text, given["cfg"])
    digest = hashlib.sha1(js_utf8(found["text"]), usedforsecurity=False).hexdigest()
    if "textUtf8Sha1" in record["output"]:
        found["textUtf8Sha1"] = digest
        del found["text"]
    return found


def shown_clamp(text: str, config: Value) -> Value:
    """What the plugin answers for a text."""
    # The plugin floors what it is given, and takes a text for no limit at all.
    octets: Any = config.get("maxBytes")
    if isinstance(octets, str):
        octets = None
    limits = Clamp(config.get("maxChars", 6000), config.get("headChars", 500), octets)
    found = clamp(text, limits)
    return {
        "text": found.text,
        "clipped": found.clipped,
        "originalChars": found.original_chars,
        "clampedChars": found.clamped_chars,
        "originalBytes": found.original_bytes,
        "clampedBytes": found.clamped_bytes,
        "maxChars": found.limits.max_chars,
        "headChars": found.limits.head_chars,
        "maxBytes": found.limits.max_bytes,
    }


def config(record: Value) -> Any:
    """The parser of the whole configuration, the resolver of a section, and what they read values with."""
    given, kind = record["input"], record["kind"]
    if kind == "resolve":
        return resolve_section(record["section"], without_undefined(given))
    if kind == "parse":
        try:
            return {"value": as_json(parse(without_undefined(given)))}
        except UnusableInput as error:
            return {"error": str(error)}
    if kind == "parseEnvBoolean":
        found = parse_env_boolean(given if isinstance(given, str) else None)
        return UNDEFINED if found is None else found
    if kind == "normalizeBoolean":
        return normal_boolean(given.get("raw"), given["fallback"])
    if kind == "normalizeNumberInRange":
        options = given["options"]
        whole = bool(options.get("integer", False))
        return number_in_range(given.get("raw"), given["fallback"], options["min"], options["max"], whole)
    raise unknown_function(kind)


def heuristic_v1(record: Value) -> Any:
    """``grade_observation``."""
    return grade_observation(record["input"])._asdict()


SIDECAR: dict[str, Callable[[Any], Any]] = {
    "label_from_score": graded_label,
    "normalize_label": sidecar_label,
    "parse_importance_score": parse_importance,
    "is_parseable_importance": is_importance,
    "summary_has_task_marker": lambda text: has_task_marker(text or ""),
    "strip_markdown_task_prefix": lambda text: strip_task_prefix(text or ""),
}


def sidecar_importance(record: Value) -> Any:
    """The sidecar's readings of an importance and of task markers."""
    if record["fn"] not in SIDECAR:
        raise unknown_function(record["fn"])
    return SIDECAR[record["fn"]](record["input"])


def docs_input(record: Value) -> Any:
    """The input of the docs tools, globs, and scopes in the docs lane."""
    given, name = record["input"], record["fn"]
    if name == "normalizeDocsColdLaneToolInput":
        asked = read_tool_input(given)
        return {
            "overrideRootsProvided": asked.overrides,
            "requestedSourceRoots": list(asked.roots),
            "requestedSourceGlobs": list(asked.globs),
            "sourceRootsInvalid": asked.invalid,
            "droppedSourceRoots": asked.dropped_roots,
            "droppedSourceGlobs": asked.dropped_globs,
        }
    if name == "globMatches":
        return [glob_matches(given["glob"], path) for path in given["paths"]]
    given = without_undefined(given)
    # The plugin takes any value for a scope: nothing at all (null) is blank.
    scope = text_or_blank(given.get("scope"))
    if name == "normalizeScopeToken(docs)":
        return scope_token(scope)
    if name == "computeScopePushdownRepos":
        return pushdown_repos(scope, given.get("strategy"), _scope_map(given))
    if name == "matchesScope":
        repo, path = (text_or_blank(given["row"].get(key)) for key in ("repo", "path"))
        return matches_scope(repo, path, scope, given.get("strategy"), _scope_map(given))
    raise unknown_function(name)


def _scope_map(given: Value) -> dict[str, list[str]]:
    found = given.get("scopeMap") or {}
    return {name: [text_or_blank(one) for one in entries or ()] for name, entries in found.items()}


def without_undefined(value: Any) -> Any:
    """The value without what is undefined: keys go, a whole that is undefined is None."""
    if isinstance(value, dict):
        return {key: without_undefined(one) for key, one in value.items() if one is not UNDEFINED}
    if isinstance(value, list):
        return [without_undefined(one) for one in value]
    return None if value is UNDEFINED else value


def as_json(value: Any) -> Any:
    """A value after a way through JSON, which has no number that is not finite."""
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_text(value: Any) -> str:
    """A recorded value as a text, as the plugin makes one: nothing is the empty text."""
    return js_text(without_undefined(value))
