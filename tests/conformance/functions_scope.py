"""Adapters for skipped prompts and scopes (E-19, E-30, E-31)."""

from __future__ import annotations

from typing import Any

from lab.systems.openclaw.recall.scope import (
    ScopePolicy,
    find_tag,
    normalise,
    resolve_scope,
    scope_plan,
    scope_token,
    strip_decorations,
)
from lab.systems.openclaw.recall.trivial import is_trivial
from tests.conformance.values import UNDEFINED

Value = dict[str, Any]


def policy_of(raw: Value) -> ScopePolicy:
    """Return the scope policy from a record's resolved ``scopePolicy``."""
    return ScopePolicy(
        raw["enabled"],
        raw["defaultScope"],
        tuple(raw["fallbackScopes"]),
        raw["validationMode"],
        raw["maxScopeLength"],
        raw.get("fallbackMarker", True),
        raw.get("skipFallbackOnInvalidScope", True),
    )


def text_or_none(value: Any) -> str | None:
    """Return a string unchanged, and None for any other value."""
    return value if isinstance(value, str) else None


def skip_prompt(record: Value) -> Any:
    """Run ``shouldSkipAutoRecallPrompt``."""
    config = record["input"]["cfg"]
    return is_trivial(record["input"]["prompt"], skip=config["skipTrivialPrompts"], min_chars=config["trivialMinChars"])


def normalize(record: Value) -> Any:
    """Run ``normalizeResolvedScope``."""
    given = record["input"]
    return normalise(text_or_none(given.get("raw")), policy_of(given["policy"]))._asdict()


def token(record: Value) -> Any:
    """Run ``normalizeScopeToken`` and ``normalizeAdminScope``, which returns null instead of an empty name."""
    name = scope_token(record["input"].get("raw"))
    return {"token": name, "admin": name or None}


def extract(record: Value) -> Any:
    """Run ``extractScopeFromText`` or ``stripScopeTagLinePrefix``."""
    if record.get("fn"):
        return strip_decorations(record["input"]["line"])
    return find_tag(text_or_none(record["input"].get("text")) or "")


def resolve(record: Value) -> Any:
    """Run ``resolveScope``."""
    given = record["input"]
    explicit, text = text_or_none(given.get("explicitScope")), text_or_none(given.get("text")) or ""
    mode, resolved = resolve_scope(explicit, text, policy_of(given["policy"]))
    return {"scope": resolved.scope, "scopeMode": mode, "invalid": resolved.invalid, "normalized": resolved.normalized}


def plan(record: Value) -> Any:
    """Run ``buildScopeRecallPlan``."""
    given = record["input"]
    options = given.get("options")
    allowed = options.get("allowFallback", True) if isinstance(options, dict) else True
    scopes = scope_plan(
        given["primary"], policy_of(given["policy"]), allow_fallback=allowed is UNDEFINED or allowed is not False
    )
    return [{"scope": scope, "origin": origin} for scope, origin in scopes]
