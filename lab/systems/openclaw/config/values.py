"""The values of a configuration: refuse what is invalid, name what is not implemented, resolve the rest (E-5).

:func:`section_values` is the plugin's behaviour: it uses and clamps what is valid, else it uses the default.
:func:`complaints` are the lab's: unknown keys and values of another type, which the plugin would silently ignore.

:func:`missing` are keys that the lab does not implement (docs/engine.md, "Not implemented here"). A live engine's file
contains many that recall never reads, such as those of capture and mirroring; they are reported and otherwise ignored.
Two cases are :func:`refused`: a value that changes recall in a way that the lab does not implement; and any of these
keys in a configuration written for the lab, where nothing else would read them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lab.base.shape import json_type
from lab.base.utf16 import WHITESPACE
from lab.systems.openclaw.config.table import LAB_KEY, MOST_FALLBACKS, PLUGIN, SEED, UPSTREAM, Knob, Section
from lab.systems.openclaw.js import js_number
from lab.systems.openclaw.recall.scope import scope_token

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
    if name == "scopePolicy":
        values = _scopes_in_bounds(values, profile)
    elif name == "embedding":
        values["headChars"] = min(values["headChars"], values["maxChars"])
    return present(values)


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


def strings_of(raw: object) -> list[str]:
    """Return the strings of a list; an empty list for any other value."""
    items: Iterable[Any] = raw if isinstance(raw, list | tuple) else ()
    return [item for item in items if isinstance(item, str)]


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None."""
    return {key: value for key, value in values.items() if value is not None}


MOST_SHOWN = 60


def complaints(section: Section, raw: object, path: str, profile: str) -> Iterator[tuple[str, str]]:
    """Yield path and complaint of everything invalid in a section. Secret values are never repeated."""
    if raw is None or (isinstance(raw, bool) and section.boolean):
        return
    if not isinstance(raw, Mapping):
        words = ["true", "false"] if section.boolean else list(section.presets)
        expected = f"{', '.join(words)} or an object" if words else "an object"
        # Do not repeat a string in place of a section: it may be a provider's key.
        yield path, f"expected {expected}, found {in_short(raw) if section.presets else json_type(raw)}"
        return
    known = sorted(key for key, entry in section.keys.items() if profile == SEED or not entry.only_seed)
    for key, value in raw.items():
        at, entry = f"{path}.{key}" if path else str(key), section.keys.get(key)
        if entry is None:
            yield at, f"unknown key; known: {', '.join(known)}"
        elif key not in known:
            yield at, f"unknown key in profile {profile!r}; it exists in profile {SEED!r} only"
        elif isinstance(entry, Section):
            yield from complaints(entry, value, at, profile)
        elif complaint := _complaint(entry, value):
            yield at, complaint


def _complaint(knob: Knob, value: object) -> str | None:
    """Return why a value is invalid; None if it is valid."""
    if knob.kind == "flag":
        return None if isinstance(value, bool) else f"expected true or false, found {in_short(value)}"
    if knob.kind in ("whole", "number"):
        return f"expected a number, found {in_short(value)}" if finite(value) is None else None
    if knob.kind == "positive":
        return f"expected a number from 1, found {in_short(value)}" if (finite(value) or 0) < 1 else None
    if knob.kind in ("choice", "word"):
        return None if value in knob.choices else f"expected one of {', '.join(knob.choices)}, found {in_short(value)}"
    if knob.kind == "map":
        if not isinstance(value, Mapping):
            return f"expected an object of lists, found {in_short(value)}"
        wrong = ((key, _complaint(Knob("texts"), inner)) for key, inner in value.items())
        return next((f"{key}: {what}" for key, what in wrong if what), None)
    if knob.kind in ("texts", "args", "scopes"):
        if not isinstance(value, list):
            return f"expected a list of strings, found {in_short(value)}"
        wrong = ((number, _complaint(Knob("text"), item)) for number, item in enumerate(value, 1))
        return next((f"item {number}: {what}" for number, what in wrong if what), None)
    if not isinstance(value, str):
        return f"expected a string, found {json_type(value) if knob.kind == 'secret' else in_short(value)}"
    return None if value.strip(WHITESPACE) else "is blank"


