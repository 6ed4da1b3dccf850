"""Where OpenClaw keeps sessions: a host's home, an agent's folder, a folder of sessions, or one file.

~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite    sessions, since 2026.9
~/.openclaw/agents/<agent>/sessions/<id>.jsonl            sessions before; <id>-topic-<n>.jsonl for a topic
…/sessions/<id>.jsonl.reset.<time>                        what /new left
…/sessions/<id>.jsonl.deleted.<time>[.<id>.zst]           what deleting a session left
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
# Files of a sessions folder that are no transcripts, by what their names hold.
OTHERS = (
    (".trajectory", "trajectories of sessions, which repeat their transcripts"),
    (".bak", "backups of transcripts"),
    (".checkpoint.", "checkpoints of transcripts"),
)


@dataclass(frozen=True, slots=True)
class Archive:
    """A transcript that a reset or a deletion left."""

    path: Path
    reason: str


@dataclass(slots=True)
class Place:
    """What one agent's folders hold. ``origins`` says of session ids how they began, where an index knows."""

    agent: str | None = None
    databases: list[Path] = field(default_factory=list)
    transcripts: list[Path] = field(default_factory=list)
    archives: list[Archive] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Found:
    """The agents' folders found at a path, counts of ignored files by kind, and notes."""

    places: list[Place]
    passed: Counter[str]
    notes: list[str]


def find(path: Path) -> Found:
    """Return what a path holds. Raises :class:`UnusableInput` where there is nothing at it."""
    found = Found([], Counter(), [])
    if path.is_file():
        found.places.append(_of_file(path))
    elif not path.is_dir():
        raise UnusableInput(f"{path}: no such file or folder")
    elif agents := _agents(path):
        for agent in agents:
            place = Place(agent.name)
            _take_agent(agent, place, found)
            found.places.append(place)
        _note_elsewhere(path, agents, found)
    else:
        place = Place(_agent_of(path))
        if (path / "sessions").is_dir() or any((path / "agent").glob(DATABASE)):
            place.agent = path.name
            _take_agent(path, place, found)
        else:
            _take_folder(path, place, found)
        found.places.append(place)
    return found


def archive_reason(path: Path) -> str | None:
    """Return ``reset`` or ``deleted`` where the name of a file says so."""
    matched = ARCHIVE.search(path.name)
    return matched[1] if matched else None


def _of_file(path: Path) -> Place:
    place = Place(_agent_of(path.absolute().parent))
    if is_database(path):
        place.databases.append(path)
    elif reason := archive_reason(path):
        place.archives.append(Archive(path, reason))
    else:
        place.transcripts.append(path)
    return place


def _agents(path: Path) -> list[Path]:
    """The agents' folders of a home, or of its ``agents`` folder."""
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
    """The agent whose ``sessions`` or ``agent`` folder this is, by the names on the way."""
    folder = folder.absolute()
    known = folder.name in ("sessions", "agent") and folder.parent.parent.name == "agents"
    return folder.parent.name if known else None


def _take_agent(folder: Path, place: Place, found: Found) -> None:
    place.databases += sorted((folder / "agent").glob(DATABASE))
    if (folder / "sessions").is_dir():
        _take_folder(folder / "sessions", place, found)


def _take_folder(folder: Path, place: Place, found: Found) -> None:
    """Sort the files of a folder of sessions; a database there is read, too."""
    for child in sorted(folder.iterdir()):
        kind = next((what for part, what in OTHERS if part in child.name), None)
        if not child.is_file():
            found.passed["folders among the sessions"] += child.is_dir()
        elif child.name.startswith("."):
            found.passed["hidden files"] += 1
        elif child.name == INDEX:
            place.origins.update(_index(child, found))
        elif kind:
            found.passed[kind] += 1
        elif reason := archive_reason(child):
            place.archives.append(Archive(child, reason))
        elif child.name.endswith((".jsonl", ".jsonl.zst")):
            place.transcripts.append(child)
        elif child.match(DATABASE):
            place.databases.append(child)
        else:
            found.passed["other files among the sessions"] += 1


def _index(path: Path, found: Found) -> dict[str, str]:
    """How sessions began, by the keys of the index; no session depends on it."""
    try:
        entries = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        found.notes.append(f"{path}: the index of sessions cannot be read; no session depends on it")
        return {}
    return {
        value["sessionId"]: origin_of(key)
        for key, value in (entries.items() if isinstance(entries, dict) else ())
        if isinstance(value, dict) and isinstance(value.get("sessionId"), str)
    }


def _note_elsewhere(path: Path, agents: list[Path], found: Found) -> None:
    """Name folders with JSON Lines that are no agent's: they may be copies of sessions."""
    for folder in _others(path, agents):
        count = sum(child.is_file() for child in folder.glob("*.jsonl"))
        if count:
            found.passed[f"JSON Lines files in {folder.name}/, which is no agent's folder of sessions"] += count


def _others(path: Path, agents: list[Path]) -> Iterator[Path]:
    ours = {path / "agents", *agents}
    yield from (child for child in sorted(path.iterdir()) if child.is_dir() and child not in ours)
