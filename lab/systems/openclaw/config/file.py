"""Where an engine's configuration stands in what an operator hands over.

Read are: the plugin's configuration itself; a whole openclaw.json; its ``plugins`` or ``plugins.entries``; and the
plugin's entry, ``{"enabled": …, "config": {…}}``, with or without its name. OpenClaw reads its file as JSON5, so
comments, trailing commas and bare keys are understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import read_text
from lab.shape import named
from lab.systems.openclaw.config.table import PLUGIN
from lab.words import free_of_credentials

ENTRY = "openclaw-mem-engine"
# What the plugin embeds with where its configuration names no model.
EMBEDDER = "text-embedding-3-small"
# Characters. JSON5 is read slowly, and a file past this is no configuration but something else by mistake.
MOST_JSON5 = 200_000


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
            raise UnusableInput(f"{where}: {'.'.join(path)}: expected an object, found {named(value)}")
    if isinstance(value, Mapping) and (path or "config" in value):
        misplaced = [key for key in value if key in PLUGIN]
        if misplaced:
            raise UnusableInput(f"{where}: {'.'.join([*path, misplaced[0]])}: belongs inside 'config'")
        return value.get("config")
    return value


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON or JSON5 text, without the credentials of the URIs in it.

    What a configuration says comes back in manifests, reports and messages, and no part of the lab has a use for them.
    """
    value = _parsed(text, where)
    try:
        return free_of_credentials(value)
    except RecursionError:
        raise UnusableInput(f"{where}: JSON is nested too deeply") from None


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if len(text) > MOST_JSON5:
            raise UnusableInput(f"{where}: not JSON: {error}") from None
    import json5

    try:
        return json5.loads(text)
    except RecursionError:
        raise UnusableInput(f"{where}: JSON is nested too deeply") from None
    except ValueError as error:
        found = re.match(r"<string>:(\d+) (.*)", str(error), re.DOTALL)
        line, what = found.groups() if found else ("1", str(error))
        cut = " (the file seems cut off)" if "end of input" in what or not text.strip() else ""
        raise UnusableInput(f"{where}:{line}: not JSON, nor JSON5: {what}{cut}") from None
