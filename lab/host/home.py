"""Find the configuration, sessions, stores, logs and ledgers of an OpenClaw host in its home (IN-1, IN-2).

Nothing is written, and no session is parsed: that is done once, on the snapshot.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_env import CONFIG_NAME, Keys, config_of
from lab.base.config_resolve import resolve_config
from lab.base.errors import LabError, UnusableInput
from lab.base.files import require_finite
from lab.base.formatting import counted
from lab.base.sqlite import is_database, read_sqlite
from lab.recordings.openclaw.folders import Location, find, place_of
from lab.systems.openclaw.config.file import ENTRY, locate, read_keys, switched_off, table_in
from lab.systems.openclaw.table.contents import glance
from lab.systems.openclaw.table.schema import TABLE

DEFAULT_STORE = Path("memory") / "lancedb"
_LOG_FILE: Keys = ("logging", "file")
# How deep stores and ledgers are looked for, and which folders hold none.
DEPTH = 5
# Most bytes of the header of a transcript.
_HEADER = 1 << 16
_ELSEWHERE = ("sessions", "node_modules", "plugins", "extensions", "workspace")
WITHOUT_STORE = "memories are then those that the sessions stored with memory_store"
WITHOUT_LOG = "the receipts of the live engine cannot be judged; --log names a log"


class Found(NamedTuple):
    """A part of a home: what it is, where (below the home), what it contains, and what is wrong with it, if anything.

    ``used`` is whether ``lab init`` replays or judges it.
    """

    what: str
    where: str
    contains: str
    problem: str = ""
    used: bool = True


@dataclass(frozen=True, slots=True)
class Home:
    """A host's home: the value of its configuration, and the store and log that are used.

    ``config`` is the file of the configuration, ``table`` the name of the table in the store. ``parts`` lists
    everything that was found; ``lacks`` says what is missing and what that means, ``off`` why the host does not run the
    engine (HC-9).
    """

    path: Path
    config: Path
    value: Any
    store: Path | None
    log: Path | None
    parts: tuple[Found, ...]
    lacks: tuple[str, ...]
    table: str = TABLE
    off: tuple[str, ...] = ()

    @property
    def damaged(self) -> tuple[Found, ...]:
        """The parts that cannot be read."""
        return tuple(part for part in self.parts if part.problem)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "home": str(self.path),
            "parts": [part._asdict() for part in self.parts],
            "store": str(self.store) if self.store else None,
            "log": str(self.log) if self.log else None,
            "lacks": list(self.lacks),
            "config": str(self.config),
            "table": self.table,
            "off": list(self.off),
        }


def look(path: Path, *, store: Path | None = None, log: Path | None = None, config: Path | None = None) -> Home:
    """Return what a home contains; ``store`` and ``log`` are used instead of those that the configuration names.

    ``config`` is the configuration, if it is not the one that the host itself would take (HC-1). Raises
    :class:`UnusableInput` without a home, a configuration or a session, if a place that the configuration names is not
    there (HC-10), if the store that would be used is damaged, and if there are several and none is named.
    """
    if not path.is_dir():
        raise UnusableInput(f"{path}: no such folder; name the folder of an OpenClaw host")
    config = config or config_of(path)
    if not config.exists():
        place = f"{path}: has no {CONFIG_NAME}" if config.parent == path else f"{config}: no such file"
        raise UnusableInput(f"{place}; name the configuration with --config, or by OPENCLAW_CONFIG_PATH")
    resolved = resolve_config(config, state=path)
    value = resolved.value
    resolved.require_set(*read_keys(value), *([] if log else [_LOG_FILE]))
    parts = [Found("configuration", _shown(config, path), _size(config))]
    parts += [Found("configuration", _shown(file, path), f"included, {_size(file)}") for file in resolved.included]
    sessions = find(path, config)
    parts += [part for location in sessions.locations for part in _agent(location, path)]
    if not any(part.what == "sessions" and not part.problem for part in parts):
        damaged = next((f"; {part.where}: {part.problem}" for part in parts if part.problem), "")
        raise UnusableInput(f"{path}: has no session that can be read{damaged}")
    table = table_in(value, str(config)) or TABLE
    stores, ledgers = _stores_and_ledgers(path, table)
    used = _chosen_store(path, config, value, [place for place, _ in stores], store, table)
    # A configuration may name a store of the home by another path.
    listed = next((place for place, _ in stores if used is not None and place.resolve() == used.resolve()), None)
    parts += [
        Found("store", _shown(place, path), contains, problem, place == listed) for place, (contains, problem) in stores
    ]
    if used is not None and listed is None:
        parts.append(Found("store", _shown(used, path), *_store(used, table)))
    if (bad := next((part for part in parts if part.what == "store" and part.used and part.problem), None)) is not None:
        raise UnusableInput(
            f"{bad.where}: {bad.problem}; restore it (`lab memory tags list` shows tags), or name --store"
        )
    named = log or logged_to(value, path)
    if named is not None:
        require_finite(named)
    logs = sorted({*path.glob("*.log"), *(path / "logs").glob("*.log"), *([named] if named else [])})
    parts += [Found("log", _shown(file, path), _size(file), used=file == named) for file in logs if file.is_file()]
    parts += [Found("ledger", _shown(file, path), contains, used=False) for file, contains in ledgers]
    lacks = [*sessions.notes, *([] if used else [f"no LanceDB store: {WITHOUT_STORE}"])]
    if named is None or not named.is_file():
        where = f"{named}" if named else "logging.file is not set"
        lacks.append(f"no log ({where}): {WITHOUT_LOG}")
        named = None
    off = tuple(switched_off(value, complete=True))
    return Home(path, config, value, used, named, tuple(parts), tuple(lacks), table, off)


def logged_to(value: Any, home: Path) -> Path | None:
    """Return the log that a configuration names, existing or not."""
    logging = value.get("logging") if isinstance(value, Mapping) else None
    named = logging.get("file") if isinstance(logging, Mapping) else None
    return place_of(home, named) if isinstance(named, str) else None


def _agent(location: Location, home: Path) -> Iterator[Found]:
    """Yield what an agent has: its transcripts together, and each database."""
    agent = f" of {location.agent}" if location.agent else ""
    if location.transcripts or location.archives:
        files = [*location.transcripts, *(archive.path for archive in location.archives)]
        damaged = [(file, problem) for file in files if (problem := _no_transcript(file))]
        contains = f"{counted(len(location.transcripts), 'transcript')}{agent}"
        if location.archives:
            contains += f", {len(location.archives)} reset or deleted"
        size = sum(file.stat().st_size for file in files if file.exists())
        yield Found("sessions", _shown(files[0].parent, home), f"{contains}, {in_bytes(size)}")
        yield from (Found("sessions", _shown(file, home), "–", problem) for file, problem in damaged)
    for file in location.databases:
        try:
            count = read_sqlite(file, _sessions_in)
        except LabError as error:
            yield Found("sessions", _shown(file, home), "–", str(error).removeprefix(f"{file}: "))
        else:
            yield Found("sessions", _shown(file, home), f"{counted(count, 'session')}{agent}, {_size(file)}")


def _no_transcript(file: Path) -> str:
    """Return why a file is no transcript, judged by its first line alone; blank if it may be one."""
    if file.suffix == ".zst":
        return ""
    try:
        with file.open("rb") as opened:
            head = json.loads(opened.readline(_HEADER) or b"null")
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError):
        head = None
    return "" if isinstance(head, dict) and head.get("type") == "session" else "its first line is no session header"


def _sessions_in(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(DISTINCT session_id) FROM transcript_events").fetchone()[0])


def _stores_and_ledgers(home: Path, table: str) -> tuple[list[tuple[Path, tuple[str, str]]], list[tuple[Path, str]]]:
    """Return every LanceDB folder and every ledger below a home, with what each contains; a store with its problem."""
    stores, ledgers = [], []
    for name, folders, files in os.walk(home):
        folder = Path(name)
        deep = len(folder.relative_to(home).parts) >= DEPTH
        if f"{table}.lance" in folders:
            stores.append((folder, _store(folder, table)))
        folders[:] = [] if deep else sorted(child for child in folders if _may_hold(child))
        ledgers += [(folder / file, found) for file in sorted(files) if (found := _ledger(folder / file))]
    return stores, ledgers


def _may_hold(folder: str) -> bool:
    return not (folder.startswith(".") or folder.endswith((".lance", "-snapshots")) or folder in _ELSEWHERE)


def _store(folder: Path, table: str) -> tuple[str, str]:
    try:
        version, rows = glance(folder, table)
    except UnusableInput as error:
        return "–", str(error).removeprefix(f"{folder}: ")
    size = sum(file.stat().st_size for file in (folder / f"{table}.lance").rglob("*") if file.is_file())
    named = "" if table == TABLE else f" of table {table}"
    return f"{counted(rows, 'row')}{named}, version {version}, {in_bytes(size)}", ""


def _ledger(file: Path) -> str:
    """Return what a ledger contains; blank for any other file."""
    if file.suffix not in (".sqlite", ".db") or file.name.startswith("openclaw-agent"):
        return ""
    try:
        if not is_database(file):
            return ""
        count = read_sqlite(file, lambda opened: opened.execute("SELECT count(*) FROM observations").fetchone()[0])
    except LabError:
        return ""
    return f"{counted(count, 'observation')}, {_size(file)}"


def _chosen_store(
    home: Path, config: Path, value: Any, found: list[Path], given: Path | None, table: str
) -> Path | None:
    """Return the store to replay: the one given, the configured one, or else the default one or the only one (IN-2).

    What the configuration names and what is not there is never replaced by another one.
    """
    if given is not None:
        if not (given / f"{table}.lance").is_dir():
            raise UnusableInput(f"{given}: is not a LanceDB folder with a table {table!r}")
        return given
    section = locate(value, str(config))
    path = section.get("dbPath") if isinstance(section, Mapping) else None
    is_named = isinstance(path, str) and bool(path.strip())
    place = place_of(home, path) if isinstance(path, str) and path.strip() else home / DEFAULT_STORE
    if (place / f"{table}.lance").is_dir():
        return place
    if is_named or table != TABLE:
        at = f"{config}: plugins.entries.{ENTRY}.config.{'dbPath' if is_named else 'tableName'}"
        there = place.is_dir() and is_named and table != TABLE
        what = f"{place} has no table {table!r}" if place.is_dir() else f"{place}: no such folder"
        key = f"{config}: plugins.entries.{ENTRY}.config.tableName" if there else at
        raise UnusableInput(f"{key}: {what}; correct the key, or name the folder of the memories with --store")
    if len(found) > 1:
        names = ", ".join(_shown(store, home) for store in found)
        raise UnusableInput(f"{home}: has several stores, none of which the configuration names: {names}; name --store")
    return found[0] if found else None


def _shown(path: Path, home: Path) -> str:
    return path.relative_to(home).as_posix() if path.is_relative_to(home) else str(path)


def _size(file: Path) -> str:
    return in_bytes(file.stat().st_size)


def in_bytes(size: float) -> str:
    """Return a number of bytes in the unit that people say it in."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
