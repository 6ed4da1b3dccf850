"""Resolve the values of a configuration: use and clamp what is valid, else use the default (E-5).

This is the plugin's behaviour; :mod:`lab.systems.openclaw.config.check` first refuses what it would silently ignore.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from lab.base.utf16 import WHITESPACE
from lab.systems.openclaw.config.knob import SEED, UPSTREAM, Knob, Section
from lab.systems.openclaw.config.table import MOST_FALLBACKS
from lab.systems.openclaw.recall.scope import scope_token
from lab.systems.openclaw.upstream.js import js_number

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def parse_env_boolean(raw: str | None) -> bool | None:
    """Parse an environment variable as a boolean, including ``y`` and ``n``; None if it is neither."""
    word = (raw or "").strip(WHITESPACE).lower()
    return True if word in (*_TRUE, "y") else False if word in (*_FALSE, "n") else None


def normal_boolean(raw: object, fallback: bool) -> bool:
    """Return a boolean as the plugin reads it: all numbers but 0 are true (also NaN), some words are either."""
    if isinstance(raw, bool | int | float):
        return bool(raw)
    word = raw.strip(WHITESPACE).lower() if isinstance(raw, str) else ""
    return True if word in _TRUE else False if word in _FALSE else fallback


def number_in_range(raw: object, fallback: float, low: float, high: float, whole: bool = False) -> float:
    """Return a number or numeric string, floored if ``whole``, and clamped; ``fallback`` if it is not finite."""
    value = finite(js_number(raw) if isinstance(raw, str) else raw)
    if value is None:
        return fallback
    return max(low, min(high, math.floor(value) if whole else value))


def finite(raw: object) -> float | None:
    """Return a number that is finite in JavaScript; None for anything else."""
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    try:
        return raw if math.isfinite(float(raw)) else None
    except OverflowError:
        return None


def section_values(name: str, section: Section, raw: object, profile: str) -> dict[str, Any]:
    """Return the resolved values of a section under a profile. Keys without a value are left out."""
    given = raw if isinstance(raw, Mapping) else {}
    switched_on = raw is True and section.true_is_on
    values: dict[str, Any] = {}
    for key, entry in section.keys.items():
        if entry.only_seed and profile == UPSTREAM:
            continue
        if isinstance(entry, Section):
            values[key] = section_values(key, entry, True if switched_on else given.get(key), profile)
        else:
            values[key] = _value_of(entry, given.get(key), profile)
    if "enabled" in values and (raw is False or switched_on):
        values["enabled"] = switched_on
    return present(_RELATED.get(name, _unchanged)(values, profile))


def _value_of(knob: Knob, raw: object, profile: str) -> Any:
    """Resolve one value: what is valid in ``raw``, clamped, or else the default."""
    default, high = knob.default_in(profile), knob.high_in(profile)
    if knob.kind == "flag":
        return normal_boolean(raw, default)
    if knob.kind == "whole":
        return int(number_in_range(raw, default, knob.low, high, whole=True))
    if knob.kind == "number":
        return float(number_in_range(raw, default, knob.low, high))
    if knob.kind == "positive":
        value = finite(js_number(raw) if isinstance(raw, str) else raw)
        return math.floor(value) if value is not None and value > 0 else default
    if knob.kind in ("choice", "word"):
        return raw if isinstance(raw, str) and raw in knob.choices else default
    if knob.kind in ("text", "secret"):
        return (raw.strip(WHITESPACE) if isinstance(raw, str) else "") or default
    if knob.kind == "scope":
        token = scope_token(raw)
        return default if token is None else token
    if knob.kind == "map":
        return _scope_map(raw, int(high)) or dict(default)
    if not isinstance(raw, list | tuple):
        return list(default)
    if knob.kind == "scopes":
        return [token for token in map(scope_token, raw) if token]
    strings = strings_of(raw)
    kept = [string for string in strings if string.strip(WHITESPACE)]
    if knob.kind == "texts":
        kept = [string.strip(WHITESPACE) for string in kept]
    kept = kept if math.isinf(high) else kept[: int(high)]
    return list(default) if knob.refill and not kept else kept


def _scope_map(raw: object, most: int) -> dict[str, list[str]]:
    """Return the path prefixes by scope, without scopes that have none."""
    scope_map: dict[str, list[str]] = {}
    for name, prefixes in raw.items() if isinstance(raw, Mapping) else ():
        token = scope_token(name)
        paths = [prefix.strip(WHITESPACE).lstrip("/") for prefix in strings_of(prefixes)]
        if token and any(paths):
            scope_map[token] = [path for path in paths if path][:most]
    return scope_map


def _scopes_in_bounds(values: dict[str, Any], profile: str) -> dict[str, Any]:
    """Cut names to the allowed length; keep at most six distinct fallbacks.

    The plugin drops the default scope from the fallbacks. Profile ``seed`` keeps it, because a turn of another scope
    can reach it in no other way.
    """
    cut = values["maxScopeLength"]
    default = values["defaultScope"][:cut]
    fallbacks = dict.fromkeys(scope[:cut] for scope in values["fallbackScopes"])
    if profile != SEED:
        fallbacks.pop(default, None)
    return values | {"defaultScope": default, "fallbackScopes": list(fallbacks)[:MOST_FALLBACKS]}


def _head_in_bounds(values: dict[str, Any], profile: str) -> dict[str, Any]:
    return values | {"headChars": min(values["headChars"], values["maxChars"])}


def _unchanged(values: dict[str, Any], profile: str) -> dict[str, Any]:
    return values


_RELATED = {"scopePolicy": _scopes_in_bounds, "embedding": _head_in_bounds}


def strings_of(raw: object) -> list[str]:
    """Return the strings of a list; an empty list for any other value."""
    items: Iterable[Any] = raw if isinstance(raw, list | tuple) else ()
    return [item for item in items if isinstance(item, str)]


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None."""
    return {key: value for key, value in values.items() if value is not None}
