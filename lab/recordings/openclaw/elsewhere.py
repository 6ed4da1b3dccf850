"""Where a host's configuration says that sessions are: ``session.store`` and the folders of agents (HC-10)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_env import STATE_FOLDER, Keys
from lab.base.errors import UnusableInput
from lab.base.files import require_finite

AGENT_ID = "{agentId}"
# The agent of a configuration that lists none.
MAIN = "main"


class Configured(NamedTuple):
    """A place of sessions: its key, its agent, and the folder of transcripts or of an agent, or a database."""

    key: str
    agent: str
    path: Path
    is_agent: bool = False


def place_of(home: Path, text: str) -> Path:
    """Return a path of the configuration: ``~/.openclaw`` is the home, wherever it was copied to."""
    file = Path(text.strip())
    if file.parts[:2] == ("~", STATE_FOLDER):
        return home.joinpath(*file.parts[2:])
    return Path(os.path.normpath(home / file.expanduser()))


def keys_of_places(value: Any) -> tuple[Keys, ...]:
    """Return the keys that say where sessions are."""
    return ("session", "store"), *(path for path, _, _ in _agents(value))


def configured_places(value: Any, home: Path, where: str) -> tuple[list[Configured], list[str]]:
    """Return where a configuration says that sessions are, and what of it is not there, in a sentence each.

    An agent of a store may have no session yet. Raises :class:`UnusableInput` for a folder of an agent that is not
    there, for a store of which nothing is there, and for a pipe or a device.
    """
    places, missing = [], []
    agents = [agent for _, agent, _ in _agents(value)]
    for path, agent, text in _agents(value):
        if text is not None:
            folder, key = place_of(home, text), ".".join(path)
            if not folder.is_dir():
                raise _absent(where, key, folder)
            places.append(Configured(key, agent, folder, is_agent=True))
    session = value.get("session") if isinstance(value, Mapping) else None
    store = session.get("store") if isinstance(session, Mapping) else None
    if isinstance(store, str) and store.strip():
        found = []
        for agent, file in _stores(home, store, agents):
            require_finite(file)
            place = file if file.suffix == ".sqlite" else _artifacts(file)
            require_finite(place)
            if place.exists():
                found.append(Configured("session.store", agent, place))
            else:
                missing.append(f"session.store: {place} is not there (agent {agent})")
        if not found:
            raise _absent(where, "session.store", place_of(home, store))
        places += found
    return places, missing


def _absent(where: str, key: str, place: Path) -> UnusableInput:
    return UnusableInput(f"{where}: {key}: {place}: is not there; correct the key, or make the folder available here")


def _agents(value: Any) -> Iterator[tuple[Keys, str, str | None]]:
    """Yield the key of the folder, the id and the folder (None: its default) of every agent of a configuration."""
    section = value.get("agents") if isinstance(value, Mapping) else None
    entries = section.get("entries") if isinstance(section, Mapping) else None
    listed = section.get("list") if isinstance(section, Mapping) else None
    if isinstance(entries, Mapping):
        named = [(("agents", "entries", str(name)), str(name), entry) for name, entry in entries.items()]
    else:
        named = [
            (("agents", "list", str(at)), str(entry.get("id") or MAIN), entry)
            for at, entry in enumerate(listed if isinstance(listed, list) else ())
            if isinstance(entry, Mapping)
        ]
    for path, name, entry in named:
        folder = entry.get("agentDir") if isinstance(entry, Mapping) else None
        yield (*path, "agentDir"), _id(name), folder if isinstance(folder, str) and folder.strip() else None


def _stores(home: Path, store: str, agents: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield the agents of a store with their files: those that are listed, and those whose folders are there."""
    if AGENT_ID not in store:
        yield agents[0] if agents else MAIN, place_of(home, store)
        return
    before, _, after = store.partition(AGENT_ID)
    names = dict.fromkeys(agents or [MAIN])
    folder = place_of(home, before) if before.endswith("/") else None
    if folder is not None and folder.is_dir():
        rest = after.strip("/").split("/")[0]
        found = (child.name for child in sorted(folder.iterdir()) if child.is_dir() and (child / rest).exists())
        names |= dict.fromkeys(found)
    for name in names:
        yield name, place_of(home, store.replace(AGENT_ID, name))


def _artifacts(file: Path) -> Path:
    """Return the folder with the transcripts of a store's file."""
    return file.parent.parent / "sessions" if file.parent.name == "agent" else file.parent


def _id(name: str) -> str:
    """Return the id of an agent as the host writes it into paths."""
    return re.sub(r"[^a-z0-9_-]+", "-", name.strip().lower()).strip("-")[:64] or MAIN
