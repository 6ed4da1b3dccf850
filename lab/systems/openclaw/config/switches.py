"""Why a host does not load a memory plugin, or lets it inject nothing, by its configuration (HC-9).

``lab init``, ``lab config check`` and replays say it by :func:`switched_off` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lab.systems.openclaw.config.file import ENTRY

DEFAULT_SLOT, NO_SLOT = "memory-core", "none"
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
        reason = f"it names {slot!r}" if slot else f"it is not set, which means {DEFAULT_SLOT!r}"
    yield f"plugins.slots.memory: nothing happens: {reason}; set it to {plugin!r}"


def _entry(entries: object, plugin: str) -> Mapping[str, Any]:
    """Return the entry of a plugin, whatever the case of its name."""
    named = (
        {str(name).strip().lower(): entry for name, entry in entries.items()} if isinstance(entries, Mapping) else {}
    )
    entry = named.get(plugin)
    return entry if isinstance(entry, Mapping) else {}


def _names(value: object) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in value if isinstance(name, str)) if isinstance(value, list) else ()