def in_short(value: object) -> str:
    """Return a value as JSON on one short line."""
    if isinstance(value, Mapping | list):
        return json_type(value)
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


NOT_HERE = "not implemented here"
# A feature of `lab memory store`: recall, and so a replay, never reads it.
STORE_ALONE, STORE_FEATURES = "used by lab memory store alone", ("weijiMemoryPreflight",)
_ALL = Section(PLUGIN, boolean=False)


def missing(config: object) -> tuple[str, ...]:
    """Return the paths of keys that are set and not implemented here, except in features that are switched off."""
    return tuple(_missing(_ALL, config, ""))


def why_missing(path: str) -> str:
    """Return the words for a key that recall does not read: another command uses it, or none does."""
    return STORE_ALONE if path.split(".")[0] in STORE_FEATURES else NOT_HERE


def refused(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield path and complaint of everything that is refused (see the module's docstring)."""
    yield from _unsupported_values(_ALL, config, "")
    if LAB_KEY in config or _has_lab_keys(_ALL, config):
        for path in missing(config):
            if why_missing(path) == NOT_HERE:
                yield path, f"{NOT_HERE}; leave it out of a configuration that is for the lab only"


def only_here(config: object, section: Section = _ALL) -> Any:
    """Return a configuration without the keys that are not implemented here."""
    if not isinstance(config, Mapping):
        return config
    kept: dict[str, Any] = {}
    for key, value in config.items():
        entry = section.keys.get(key)
        if isinstance(entry, Section):
            inner = only_here(value, entry) if entry.here or isinstance(value, Mapping) else {}
            if entry.here or inner:
                kept[key] = inner
        elif entry is None or _is_here(entry, section):
            kept[key] = value
    return kept


def _is_here(knob: Knob, section: Section) -> bool:
    return section.here if knob.here is None else knob.here


def _missing(section: Section, given: object, path: str) -> Iterator[str]:
    for value, at, entry in _entries(section, given, path):
        if isinstance(entry, Section) and entry.here:
            yield from _missing(entry, value, at)
        elif _is_requested(entry, value) if isinstance(entry, Section) else not _is_here(entry, section):
            yield at


def _is_requested(section: Section, given: object) -> bool:
    """Whether a section of a missing feature is switched on and sets any key that is not read."""
    if section_values("", section, given, SEED).get("enabled") is False:
        return False
    return given is True or any(
        _is_requested(entry, value) if isinstance(entry, Section) else not _is_here(entry, section)
        for value, _, entry in _entries(section, given, "")
    )


def _unsupported_values(section: Section, given: object, path: str) -> Iterator[tuple[str, str]]:
    for value, at, entry in _entries(section, given, path):
        if isinstance(entry, Section):
            yield from _unsupported_values(entry, value, at)
        elif value in entry.absent:
            shown = value if isinstance(value, str) else str(value).lower()
            yield at, f"{shown} is {NOT_HERE}; leave it out to replay the rest"


def _has_lab_keys(section: Section, given: object) -> bool:
    """Whether any key is set that the plugin does not know."""
    return any(
        entry.only_seed or (isinstance(entry, Section) and _has_lab_keys(entry, value))
        for value, _, entry in _entries(section, given, "")
    )


def _entries(section: Section, given: object, path: str) -> Iterator[tuple[Any, str, Knob | Section]]:
    """Yield value, path and entry of the known keys that have a value."""
    for key, value in given.items() if isinstance(given, Mapping) else ():
        if key in section.keys and value is not None:
            yield value, f"{path}.{key}" if path else key, section.keys[key]
