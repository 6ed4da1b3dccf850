"""Where an engine's configuration stands in what an operator hands over.

Read are: the plugin's configuration itself; a whole openclaw.json; its ``plugins`` or ``plugins.entries``; and the
plugin's entry, ``{"enabled": …, "config": {…}}``, with or without its name. OpenClaw reads its file as JSON5, so
comments, trailing commas and bare keys are understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import parse_json, read_text
from lab.shape import json_type
from lab.systems.openclaw.config.table import PLUGIN

ENTRY = "openclaw-mem-engine"
# What the plugin embeds with where its configuration names no model.
EMBEDDER = "text-embedding-3-small"


def read_value(path: Path) -> Any:
    """Return the JSON value in a file, with whatever stands around the plugin's configuration.

    A file that is missing or no JSON is :class:`UnusableInput`.
    """
    return parse_json(read_text(path), str(path))


def embedder_of(value: object) -> str | None:
    """The embedding model that the engine of a parsed configuration runs with; None where nothing is said of it.

    A section ``embedding`` speaks of it, and so does everything around the plugin's configuration (an openclaw.json,
    its ``plugins``): that is a real host's, where the plugin's default counts. A bare configuration without the
    section is a set of knobs for the lab. Takes any value, and finds nothing in what :func:`locate` refuses.
    """
    try:
        config = locate(value, "")
    except UnusableInput:
        return None
    whole = isinstance(value, Mapping) and value is not config
    section = config.get("embedding") if isinstance(config, Mapping) else None
    if section is None and not whole:
        return None
    named_model = section.get("model") if isinstance(section, Mapping) else None
    return str(named_model) if named_model else EMBEDDER


def locate(value: object, where: str) -> Any:
    """The plugin's configuration within a parsed value, found by the keys around it.

    A value that has none of them is the configuration already, whatever its type.
    """
    path: list[str] = []
    for key in ("plugins", "entries", ENTRY):
        # The outermost of these keys may be missing; what lies inside one that is there may not.
        if not isinstance(value, Mapping) or (key not in value and not path):
            continue
        if key not in value:
            there = ", ".join(sorted(value)) or "nothing"
            raise UnusableInput(f"{where}: {'.'.join(path)} has no {key!r}; it has: {there}")
        path.append(key)
        value = value[key]
        if not isinstance(value, Mapping):
            raise UnusableInput(f"{where}: {'.'.join(path)}: expected an object, found {json_type(value)}")
    if isinstance(value, Mapping) and (path or "config" in value):
        misplaced = [key for key in value if key in PLUGIN]
        if misplaced:
            raise UnusableInput(f"{where}: {'.'.join([*path, misplaced[0]])}: belongs inside 'config'")
        return value.get("config")
    return value
