"""What this lab refuses in a configuration, key by key: names it does not know, and values of another type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from lab.shape import json_type
from lab.systems.openclaw.config.settle import finite
from lab.systems.openclaw.config.table import SEED, Knob, Section
from lab.utf16 import WHITESPACE

MOST_SHOWN = 60


def complaints(section: Section, raw: object, path: str, profile: str) -> Iterator[tuple[str, str]]:
    """Path and complaint of everything that cannot be taken in a section. The value of a secret is never repeated."""
    if raw is None or (isinstance(raw, bool) and section.boolean):
        return
    if not isinstance(raw, Mapping):
        words = ["true", "false"] if section.boolean else list(section.presets)
        expected = f"{', '.join(words)} or an object" if words else "an object"
        # A string in place of a section is not repeated: it may be a provider's key.
        yield path, f"expected {expected}, found {in_short(raw) if section.presets else json_type(raw)}"
        return
    known = sorted(key for key, entry in section.keys.items() if profile == SEED or not entry.only_seed)
    for key, value in raw.items():
        at, entry = f"{path}.{key}" if path else str(key), section.keys.get(key)
        if entry is None:
            yield at, f"unknown key; known: {', '.join(known)}"
        elif key not in known:
            yield at, f"unknown key in profile {profile!r}; profile {SEED!r} knows it"
        elif isinstance(entry, Section):
            yield from complaints(entry, value, at, profile)
        elif what := _complaint(entry, value):
            yield at, what


def _complaint(knob: Knob, value: object) -> str | None:
    """Why a value cannot be taken; None: it can."""
    if knob.kind == "flag":
        return None if isinstance(value, bool) else f"expected true or false, found {in_short(value)}"
    if knob.kind in ("whole", "number"):
        return f"expected a number, found {in_short(value)}" if finite(value) is None else None
    if knob.kind == "positive":
        return f"expected a number from 1, found {in_short(value)}" if (finite(value) or 0) < 1 else None
    if knob.kind in ("choice", "word"):
        return None if value in knob.choices else f"{in_short(value)} is none of {', '.join(knob.choices)}"
    if knob.kind == "map":
        if not isinstance(value, Mapping):
            return f"expected an object of lists, found {in_short(value)}"
        wrong = ((key, _complaint(Knob("texts"), inner)) for key, inner in value.items())
        return next((f"{key}: {what}" for key, what in wrong if what), None)
    if knob.kind in ("texts", "args", "scopes"):
        if not isinstance(value, list):
            return f"expected a list of strings, found {in_short(value)}"
        wrong = ((place, _complaint(Knob("text"), item)) for place, item in enumerate(value, 1))
        return next((f"item {place}: {what}" for place, what in wrong if what), None)
    if not isinstance(value, str):
        return f"expected a string, found {json_type(value) if knob.kind == 'secret' else in_short(value)}"
    return None if value.strip(WHITESPACE) else "is blank"


def in_short(value: object) -> str:
    """What was found, in the words of JSON and in one short line."""
    if isinstance(value, Mapping | list):
        return json_type(value)
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"
