"""Find the engine's configuration in a file of the operator.

Accepted are the plugin's configuration itself; a whole openclaw.json; its ``plugins`` or ``plugins.entries``; and the
plugin's entry, ``{"enabled": …, "config": {…}}``, with or without its name. OpenClaw reads its file as JSON5, so
comments, trailing commas and unquoted keys are accepted. YAML is read as well (:mod:`lab.base.config_text`). Included
files and variables are resolved as the host does (:mod:`lab.base.config_resolve`).
"""

from __future__ import annotations

from collections.abc import Mapping
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
        return value.get("config")
    return value
