"""Find OpenClaw's sessions in a host's home, an agent's folder, a sessions folder, or one file.

~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite    sessions, since 2026.9
~/.openclaw/agents/<agent>/sessions/<id>.jsonl            sessions before 2026.9; <id>-topic-<n>.jsonl for a topic
…/sessions/<id>.jsonl.reset.<time>                        a session that /new reset
…/sessions/<id>.jsonl.deleted.<time>[.<id>.zst]           a deleted session
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import UnusableInput
from lab.recordings.openclaw.database import origin_of
from lab.recordings.openclaw.sqlite import is_database

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
    """The files of one agent. ``origins`` maps session ids to what started them, as far as an index lists it."""

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


def find(path: Path) -> Contents:
    """Return the contents of a path. Raises :class:`UnusableInput` if the path does not exist."""
    contents = Contents([], Counter(), [])
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
    location.databases += sorted((folder / "agent").glob(DATABASE))
    if (folder / "sessions").is_dir():
        _take_folder(folder / "sessions", location, contents)


def _take_folder(folder: Path, location: Location, contents: Contents) -> None:
    """Sort the files of a sessions folder by kind; databases are also accepted there."""
    for child in sorted(folder.iterdir()):
        kind = next((what for part, what in OTHERS if part in child.name), None)
        if not child.is_file():
            contents.passed["folders among the sessions"] += child.is_dir()
        elif child.name.startswith("."):
            contents.passed["hidden files"] += 1
        elif child.name == INDEX:
            location.origins.update(_index(child, contents))
        elif kind:
            contents.passed[kind] += 1
        elif reason := archive_reason(child):
            location.archives.append(Archive(child, reason))
        elif child.name.endswith((".jsonl", ".jsonl.zst")):
            location.transcripts.append(child)
        elif child.match(DATABASE):
            location.databases.append(child)
        else:
            contents.passed["other files among the sessions"] += 1


def _index(path: Path, contents: Contents) -> dict[str, str]:
    """Return what started each session, by session id, from the index; an unreadable index is only noted."""
    try:
        entries = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        contents.notes.append(f"{path}: the session index is unreadable; the sessions are read without it")
        return {}
    return {
        value["sessionId"]: origin_of(key)
        for key, value in (entries.items() if isinstance(entries, dict) else ())
        if isinstance(value, dict) and isinstance(value.get("sessionId"), str)
    }


def _note_elsewhere(path: Path, agents: list[Path], contents: Contents) -> None:
    """Count the JSON Lines files outside the agents' folders: they may be copies of sessions."""
    for folder in _others(path, agents):
        count = sum(child.is_file() for child in folder.glob("*.jsonl"))
        if count:
            contents.passed[f"JSON Lines files in {folder.name}/, which is not an agent's sessions folder"] += count


def _others(path: Path, agents: list[Path]) -> Iterator[Path]:
    ours = {path / "agents", *agents}
    yield from (child for child in sorted(path.iterdir()) if child.is_dir() and child not in ours)
