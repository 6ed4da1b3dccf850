"""The engine's section of a host's configuration without keys, for the lab's own files (IN-3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.base.config_env import is_secret
from lab.systems.openclaw.config.file import ENTRY, locate
from lab.systems.openclaw.config.switches import switched_off


def engine_section(value: Any, config: Path) -> dict[str, Any]:
    """Return a host's configuration reduced to the engine's section, in its place, without secrets.

    ``value`` is the resolved file ``config``. Nothing else of the host's configuration is kept: it holds the keys of
    its providers and the token of its gateway. Where the host does not run the engine (HC-9), the switches are kept.
    """
    section = locate(value, str(config)) or {}
    entry: dict[str, Any] = {"enabled": True, "config": without_secrets(section)}
    if not any(switched_off(value, complete=True)):
        return {"plugins": {"entries": {ENTRY: entry}}}
    plugins = value["plugins"]
    given = plugins["entries"][ENTRY]
    slots = plugins.get("slots")
    slot = slots.get("memory") if isinstance(slots, Mapping) else None
    return {
        "plugins": {
            **{key: plugins[key] for key in ("enabled", "deny") if key in plugins},
            "slots": {"memory": slot} if slot else {},
            "entries": {
                ENTRY: {key: given[key] for key in ("enabled", "hooks") if key in given} | {"config": entry["config"]}
            },
        }
    }


def without_secrets(value: Any) -> Any:
    """Return a JSON value without texts whose key names a secret."""
    if isinstance(value, Mapping):
        return {
            key: without_secrets(member)
            for key, member in value.items()
            if not (is_secret(key) and (isinstance(member, str) or (isinstance(member, list) and member)))
        }
    return [without_secrets(member) for member in value] if isinstance(value, list) else value
