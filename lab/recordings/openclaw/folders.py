"""Find OpenClaw's sessions in a host's home, an agent's folder, a sessions folder, or one file.

~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite    sessions, since 2026.9
~/.openclaw/agents/<agent>/sessions/<id>.jsonl            sessions before 2026.9; <id>-topic-<n>.jsonl for a topic
…/sessions/<id>.jsonl.reset.<time>                        a session that /new reset
…/sessions/<id>.jsonl.deleted.<time>[.<id>.zst]           a deleted session

The configuration in a home may name other folders (:mod:`lab.recordings.openclaw.elsewhere`), which are read as well.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.base.config_env import own_config
from lab.base.config_resolve import resolve_config
from lab.base.errors import UnusableInput
from lab.base.files import require_finite
from lab.base.sqlite import is_database
from lab.recordings.model import UNKNOWN_ORIGIN
from lab.recordings.openclaw.elsewhere import Configured, configured_places, keys_of_places
from lab.recordings.openclaw.origins import origin_of, strongest

DATABASE = "openclaw-agent*.sqlite"
INDEX = "sessions.json"
ARCHIVE = re.compile(r"\.(reset|deleted)\.")
# Files of a sessions folder that are not transcripts, by a part of their names.
OTHERS = (
    (".trajectory", "trajectories of sessions, which repeat their transcripts"),
    (".bak", "backups of transcripts"),
    (".checkpoint.", "checkpoints of transcripts"),
)


@dataclass(frozen=True, slots=True)
class Archive:
    """The transcript of a session that was reset or deleted."""

    path: Path
    reason: str


@dataclass(slots=True)
class Location:
    """The files of one agent; ``origins`` maps ids of sessions and names of transcripts to what started them (OR-1)."""

    agent: str | None = None
    databases: list[Path] = field(default_factory=list)
    transcripts: list[Path] = field(default_factory=list)
    archives: list[Archive] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Contents:
    """The contents of a path: the agents' folders, counts of ignored files by kind, and notes."""

    locations: list[Location]
    passed: Counter[str]
    notes: list[str]


def find(path: Path, config: Path | None = None) -> Contents:
    """Return the contents of a path, and of the folders that the configuration of a home names (HC-10).

    ``config`` is the configuration of a home that has none of its own. Raises :class:`UnusableInput` if the path does
    not exist, or if a place that the configuration names does not.
    """
    require_finite(path)
    contents = Contents([], Counter(), [])
    named = config if config is not None or not path.is_dir() else own_config(path)
    if named is None:
        return _found(path, contents)
    resolved = resolve_config(named, state=path)
    resolved.require_set(*keys_of_places(resolved.value))
    places, missing = configured_places(resolved.value, path, str(named))
    if not places or _agents(path) or any(path.glob("*.jsonl")):
        _found(path, contents)
    contents.notes += missing
    for place in places:
        _take_configured(place, contents)
    return contents


def _take_configured(place: Configured, contents: Contents) -> None:
    """Add the sessions of a place that the configuration names, but for files that are known already."""
    location, other = Location(place.agent), Contents([], contents.passed, contents.notes)
    if place.path.is_file():
        location.databases.append(place.path)
    elif place.is_agent:
        location.databases += _databases(place.path)
        if place.path.name == "agent" and (place.path.parent / "sessions").is_dir():
            _take_folder(place.path.parent / "sessions", location, other)
    else:
        _take_folder(place.path, location, other)
        if place.path.name == "sessions":
            location.databases += _databases(place.path.parent / "agent")
    known = {
        file.resolve()
        for each in contents.locations
        for file in (*each.databases, *each.transcripts, *(archive.path for archive in each.archives))
    }
    location.databases = [file for file in location.databases if file.resolve() not in known]
    location.transcripts = [file for file in location.transcripts if file.resolve() not in known]
    location.archives = [archive for archive in location.archives if archive.path.resolve() not in known]
    contents.locations.append(location)


def _found(path: Path, contents: Contents) -> Contents:
    if path.is_file():
        contents.locations.append(_of_file(path))
    elif not path.is_dir():
        raise UnusableInput(f"{path}: no such file or folder")
    elif agents := _agents(path):
        for agent in agents:
            location = Location(agent.name)
            _take_agent(agent, location, contents)
            contents.locations.append(location)
        _note_elsewhere(path, agents, contents)
    else:
        location = Location(_agent_of(path))
        if (path / "sessions").is_dir() or any((path / "agent").glob(DATABASE)):
            location.agent = path.name
            _take_agent(path, location, contents)
        else:
            _take_folder(path, location, contents)
        contents.locations.append(location)
    return contents


