"""Configuration keys that the lab does not implement (docs/engine.md, "Not implemented here").

A live engine's file contains many keys that recall never reads, such as those of capture and mirroring. They are
reported and otherwise ignored. Two cases are refused: a value that changes recall in a way that the lab does not
implement; and any of these keys in a configuration written for the lab, where nothing else would read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lab.systems.openclaw.config.knob import SEED, Knob, Section
from lab.systems.openclaw.config.table import LAB_KEY, PLUGIN
from lab.systems.openclaw.config.values import section_values

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
