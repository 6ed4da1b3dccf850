"""What a configuration asks for and the lab does not have (docs/engine.md, "Not implemented here").

A live engine's file holds much that recall never reads: what it captures, mirrors or draws. Such keys are told and
otherwise passed over. Two things are refused: a value that asks for another recall than the lab has, wherever it
stands; and any of these keys in a configuration that is for the lab alone, where nobody but the lab could heed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lab.systems.openclaw.config.table import LAB_KEY, PLUGIN, SEED, Knob, Section
from lab.systems.openclaw.config.values import section_values

NOT_HERE = "not implemented here"
_ALL = Section(PLUGIN, boolean=False)


def missing(config: object) -> tuple[str, ...]:
    """Paths of what a plugin's configuration asks for and nothing here reads; what is switched off asks for nothing."""
    return tuple(_asked(_ALL, config, ""))


def refused(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and complaint of what is refused, as the module says."""
    yield from _absent(_ALL, config, "")
    if LAB_KEY in config or _says_more(_ALL, config):
        for path in missing(config):
            yield path, f"{NOT_HERE}; leave it out of a configuration that is for the lab alone"


def only_here(config: object, section: Section = _ALL) -> Any:
    """A configuration without what nothing here reads."""
    if not isinstance(config, Mapping):
        return config
    found: dict[str, Any] = {}
    for key, value in config.items():
        entry = section.keys.get(key)
        if isinstance(entry, Section):
            inner = only_here(value, entry) if entry.here or isinstance(value, Mapping) else {}
            if entry.here or inner:
                found[key] = inner
        elif entry is None or _is_here(entry, section):
            found[key] = value
    return found


def _is_here(knob: Knob, section: Section) -> bool:
    return section.here if knob.here is None else knob.here


def _asked(section: Section, given: object, path: str) -> Iterator[str]:
    for value, at, entry in _entries(section, given, path):
        if isinstance(entry, Section) and entry.here:
            yield from _asked(entry, value, at)
        elif _asks(entry, value) if isinstance(entry, Section) else not _is_here(entry, section):
            yield at


def _asks(section: Section, given: object) -> bool:
    """Whether a section of a feature that is not here is on, and says anything that is not read all the same."""
    if section_values("", section, given, SEED).get("enabled") is False:
        return False
    return given is True or any(
        _asks(entry, value) if isinstance(entry, Section) else not _is_here(entry, section)
        for value, _, entry in _entries(section, given, "")
    )


def _absent(section: Section, given: object, path: str) -> Iterator[tuple[str, str]]:
    for value, at, entry in _entries(section, given, path):
        if isinstance(entry, Section):
            yield from _absent(entry, value, at)
        elif value in entry.absent:
            told = value if isinstance(value, str) else str(value).lower()
            yield at, f"{told} is {NOT_HERE}; leave it out to replay the rest"


def _says_more(section: Section, given: object) -> bool:
    """Whether any key is there that the plugin does not know."""
    return any(
        entry.only_seed or (isinstance(entry, Section) and _says_more(entry, value))
        for value, _, entry in _entries(section, given, "")
    )


def _entries(section: Section, given: object, path: str) -> Iterator[tuple[Any, str, Knob | Section]]:
    """Value, path and entry of the known keys that say something."""
    for key, value in given.items() if isinstance(given, Mapping) else ():
        if key in section.keys and value is not None:
            yield value, f"{path}.{key}" if path else key, section.keys[key]