def origin_in(location: Location, *names: str) -> str:
    """Return what an index says of a session under one of its names; ``unknown`` if it does not list it."""
    return next((location.origins[name] for name in names if name in location.origins), UNKNOWN_ORIGIN)


def archive_reason(path: Path) -> str | None:
    """Return ``reset`` or ``deleted`` if the file name says so, else None."""
    matched = ARCHIVE.search(path.name)
    return matched[1] if matched else None


def _of_file(path: Path) -> Location:
    location = Location(_agent_of(path.absolute().parent))
    if is_database(path):
        location.databases.append(path)
    elif reason := archive_reason(path):
        location.archives.append(Archive(path, reason))
    else:
        location.transcripts.append(path)
    return location


def _agents(path: Path) -> list[Path]:
    """Return the agents' folders of a home or of its ``agents`` folder."""
    for folder in (path / "agents", path):
        if folder.is_dir():
            agents = [
                child
                for child in sorted(folder.iterdir())
                if child.is_dir() and ((child / "sessions").is_dir() or any((child / "agent").glob(DATABASE)))
            ]
            if agents:
                return agents
    return []


def _agent_of(folder: Path) -> str | None:
    """Return the agent whose ``sessions`` or ``agent`` folder this is, judged by the path, else None."""
    folder = folder.absolute()
    known = folder.name in ("sessions", "agent") and folder.parent.parent.name == "agents"
    return folder.parent.name if known else None


def _take_agent(folder: Path, location: Location, contents: Contents) -> None:
    location.databases += _databases(folder / "agent")
    if (folder / "sessions").is_dir():
        _take_folder(folder / "sessions", location, contents)


def _databases(folder: Path) -> list[Path]:
    """Return the databases of an agent's folder; raise :class:`UnusableInput` for one that is a pipe."""
    databases = sorted(folder.glob(DATABASE))
    for database in databases:
        require_finite(database)
    return databases


def _take_folder(folder: Path, location: Location, contents: Contents) -> None:
    """Sort the files of a sessions folder by kind; databases are also accepted there."""
    for child in sorted(folder.iterdir()):
        kind = next((what for part, what in OTHERS if part in child.name), None)
        if not child.is_file():
            what = "folders" if child.is_dir() else "pipes, devices and broken links"
            contents.passed[f"{what} among the sessions"] += 1
        elif child.name.startswith("."):
            contents.passed["hidden files"] += 1
        elif child.name == INDEX:
            location.origins |= _index(child, contents)
        elif kind:
            contents.passed[kind] += 1
        elif reason := archive_reason(child):
            location.archives.append(Archive(child, reason))
        elif child.name.endswith((".jsonl", ".jsonl.zst")):
            location.transcripts.append(child)
        elif child.match(DATABASE) or child.suffix == ".sqlite":
            location.databases.append(child)
        else:
            contents.passed["other files among the sessions"] += 1


def _index(path: Path, contents: Contents) -> dict[str, str]:
    """Return what started each session, by its id and its file, from the index; an unreadable index is only noted."""
    try:
        entries = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        contents.notes.append(f"{path}: the session index is unreadable; the sessions are read without it")
        return {}
    found: dict[str, list[str]] = {}
    for key, value in entries.items() if isinstance(entries, dict) else ():
        if not isinstance(value, dict):
            continue
        file = value.get("sessionFile")
        # The transcript of a topic has a name of its own.
        for name in (value.get("sessionId"), stem_of(Path(file).name) if isinstance(file, str) else None):
            if isinstance(name, str) and name:
                found.setdefault(name, []).append(origin_of(key, value))
    return {name: strongest(origins) for name, origins in found.items()}


def stem_of(name: str) -> str:
    """Return the name of a transcript's file without its ending, which in an archive has a time."""
    return name.partition(".jsonl")[0]


def _note_elsewhere(path: Path, agents: list[Path], contents: Contents) -> None:
    """Count the JSON Lines files outside the agents' folders: they may be copies of sessions."""
    for folder in _others(path, agents):
        count = sum(child.is_file() for child in folder.glob("*.jsonl"))
        if count:
            contents.passed[f"JSON Lines files in {folder.name}/, which is not an agent's sessions folder"] += count


def _others(path: Path, agents: list[Path]) -> Iterator[Path]:
    ours = {path / "agents", *agents}
    yield from (child for child in sorted(path.iterdir()) if child.is_dir() and child not in ours)
