"""Find OpenClaw's sessions in a host's home, an agent's folder, a sessions folder, or one file.

~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite    sessions, since 2026.9
~/.openclaw/agents/<agent>/sessions/<id>.jsonl            sessions before 2026.9; <id>-topic-<n>.jsonl for a topic
…/sessions/<id>.jsonl.reset.<time>                        a session that /new reset
…/sessions/<id>.jsonl.deleted.<time>[.<id>.zst]           a deleted session

The configuration in a home may name other folders (``session.store`` and the folders of agents, HC-10), which are read
as well.

Of several copies of a session one is read, and sessions whose ids collide are renamed.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_env import STATE_FOLDER, Keys, own_config
from lab.base.config_resolve import resolve_config
from lab.base.errors import UnusableInput
from lab.base.files import require_finite
from lab.base.regex import regex
from lab.base.sqlite import is_database
from lab.recordings.model import Recording
from lab.recordings.openclaw.entries import Transcript
from lab.recordings.openclaw.origins import origin_of, strongest
from lab.recordings.origins import UNKNOWN_ORIGIN

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
    return ("session", "store"), *(path for path, _, _ in _configured_agents(value))


def configured_places(value: Any, home: Path, where: str) -> tuple[list[Configured], list[str]]:
    """Return where a configuration says that sessions are, and what of it is not there, in a sentence each.

    An agent of a store may have no session yet. Raises :class:`UnusableInput` for a folder of an agent that is not
    there, for a store of which nothing is there, and for a pipe or a device.
    """
    places, missing = [], []
    agents = [agent for _, agent, _ in _configured_agents(value)]
    for path, agent, text in _configured_agents(value):
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


def _configured_agents(value: Any) -> Iterator[tuple[Keys, str, str | None]]:
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


DATABASE = "openclaw-agent*.sqlite"
INDEX = "sessions.json"
ARCHIVE = regex(r"\.(reset|deleted)\.")
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
    """Sort the files of a sessions folder by kind; databases are also accepted there.

    Raises :class:`UnusableInput` for a pipe in the place of a session.
    """
    for child in sorted(folder.iterdir()):
        kind = next((what for part, what in OTHERS if part in child.name), None)
        if not kind and not child.name.startswith(".") and child.name.endswith((".jsonl", ".jsonl.zst", ".sqlite")):
            require_finite(child)
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


class Copy(NamedTuple):
    """One copy of a session: its entries, the end of its active branch (None: the last entry), and notes."""

    transcript: Transcript
    leaf: str | None
    notes: tuple[str, ...]


def _no_copy() -> Copy:
    raise LookupError("the session has no file")


class Session(NamedTuple):
    """A session that was read.

    ``ids`` are the marks of its entries, ``passed`` counts the entries that are not turns by reason, and ``entries`` is
    the number of lines or events. ``archive`` is the file name of a session that was reset or deleted, else "".

    By ``said`` (the digests of what users said) and ``above`` (the parents of its entries that it lacks), copies are
    known. ``span`` has its first and last time. ``load`` reads it again, and ``also`` are the files of its copies.
    """

    recording: Recording
    ids: frozenset[str]
    passed: Counter[str]
    messages: int
    entries: int
    file: Path = Path()
    stored: str = ""
    agent: str | None = None
    archive: str = ""
    said: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()
    span: tuple[int, int] = (0, 0)
    load: Callable[[], Copy] = _no_copy
    also: tuple[Path, ...] = ()


# Return several copies of a session as one, or None if the last has the entries of all.
Unite = Callable[[Sequence[Session]], Session | None]


def distinct(sessions: Iterable[Session], unite: Unite, notes: list[str], passed: Counter[str]) -> list[Session]:
    """Return each session once, in order of conversation id; add skipped copies to ``notes`` and ``passed`` (TE-4).

    Copies (left by a migration or a restored backup) are sessions of one id that share what users said, or of which one
    continues the other. Of several, the one with the most entries is read; if others have entries that it lacks, their
    union is. Sessions of one id that are no copies are separate conversations: the first in time keeps the id. If
    several agents use the same id, the agent's name is appended to it.
    """
    groups: dict[tuple[str | None, str], list[Session]] = {}
    for session in sessions:
        groups.setdefault((session.agent, session.recording.conversation), []).append(session)
    chosen = [session for group in groups.values() for session in _conversations(group, unite, notes, passed)]
    agents: Counter[str] = Counter()
    for _, name in groups:
        agents[name] += 1
    for name, count in sorted(agents.items()):
        if count > 1:
            notes.append(f"{name}: {count} agents have a session with this id, so the agent's name is appended")
    qualified = [
        _renamed(session, f"{session.recording.conversation}@{session.agent}") if _shared(session, agents) else session
        for session in chosen
    ]
    return sorted(qualified, key=lambda session: session.recording.conversation)


def _shared(session: Session, agents: Counter[str]) -> bool:
    # An archive may already have been renamed to <id>@<archive>.
    name = session.recording.conversation
    return session.agent is not None and any(
        count > 1 and name.split("@")[0] == shared_id for shared_id, count in agents.items()
    )


def _conversations(group: list[Session], unite: Unite, notes: list[str], passed: Counter[str]) -> list[Session]:
    """Return the conversations of one agent that have one id."""
    if len(group) == 1:
        return group
    parts = [_of_copies(part, unite, notes, passed) for part in _parts(group)]
    # By what does not change while a conversation grows, so that names are stable.
    parts.sort(key=lambda session: (bool(session.archive), session.span[0], where(session)))
    taken = {parts[0].recording.conversation}
    chosen = [parts[0]]
    for session in parts[1:]:
        name = stem = f"{session.recording.conversation}@{_suffix(session)}"
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}.{number}"
        taken.add(name)
        notes.append(f"{name}: shares no entry with the session of the same id, so it is a separate conversation")
        chosen.append(_renamed(session, name))
    return chosen


def _parts(group: list[Session]) -> list[list[Session]]:
    """Return the sessions of a group, sorted into copies of each other."""
    parts: list[list[Session]] = []
    for session in group:
        same = [part for part in parts if any(_are_copies(session, other) for other in part)]
        parts = [part for part in parts if part not in same]
        parts.append([*(other for part in same for other in part), session])
    return parts


def _are_copies(one: Session, other: Session) -> bool:
    # Ids of entries repeat where a program numbers them, so what people said decides, if they said anything.
    shared = one.said & other.said if one.said and other.said else one.ids & other.ids
    return bool(shared or one.above & other.ids or other.above & one.ids)


def _of_copies(part: list[Session], unite: Unite, notes: list[str], passed: Counter[str]) -> Session:
    """Return the session that copies have in common: the copy that lacks no entry of another, else their union."""
    # Active sessions before archives, then by number of entry ids, then databases before files.
    order = sorted(
        part, key=lambda session: (bool(session.archive), -len(session.ids), not session.stored.startswith("SQLite"))
    )
    best, *others = order
    whole = None
    lacking = [other for other in others if other.ids - best.ids]
    if lacking:
        # The newest last; of equal ones, the one that would be read alone.
        in_time = sorted([*reversed(lacking), best], key=lambda session: session.span[1])
        whole = unite(in_time)
        best = in_time[-1]
    for other in order:
        if other is best:
            continue
        if whole is None or all(other is not copy for copy in lacking):
            notes.append(f"{other.recording.conversation}: duplicate in {where(other)}, skipped")
        passed["copies of sessions"] += 1
    chosen = whole or best
    # Only one of them may be in an index.
    origin = strongest(copy.recording.origin for copy in part)
    return chosen._replace(recording=replace(chosen.recording, origin=origin))


def _suffix(session: Session) -> str:
    """Return what tells a conversation from another of the same id."""
    if session.archive:
        return session.archive.partition(".jsonl.")[2] or session.archive
    if session.stored.startswith("SQLite"):
        return "sqlite"
    stem = session.file.name.partition(".jsonl")[0]
    # Slashes and marks would separate the parts of a key.
    return re.sub(r"[/#]", "_", stem) if stem != session.recording.conversation else "jsonl"


def where(session: Session) -> str:
    """Return the name of the file, or of the archive, that has a session."""
    return (
        f"{session.file.name} ({session.archive})"
        if session.archive not in ("", session.file.name)
        else session.file.name
    )


def _renamed(session: Session, name: str) -> Session:
    """Return the session under another name, with its keys and notes renamed to match."""
    recording = session.recording
    old = len(recording.conversation)
    return session._replace(
        recording=replace(
            recording,
            conversation=name,
            turns=tuple(replace(turn, key=name + turn.key[old:]) for turn in recording.turns),
            memories=tuple(replace(memory, key=name + memory.key[old:]) for memory in recording.memories),
            notes=tuple(name + note[old:] for note in recording.notes),
        )
    )
