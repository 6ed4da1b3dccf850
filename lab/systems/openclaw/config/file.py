"""Find the engine's configuration in a file of the operator, and say whether the host runs the engine (HC-9).

Accepted are the plugin's configuration itself; a whole openclaw.json; its ``plugins`` or ``plugins.entries``; and the
plugin's entry, ``{"enabled": …, "config": {…}}``, with or without its name. OpenClaw reads its file as JSON5, so
comments, trailing commas and unquoted keys are accepted. YAML is read as well (:mod:`lab.base.config_text`). Included
files and variables are resolved as the host does (:mod:`lab.base.config_resolve`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.base.config_env import Keys
from lab.base.config_resolve import resolve_config
from lab.base.errors import UnusableInput
from lab.base.shape import expect
from lab.systems.openclaw.config.table import PLUGIN

ENTRY = "openclaw-mem-engine"
# The plugin's default model.
EMBEDDER = "text-embedding-3-small"
# The plugins whose configurations the lab reads, and what else it reads of a host's file.
PLUGIN_IDS = (ENTRY, "memory-lancedb", "memory-core", "openclaw-auto-recall")
_READ: tuple[Keys, ...] = (
    *(("plugins", key) for key in ("enabled", "allow", "deny", "slots")),
    *(("plugins", "entries", name) for name in PLUGIN_IDS),
    *(("memory",), ("agents", "defaults", "memorySearch")),
)


def read_value(path: Path, state: Path | None = None) -> Any:
    """Return the value of a JSON, JSON5 or YAML file, including everything around the plugin's configuration.

    It is what the host uses: with what the file includes and with its variables; ``state`` is the host's state folder,
    if the file is not in it. Raise :class:`UnusableInput` if the
    file is missing or none of these, or if a value that the lab reads names variables that are not set.
    """
    resolved = resolve_config(path, state=state)
    resolved.require_set(*read_keys(resolved.value))
    return resolved.value


def read_keys(value: object) -> tuple[Keys, ...]:
    """Return the keys of a file below which the lab reads: all, but for a host's file, which has more."""
    return _READ if isinstance(value, Mapping) and "plugins" in value else ((),)


def embedder_of(value: object) -> str | None:
    """Return the embedding model that a parsed configuration implies; None if it implies none.

    A section ``embedding`` names it. A host's file (an openclaw.json or its ``plugins``) without the section implies
    the plugin's default; a bare configuration without the section implies nothing. Any value is accepted; one that
    :func:`locate` refuses implies nothing.
    """
    try:
        config = locate(value, "")
    except UnusableInput:
        return None
    is_host_file = isinstance(value, Mapping) and value is not config
    section = config.get("embedding") if isinstance(config, Mapping) else None
    if section is None and not is_host_file:
        return None
    model = section.get("model") if isinstance(section, Mapping) else None
    return str(model) if model else EMBEDDER


def table_in(value: object, where: str) -> str | None:
    """Return the name of the table that a configuration names (``tableName``), if any."""
    section = locate(value, where)
    name = section.get("tableName") if isinstance(section, Mapping) else None
    return name.strip() or None if isinstance(name, str) else None


def locate(value: object, where: str, entry: str = ENTRY) -> Any:
    """Return the plugin's configuration within a parsed value, found by the keys around it.

    A value without any of these keys is returned as it is, whatever its type. ``where`` names the file in messages,
    ``entry`` the plugin.
    """
    path: list[str] = []
    for key in ("plugins", "entries", entry):
        # The outer keys may be missing, but a key inside one that is present may not.
        if not isinstance(value, Mapping) or (key not in value and not path):
            continue
        if key not in value:
            keys = ", ".join(sorted(value)) or "nothing"
            raise UnusableInput(f"{where}: {'.'.join(path)} has no {key!r}; it has: {keys}")
        path.append(key)
        value = value[key]
        expect(value, Mapping, f"{where}: {'.'.join(path)}")
    if isinstance(value, Mapping) and (path or "config" in value):
        misplaced = [key for key in value if key in PLUGIN]
        if misplaced:
            raise UnusableInput(f"{where}: {'.'.join([*path, misplaced[0]])}: this key belongs inside 'config'")
        return value.get("config", {})
    return value


SLOT, DEFAULT_SLOT, NO_SLOT = "plugins.slots.memory", "memory-core", "none"
# How the warning begins that another plugin owns the slot.
NOT_IN_SLOT = f"{SLOT}: nothing happens"
# Plugins that run only while they own the memory slot.
_IN_SLOT = (ENTRY, "memory-lancedb")


def switched_off(value: object, plugin: str = ENTRY, *, complete: bool | None = None) -> Iterator[str]:
    """Yield why the host of a parsed file does not run a plugin, or injects nothing of it; nothing if it does.

    ``value`` is a host's file, its ``plugins``, their ``entries``, or the plugin's entry; any other value switches
    nothing off. Each reason begins with the key. ``complete`` is whether the file is the host's whole one, in which a
    memory slot that is not set is the host's own memory; without it, a file with more than ``plugins`` is complete.
    """
    if not isinstance(value, Mapping):
        return
    plugins = value.get("plugins")
    whole = isinstance(plugins, Mapping)
    if not isinstance(plugins, Mapping):
        plugins = value if "entries" in value else {"entries": value if plugin in value else {plugin: value}}
    entry = _entry(plugins.get("entries"), plugin)
    at = f"plugins.entries.{plugin}"
    if plugins.get("enabled") is False:
        yield "plugins.enabled: nothing happens: the host loads no plugin"
    if plugin in _names(plugins.get("deny")):
        yield f"plugins.deny: nothing happens: it names {plugin}"
    if entry.get("enabled") is False:
        yield f"{at}.enabled: nothing happens: the {'engine' if plugin == ENTRY else 'plugin'} is switched off"
    if plugin in _IN_SLOT:
        yield from _slot(plugins, plugin, whole and (len(value) > 1 if complete is None else complete))
    elif _names(plugins.get("allow")) and plugin not in _names(plugins.get("allow")):
        yield f"plugins.allow: nothing happens: it does not name {plugin}"
    hooks = entry.get("hooks")
    if isinstance(hooks, Mapping) and hooks.get("allowPromptInjection") is False:
        yield f"{at}.hooks.allowPromptInjection: nothing is injected: the host lets no hook change a prompt"


def _slot(plugins: Mapping[str, Any], plugin: str, complete: bool) -> Iterator[str]:
    """Yield why a plugin does not own the memory slot. A file that is not complete may leave the slot out."""
    slots = plugins.get("slots")
    named = slots.get("memory") if isinstance(slots, Mapping) else None
    slot = named.strip() if isinstance(named, str) else ""
    if slot == plugin or (not slot and not complete and "slots" not in plugins):
        return
    if slot.lower() == NO_SLOT:
        reason = f"it is {slot!r}, so no plugin owns the memory"
    else:
        reason = f"it names {slot!r}, not {plugin!r}" if slot else f"it is not set, which means {DEFAULT_SLOT!r}"
    yield f"{NOT_IN_SLOT}: {reason}"


def _entry(entries: object, plugin: str) -> Mapping[str, Any]:
    """Return the entry of a plugin, whatever the case of its name."""
    named = (
        {str(name).strip().lower(): entry for name, entry in entries.items()} if isinstance(entries, Mapping) else {}
    )
    entry = named.get(plugin)
    return entry if isinstance(entry, Mapping) else {}


def _names(value: object) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in value if isinstance(name, str)) if isinstance(value, list) else ()
