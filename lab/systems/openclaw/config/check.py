"""Check a configuration key by key: the lab refuses unknown keys and values of another type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from lab.base.shape import json_type
from lab.base.utf16 import WHITESPACE
from lab.systems.openclaw.config.knob import SEED, Knob, Section
from lab.systems.openclaw.config.values import finite

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
