"""The engine's section of a host's configuration without keys, for the lab's own files (IN-3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.systems.openclaw.config.file import ENTRY, locate

# Names of keys that hold a secret, in lower case; counts such as maxTokens are numbers.
_SECRET = ("key", "token", "secret", "password")


def engine_section(value: Any, config: Path) -> dict[str, Any]:
    """Return a host's configuration reduced to the engine's section, in its place, without secrets.

    ``value`` is the parsed file ``config``. Nothing else of the host's configuration is kept: it holds the keys of its
    providers and the token of its gateway.
    """
    section = locate(value, str(config)) or {}
    return {"plugins": {"entries": {ENTRY: {"enabled": True, "config": without_secrets(section)}}}}


def without_secrets(value: Any) -> Any:
    """Return a JSON value without texts whose key names a secret."""
    if isinstance(value, Mapping):
        return {
            key: without_secrets(member)
            for key, member in value.items()
            if not (isinstance(member, str) and str(key).lower().endswith(_SECRET))
        }
    return [without_secrets(member) for member in value] if isinstance(value, list) else value
