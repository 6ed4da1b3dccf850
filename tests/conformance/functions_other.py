"""Adapters for the embedding clamp, configuration, the docs lane's input and the sidecar (E-5, E-47 to E-53)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.utf16 import js_utf8
from lab.retrieval.clamp import Clamp, clamp
from lab.systems.openclaw.config.values import normal_boolean, number_in_range, parse_env_boolean
from lab.systems.openclaw.docs.globs import glob_matches, read_tool_input
from lab.systems.openclaw.docs.lane import matches_scope, pushdown_repos, scope_token
from lab.systems.openclaw.js import js_text, text_or_blank
from lab.systems.sidecar import (
    grade_observation,
    graded_label,
    has_task_marker,
    is_importance,
    parse_importance,
    sidecar_label,
    strip_task_prefix,
)
from tests.conformance.functions_inject import unknown_function
from tests.conformance.plugin_config import parse, resolve_embedding_clamp, resolve_section
from tests.conformance.plugin_rules import is_too_long
from tests.conformance.values import UNDEFINED

Value = dict[str, Any]


def embedding_clamp(record: Value) -> Any:
    """Run ``clampEmbeddingInput``, resolve its configuration, or classify a provider's error as "too long"."""
    given, name = record["input"], record["fn"]
    if name == "looksLikeEmbeddingInputTooLongMessage":
        return is_too_long(as_text(given.get("body")))
    if name == "resolveEmbeddingClampConfig":
        result = resolve_embedding_clamp(without_undefined(given["raw"]))
        return {key: UNDEFINED if value is None else value for key, value in result.items()}
    if name != "clampEmbeddingInput":
        raise unknown_function(name)
    text = given["repeat"][0] * given["repeat"][1] if "repeat" in given else as_text(given["text"])
    result = shown_clamp(text, given["cfg"])
    digest = hashlib.sha1(js_utf8(result["text"]), usedforsecurity=False).hexdigest()
    if "textUtf8Sha1" in record["output"]:
        result["textUtf8Sha1"] = digest
        del result["text"]
    return result


def shown_clamp(text: str, config: Value) -> Value:
    """Return the clamp of a text in the plugin's form."""
    # The plugin ignores a limit that is a string.
    octets: Any = config.get("maxBytes")
    if isinstance(octets, str):
        octets = None
    limits = Clamp(config.get("maxChars", 6000), config.get("headChars", 500), octets)
    clamped = clamp(text, limits)
    return {
        "text": clamped.text,
        "clipped": clamped.clipped,
        "originalChars": clamped.original_chars,
        "clampedChars": clamped.clamped_chars,
        "originalBytes": clamped.original_bytes,
        "clampedBytes": clamped.clamped_bytes,
        "maxChars": clamped.limits.max_chars,
        "headChars": clamped.limits.head_chars,
        "maxBytes": clamped.limits.max_bytes,
    }


def config(record: Value) -> Any:
    """Run the configuration parser, the resolver of a section, or the functions that read single values."""
    given, kind = record["input"], record["kind"]
    if kind == "resolve":
        return resolve_section(record["section"], without_undefined(given))
    if kind == "parse":
        try:
            return {"value": as_json(parse(without_undefined(given)))}
        except UnusableInput as error:
            return {"error": str(error)}
    if kind == "parseEnvBoolean":
        boolean = parse_env_boolean(given if isinstance(given, str) else None)
        return UNDEFINED if boolean is None else boolean
    if kind == "normalizeBoolean":
        return normal_boolean(given.get("raw"), given["fallback"])
    if kind == "normalizeNumberInRange":
        options = given["options"]
        integer = bool(options.get("integer", False))
        return number_in_range(given.get("raw"), given["fallback"], options["min"], options["max"], integer)
    raise unknown_function(kind)


def heuristic_v1(record: Value) -> Any:
    """Run ``grade_observation``."""
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
    """Run the sidecar's functions on importance and task markers."""
    if record["fn"] not in SIDECAR:
        raise unknown_function(record["fn"])
    return SIDECAR[record["fn"]](record["input"])


def docs_input(record: Value) -> Any:
    """Run the functions on the docs tools' input, and on globs and scopes of the docs lane."""
    given, name = record["input"], record["fn"]
    if name == "normalizeDocsColdLaneToolInput":
        parsed = read_tool_input(given)
        return {
            "overrideRootsProvided": parsed.overrides,
            "requestedSourceRoots": list(parsed.roots),
            "requestedSourceGlobs": list(parsed.globs),
            "sourceRootsInvalid": parsed.invalid,
            "droppedSourceRoots": parsed.dropped_roots,
            "droppedSourceGlobs": parsed.dropped_globs,
        }
    if name == "globMatches":
        return [glob_matches(given["glob"], path) for path in given["paths"]]
    given = without_undefined(given)
    # The plugin accepts any value as a scope; null is blank.
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
    scope_map = given.get("scopeMap") or {}
    return {name: [text_or_blank(entry) for entry in entries or ()] for name, entries in scope_map.items()}


def without_undefined(value: Any) -> Any:
    """Return the value without keys that are undefined; undefined itself becomes None."""
    if isinstance(value, dict):
        return {key: without_undefined(inner) for key, inner in value.items() if inner is not UNDEFINED}
    if isinstance(value, list):
        return [without_undefined(inner) for inner in value]
    return None if value is UNDEFINED else value


def as_json(value: Any) -> Any:
    """Return a value as JSON represents it, which has no non-finite numbers."""
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_text(value: Any) -> str:
    """Convert a recorded value to a string as the plugin does; undefined becomes the empty string."""
    return js_text(without_undefined(value))
