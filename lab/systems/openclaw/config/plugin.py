"""How the public plugin reads its configuration: what it refuses, what it passes over, what it clamps (spec 1).

Two steps. :func:`parse` checks the whole and keeps the values that have the right type; it refuses unknown keys and
wrong sections in the plugin's own words. :func:`resolve_section` fills in defaults and clamps; it alone is more
tolerant than both together ("3" is a number). What JavaScript calls undefined is None here, or a key that is absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from lab.errors import UnusableInput
from lab.systems.openclaw.config.table import MOST_FALLBACKS, PLUGIN, UPSTREAM, Knob, Section
from lab.systems.openclaw.js import js_number
from lab.systems.openclaw.recall.scope import scope_token
from lab.utf16 import WHITESPACE

_NAME = "openclaw-mem-engine config"
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def parse(raw: Any) -> dict[str, Any]:
    """A whole configuration as the plugin's parser leaves it: no defaults, no clamps, wrong values left out.

    Raises :class:`UnusableInput` with the plugin's own message for unknown keys and sections of another type.
    """
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise UnusableInput(f"{_NAME} must be an object")
    _refuse_unknown(raw, PLUGIN, _NAME)
    found: dict[str, Any] = {}
    for name, entry in PLUGIN.items():
        found[name] = _picked(entry, raw.get(name), name)
        if name == "embedding":
            # The plugin looks at the shape of one section before it reads the others.
            _demand_shape(PLUGIN["retrievalBackend"], raw.get("retrievalBackend"), "retrievalBackend")
    return _present(found)


def resolve_section(name: str, raw: Any) -> dict[str, Any]:
    """One section with every value decided, as the plugin decides it; whatever cannot be used is the default."""
    section = PLUGIN[name]
    if not isinstance(section, Section):
        raise UnusableInput(f"{name!r} is no section of the configuration")
    return settled(name, section, raw, UPSTREAM)


def resolve_embedding_clamp(raw: Any) -> dict[str, Any]:
    """The limits of what is embedded (spec 14.1): ``maxChars``, ``headChars``, and ``maxBytes`` (None: no limit)."""
    values = resolve_section("embedding", raw)
    return {"maxChars": values["maxChars"], "headChars": values["headChars"], "maxBytes": values.get("maxBytes")}


def parse_env_boolean(raw: str | None) -> bool | None:
    """An environment variable as a switch; None where it says neither. Here ``y`` and ``n`` count."""
    word = (raw or "").strip(WHITESPACE).lower()
    return True if word in (*_TRUE, "y") else False if word in (*_FALSE, "n") else None


def normal_boolean(raw: Any, fallback: bool) -> bool:
    """A boolean as the plugin reads one: numbers but 0 are true (NaN, too), some words are either."""
    if isinstance(raw, bool | int | float):
        return bool(raw)
    word = raw.strip(WHITESPACE).lower() if isinstance(raw, str) else ""
    return True if word in _TRUE else False if word in _FALSE else fallback


def number_in_range(raw: Any, fallback: float, low: float, high: float, whole: bool = False) -> float:
    """A number, or a string of one, floored where ``whole`` and clamped; ``fallback`` where it is none or endless."""
    value = finite(js_number(raw) if isinstance(raw, str) else raw)
    if value is None:
        return fallback
    return max(low, min(high, math.floor(value) if whole else value))


def finite(raw: Any) -> float | None:
    """A number that JavaScript holds as a finite one; None for anything else."""
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    try:
        return raw if math.isfinite(float(raw)) else None
    except OverflowError:
        return None


def settled(name: str, section: Section, raw: Any, profile: str) -> dict[str, Any]:
    """A section with every value decided under a profile. Keys without a value are left out."""
    given = raw if isinstance(raw, Mapping) else {}
    switched_on = raw is True and section.true_is_on
    values: dict[str, Any] = {}
    for key, entry in section.keys.items():
        if entry.only_seed and profile == UPSTREAM:
            continue
        if isinstance(entry, Section):
            values[key] = settled(key, entry, True if switched_on else given.get(key), profile)
        else:
            values[key] = _settle(entry, given.get(key), profile)
    if "enabled" in values and (raw is False or switched_on):
        values["enabled"] = switched_on
    return _present(_RELATED.get(name, _as_it_is)(values))


def _settle(knob: Knob, raw: Any, profile: str) -> Any:
    """One value: what is usable in ``raw``, clamped, or else the default."""
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
    bare = _strings(raw)
    kept = [one for one in bare if one.strip(WHITESPACE)]
    if knob.kind == "texts":
        kept = [one.strip(WHITESPACE) for one in kept]
    kept = kept if math.isinf(high) else kept[: int(high)]
    return list(default) if knob.refill and not kept else kept


def _scope_map(raw: Any, most: int) -> dict[str, list[str]]:
    """Scopes and the path prefixes that belong to them; what is left of none is left out."""
    found: dict[str, list[str]] = {}
    for name, prefixes in raw.items() if isinstance(raw, Mapping) else ():
        token = scope_token(name)
        bare = [one.strip(WHITESPACE).lstrip("/") for one in _strings(prefixes)]
        if token and any(bare):
            found[token] = [one for one in bare if one][:most]
    return found


def _scopes_in_bounds(values: dict[str, Any]) -> dict[str, Any]:
    """Names cut to the length allowed; fallbacks that are others than the default, once each, six at most."""
    cut = values["maxScopeLength"]
    default = values["defaultScope"][:cut]
    fallbacks = dict.fromkeys(one[:cut] for one in values["fallbackScopes"])
    fallbacks.pop(default, None)
    return values | {"defaultScope": default, "fallbackScopes": list(fallbacks)[:MOST_FALLBACKS]}


def _head_in_bounds(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"headChars": min(values["headChars"], values["maxChars"])}


def _as_it_is(values: dict[str, Any]) -> dict[str, Any]:
    return values


_RELATED = {"scopePolicy": _scopes_in_bounds, "embedding": _head_in_bounds}


def _picked(entry: Knob | Section, raw: Any, path: str) -> Any:
    """What the parser keeps of a value; None: nothing."""
    if isinstance(entry, Knob):
        return _pick(entry, raw)
    if raw is None or (isinstance(raw, bool) and entry.boolean):
        return raw
    _demand_shape(entry, raw, path)
    if not isinstance(raw, Mapping):
        return None
    if entry.closed:
        _refuse_unknown(raw, entry.keys, f"{path} config")
    return _present(
        {key: _picked(inner, raw.get(key), f"{path}.{key}") for key, inner in entry.keys.items() if not inner.only_seed}
    )


def _pick(knob: Knob, raw: Any) -> Any:
    if knob.kind == "flag":
        return raw if isinstance(raw, bool) else None
    if knob.kind in ("whole", "number", "positive"):
        return raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None
    if knob.kind == "choice":
        return raw if isinstance(raw, str) and raw in knob.choices else None
    if knob.kind in ("texts", "args", "scopes"):
        return _strings(raw) if isinstance(raw, list | tuple) else None
    if knob.kind == "map":
        return {name: _strings(inner) for name, inner in raw.items()} if isinstance(raw, Mapping) else None
    return raw if isinstance(raw, str) else None


def _demand_shape(entry: Knob | Section, raw: Any, path: str) -> None:
    if isinstance(entry, Section) and entry.wrong and raw is not None and not isinstance(raw, Mapping):
        raise UnusableInput(entry.wrong.format(path))


def _refuse_unknown(raw: Mapping[str, Any], known: Mapping[str, Knob | Section], label: str) -> None:
    unknown = [key for key in raw if key not in known or known[key].only_seed]
    if unknown:
        raise UnusableInput(f"{label} has unknown keys: {', '.join(unknown)}")


def _strings(raw: Any) -> list[str]:
    items: Iterable[Any] = raw if isinstance(raw, list | tuple) else ()
    return [one for one in items if isinstance(one, str)]


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
