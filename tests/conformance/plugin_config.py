"""Read a configuration as the public plugin does: what it refuses, ignores and clamps (E-5).

There are two steps. :func:`parse` keeps the values with the right type and refuses unknown keys and wrong sections
with the plugin's messages. :func:`resolve_section` fills in defaults and clamps; on its own it is more tolerant than
both together ("3" is a number). JavaScript's undefined is None or an absent key here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.base.errors import UnusableInput
from lab.systems.openclaw.config.table import PLUGIN, UPSTREAM, Knob, Section
from lab.systems.openclaw.config.values import present, section_values, strings_of

_NAME = "openclaw-mem-engine config"


def parse(raw: object) -> dict[str, Any]:
    """Parse a configuration as the plugin does: without defaults and clamping, and without invalid values.

    Raise :class:`UnusableInput` with the plugin's message for unknown keys and sections of another type.
    """
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise UnusableInput(f"{_NAME} must be an object")
    _refuse_unknown(raw, PLUGIN, _NAME)
    parsed: dict[str, Any] = {}
    for name, entry in PLUGIN.items():
        parsed[name] = _picked(entry, raw.get(name), name)
        if name == "embedding":
            # The plugin checks the type of this section before it reads the others.
            _demand_shape(PLUGIN["retrievalBackend"], raw.get("retrievalBackend"), "retrievalBackend")
    return present(parsed)


def resolve_section(name: str, raw: object) -> dict[str, Any]:
    """Resolve one section as the plugin does; invalid values become the default."""
    section = PLUGIN[name]
    if not isinstance(section, Section):
        raise UnusableInput(f"{name!r} is not a section of the configuration")
    return section_values(name, section, raw, UPSTREAM)


def resolve_embedding_clamp(raw: object) -> dict[str, Any]:
    """Resolve the limits of embedded texts (E-50): ``maxChars``, ``headChars``, ``maxBytes`` (None: no limit)."""
    values = resolve_section("embedding", raw)
    return {"maxChars": values["maxChars"], "headChars": values["headChars"], "maxBytes": values.get("maxBytes")}


def _picked(entry: Knob | Section, raw: object, path: str) -> Any:
    """Return what the parser keeps of a value; None if nothing."""
    if isinstance(entry, Knob):
        return _pick(entry, raw)
    if raw is None or (isinstance(raw, bool) and entry.boolean):
        return raw
    _demand_shape(entry, raw, path)
    if not isinstance(raw, Mapping):
        return None
    if entry.closed:
        _refuse_unknown(raw, entry.keys, f"{path} config")
    return present(
        {key: _picked(inner, raw.get(key), f"{path}.{key}") for key, inner in entry.keys.items() if not inner.only_seed}
    )


def _pick(knob: Knob, raw: object) -> Any:
    if knob.kind == "flag":
        return raw if isinstance(raw, bool) else None
    if knob.kind in ("whole", "number", "positive"):
        return raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None
    if knob.kind == "choice":
        return raw if isinstance(raw, str) and raw in knob.choices else None
    if knob.kind in ("texts", "args", "scopes"):
        return strings_of(raw) if isinstance(raw, list | tuple) else None
    if knob.kind == "map":
        return {name: strings_of(inner) for name, inner in raw.items()} if isinstance(raw, Mapping) else None
    return raw if isinstance(raw, str) else None


def _demand_shape(entry: Knob | Section, raw: object, path: str) -> None:
    if isinstance(entry, Section) and entry.wrong and raw is not None and not isinstance(raw, Mapping):
        raise UnusableInput(entry.wrong.format(path))


def _refuse_unknown(raw: Mapping[str, Any], known: Mapping[str, Knob | Section], label: str) -> None:
    unknown = [key for key in raw if key not in known or known[key].only_seed]
    if unknown:
        raise UnusableInput(f"{label} has unknown keys: {', '.join(unknown)}")
