"""Frozen snapshots of a host: a read-only copy of what a replay needs, with the sha256 of every file (IN-3 to IN-6).

::

    ROOT/2026-11-23/snapshot.json     what was copied, when, from where; its own digest
    ROOT/2026-11-23/agents/…          transcripts, archives and databases of the sessions, as below the home
    ROOT/2026-11-23/store/data/       the LanceDB store, at one version
    ROOT/2026-11-23/engine.json       the engine's section of the configuration, without keys
    ROOT/2026-11-23/gateway.log       the log

A snapshot exists as a whole or not at all, so a snapshot that is killed can be repeated.

The files of a running host are copied so that each is whole: lines up to the last complete one, databases in one
transaction (IN-4). Of the configuration only the engine's section is kept, without keys (IN-3).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from io import BufferedWriter
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_env import is_secret
from lab.base.errors import CannotMeasure, CannotWrite, UnusableInput
from lab.base.file_digests import FileDigest, as_json, difference, digests_of, set_read_only, total_digest
from lab.base.files import (
    atomic_folder,
    cannot_write,
    digest,
    dump_json,
    only_writer,
    private_folder,
    read_json,
    remove_leftover_folders,
    sha256_file,
    write_atomically,
)
from lab.base.formatting import Announce, counted, silent
from lab.base.shape import expect, field
from lab.base.sqlite import read_sqlite
from lab.host.home import Home, in_bytes
from lab.recordings.openclaw.folders import INDEX, find
from lab.systems.openclaw.config.file import ENTRY, locate, switched_off
from lab.systems.openclaw.table.contents import copy_version

_CHUNK = 1 << 20
ATTEMPTS = 3
# What can follow the last line break and still be a whole line.
_MOST_TAIL = 1 << 26


class Copy(NamedTuple):
    """A copied file, and how many bytes of a line that was being written were left out."""

    file: FileDigest
    cut: int = 0


def copy_lines(source: Path, target: Path, name: str) -> Copy:
    """Copy a file of JSON lines up to its last whole line, as far as it was there when the copy began.

    A last line without a line break counts as whole if it is JSON. Raises :class:`FileNotFoundError` if the file is
    gone.
    """
    with source.open("rb") as reading, _created(target) as writing:
        left = os.fstat(reading.fileno()).st_size
        hashed, whole, size, written = hashlib.sha256(), hashlib.sha256(), 0, 0
        while left and (chunk := reading.read(min(_CHUNK, left))):
            left -= len(chunk)
            end = chunk.rfind(b"\n") + 1
            if end:
                hashed.update(chunk[:end])
                whole, size = hashed.copy(), written + end
            hashed.update(chunk[end:])
            written += len(chunk)
            writing.write(chunk)
        writing.flush()
        # Not of the source, which may have been rotated or cut meanwhile.
        if written > size and _is_whole(target, size, written):
            whole, size = hashed, written
        writing.truncate(size)
        os.fsync(writing.fileno())
    return Copy(FileDigest(name, size, whole.hexdigest()), written - size)


def copy_whole(source: Path, target: Path, name: str) -> Copy:
    """Copy a file as it is. Raises :class:`CannotMeasure` if it changes during every attempt."""
    for _ in range(ATTEMPTS):
        before = source.stat()
        hashed, size = hashlib.sha256(), 0
        with source.open("rb") as reading, _created(target) as writing:
            while chunk := reading.read(_CHUNK):
                hashed.update(chunk)
                size += len(chunk)
                writing.write(chunk)
            writing.flush()
            os.fsync(writing.fileno())
            # By the open file: another one may have taken its name meanwhile.
            after = os.fstat(reading.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and size == after.st_size:
            return Copy(FileDigest(name, size, hashed.hexdigest()))
        target.unlink()
    raise CannotMeasure(f"{source}: changed during each of {ATTEMPTS} copies; try again")


def copy_database(source: Path, target: Path, name: str) -> Copy:
    """Copy an SQLite database as one transaction sees it, with what its log holds; another process may write it.

    Raises what :func:`lab.base.sqlite.read_sqlite` raises.
    """
    _created(target).close()

    def copied(opened: sqlite3.Connection) -> None:
        writing = sqlite3.connect(target)
        try:
            opened.backup(writing)
        except sqlite3.Error as error:
            if error.sqlite_errorname in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
                raise cannot_write(target, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error
            raise
        finally:
            writing.close()

    read_sqlite(source, copied)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return Copy(FileDigest(name, target.stat().st_size, sha256_file(target)))


def _created(target: Path) -> BufferedWriter:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    writing = target.open("xb")
    os.fchmod(writing.fileno(), 0o600)
    return writing


def _is_whole(file: Path, start: int, end: int) -> bool:
    """Return whether the bytes from the last line break on are a JSON object."""
    if end - start > _MOST_TAIL:
        return False
    with file.open("rb") as reading:
        reading.seek(start)
        tail = reading.read(end - start)
    try:
        return isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        return not tail.strip()


def engine_section(value: Any, config: Path) -> dict[str, Any]:
    """Return a host's configuration reduced to the engine's section, in its place, without secrets.

    ``value`` is the resolved file ``config``. Nothing else of the host's configuration is kept: it holds the keys of
    its providers and the token of its gateway. Where the host does not run the engine (HC-9), the switches are kept.
    The copy of the table has the default name, so the key ``tableName`` is left out.
    """
    section = locate(value, str(config)) or {}
    kept = {key: item for key, item in section.items() if key != "tableName"}
    entry: dict[str, Any] = {"enabled": True, "config": without_secrets(kept)}
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


KIND, VERSION, NAME = "lab.snapshot", 1, "snapshot.json"
ENGINE, LOG, STORE = "engine.json", "gateway.log", Path("store") / "data"
_SELF = "sha256"
GONE = "went away while the snapshot was taken"


@dataclass(frozen=True)
class Snapshot:
    """A snapshot: its files, the digest of them all, and what was cut or left out and why.

    ``cut`` has the bytes of unfinished lines by file; ``version``, ``rows`` and ``store_path`` are those of the store.
    ``config`` is the host's configuration, if it was not in the home.
    """

    path: Path
    created: str
    home: str
    files: tuple[FileDigest, ...]
    cut: Mapping[str, int]
    left_out: Mapping[str, str]
    version: int | None
    rows: int | None
    store_path: str | None
    config: str | None = None

    @property
    def sha256(self) -> str:
        """The digest of all files; equal homes give equal snapshots."""
        return total_digest(self.files)

    @cached_property
    def known(self) -> frozenset[FileDigest]:
        """The files, to look up."""
        return frozenset(self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def engine(self) -> Path:
        """The engine's configuration."""
        return self.path / ENGINE

    @property
    def store(self) -> Path | None:
        """The LanceDB folder, if the host had one."""
        return self.path / STORE if self.version is not None else None

    @property
    def log(self) -> Path | None:
        """The gateway's log, if it was there."""
        return self.path / LOG if any(file.path == LOG for file in self.files) else None

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON, without the list of files."""
        return {
            "path": str(self.path),
            "sha256": self.sha256,
            "created": self.created,
            "home": self.home,
            "files": len(self.files),
            "bytes": self.size,
            "cut": dict(self.cut),
            "left_out": dict(self.left_out),
            "store": {"version": self.version, "rows": self.rows} if self.version is not None else None,
        }


class Source(NamedTuple):
    """A file to copy, its path in the snapshot, and how it is copied."""

    path: Path
    name: str
    copy: Callable[[Path, Path, str], Copy]


def snapshots(root: Path) -> list[Path]:
    """Return the folders of the snapshots in a folder, oldest first."""
    if not root.is_dir():
        return []
    found = [path for path in root.iterdir() if path.name[0] != "." and (path / NAME).is_file()]
    return sorted(found, key=lambda path: (path.name[:10], len(path.name), path.name))


def size_of(home: Home) -> int:
    """Return how many bytes a snapshot of a home will have, about."""
    files = [source.path for source in _sources(home)]
    if home.store:
        files += [file for file in (home.store / f"{home.table}.lance").rglob("*") if file.is_file()]
    return sum(_size(file) for file in files)


def take(
    home: Home,
    root: Path,
    *,
    date: str,
    created: str,
    like: Snapshot | None = None,
    sealed: bool = True,
    announce: Announce = silent,
) -> Snapshot:
    """Take a snapshot of a home into ``root``, named by the date (IN-5); return ``like`` if nothing changed since it.

    Files that equal those of ``like``, which must have been compared with its digests, become links to them, which take
    no space. Only a ``sealed`` snapshot is made read-only. Raises :class:`lab.base.errors.CannotWrite` if there is no
    room for it, and :class:`UnusableInput` for a folder in the home.
    """
    if root.resolve().is_relative_to(home.path.resolve()):
        raise UnusableInput(f"{root}: is inside {home.path}, which is never written; choose another --out")
    try:
        private_folder(root)
    except OSError as error:
        raise cannot_write(root, error) from error
    with only_writer(root):
        remove_leftover_folders(root)
        place = _new_place(root, date)
        _require_room(home, root, announce)
        about = {"created": created, "home": str(home.path.resolve())}
        if home.config.parent != home.path:
            about["config"] = str(home.config.absolute())
        try:
            with atomic_folder(place) as part:
                _write(home, part, like, about, announce)
        except _Same as same:
            return same.snapshot
        if sealed:
            set_read_only(place)
    return open_snapshot(place, check=False)


class _Same(Exception):
    """Nothing changed since another snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


def _write(home: Home, part: Path, like: Snapshot | None, about: dict[str, str], announce: Announce) -> None:
    """Write a snapshot into a temporary folder; raise :class:`_Same` if it equals ``like``."""
    value = _fill(home, part, like, announce) | about
    if like is not None and _snapshot(part, value).sha256 == like.sha256:
        raise _Same(like)
    write_atomically(part / NAME, dump_json(value | {_SELF: digest(value)}), private=True)


def open_snapshot(path: Path, sha256: str | None = None, *, check: bool = True) -> Snapshot:
    """Return a snapshot after comparing every file with its digest.

    Raises :class:`UnusableInput` if it is damaged, edited, or not the one with the digest ``sha256``.
    """
    file = path / NAME
    if not file.is_file():
        raise UnusableInput(f"{path}: is no snapshot of a host (it has no {NAME}); `lab init HOME` takes one")
    value = expect(read_json(file, once=True), dict, str(file))
    if value.get("kind") != KIND or value.get("schema_version") != VERSION:
        raise UnusableInput(f"{file}: is not a snapshot of this version")
    covered = {name: part for name, part in value.items() if name != _SELF}
    if value.get(_SELF) != digest(covered):
        raise UnusableInput(f"{file}: was edited or damaged: it does not match its own digest; use another snapshot")
    found = _snapshot(path, covered)
    if sha256 is not None and sha256 != found.sha256:
        raise UnusableInput(f"{path}: is not the snapshot that is named: its digest is {found.sha256}, not {sha256}")
    if check:
        there = [one for one in digests_of(path).files if one.path != NAME]
        if problem := difference(there, found.files):
            raise UnusableInput(f"{path}: {problem}; the snapshot is damaged or was edited, so it cannot be used")
    return found


def _snapshot(path: Path, value: Mapping[str, Any]) -> Snapshot:
    where = str(path / NAME)
    store = value.get("store") or {}
    return Snapshot(
        path,
        field(value, "created", str, where),
        field(value, "home", str, where),
        tuple(
            FileDigest(field(entry, "path", str, where), field(entry, "bytes", int, where), entry.get("sha256", ""))
            for entry in field(value, "files", list, where)
        ),
        field(value, "cut", dict, where),
        field(value, "left_out", dict, where),
        store.get("version"),
        store.get("rows"),
        store.get("path"),
        value.get("config"),
    )


def _new_place(root: Path, date: str) -> Path:
    number, place = 1, root / date
    while place.exists():
        number += 1
        place = root / f"{date}-{number}"
    return place


def _require_room(home: Home, root: Path, announce: Announce) -> None:
    needed, free = size_of(home), shutil.disk_usage(root).free
    announce(f"snapshot of {home.path}: {in_bytes(needed)}; {in_bytes(free)} are free in {root}")
    if needed > free:
        raise CannotWrite(
            f"{root}: a snapshot of {home.path} needs {in_bytes(needed)}, and only {in_bytes(free)} are free; free "
            "some, or choose another --out"
        )


def _fill(home: Home, part: Path, like: Snapshot | None, announce: Announce) -> dict[str, Any]:
    """Copy a home into a temporary folder; return the content of the snapshot's file."""
    copies: dict[str, Copy] = {}
    left_out = {found.where: found.problem for found in home.damaged if found.what == "sessions"}
    # A session that was reset meanwhile has another name, so the second look finds it.
    for _ in range(2):
        for source in _sources(home):
            if source.name in copies or source.name in left_out:
                continue
            try:
                copies[source.name] = source.copy(source.path, part / source.name, source.name)
            except FileNotFoundError:
                left_out[source.name] = GONE
            except PermissionError as error:
                left_out[source.name] = f"cannot be read: {error.strerror}"
            except UnusableInput as error:
                # A damaged database. One that is locked, or a full disk, ends the snapshot.
                left_out[source.name] = str(error).removeprefix(f"{source.path}: ")
            else:
                _link(part, copies[source.name].file, like)
            if source.name in left_out:
                (part / source.name).unlink(missing_ok=True)
                announce(f"{source.path}: left out: {left_out[source.name]}")
    write_atomically(part / ENGINE, dump_json(engine_section(home.value, home.config)), private=True)
    files = [copy.file for copy in copies.values()]
    files.append(FileDigest(ENGINE, (part / ENGINE).stat().st_size, sha256_file(part / ENGINE)))
    store: dict[str, Any] | None = None
    if home.store is not None:
        (part / STORE).parent.mkdir(mode=0o700)
        contents, copied = copy_version(home.store, part / STORE, name=home.table)
        files += [file._replace(path=(STORE / file.path).as_posix()) for file in copied.files]
        if contents:
            store = {"version": contents.version, "rows": contents.rows, "path": str(home.store.resolve())}
        for file in copied.files:
            _link(part, file._replace(path=(STORE / file.path).as_posix()), like)
    announce(f"{counted(len(files), 'file')} copied, {in_bytes(sum(file.bytes for file in files))}")
    return {
        "kind": KIND,
        "schema_version": VERSION,
        "store": store,
        "cut": {name: copy.cut for name, copy in copies.items() if copy.cut},
        "left_out": left_out,
        "files": as_json(sorted(files)),
    }


def _sources(home: Home) -> Iterator[Source]:
    """Yield the files of sessions as they are now, and the log."""
    names: set[str] = set()
    for location in find(home.path, home.config).locations:
        agent = location.agent or "main"
        for file in location.databases:
            yield _source(home, file, copy_database, f"{agent}/agent", names)
        for file in (*location.transcripts, *(archive.path for archive in location.archives)):
            copy = copy_whole if file.suffix == ".zst" else copy_lines
            yield _source(home, file, copy, f"{agent}/sessions", names)
        folders = dict.fromkeys(file.parent for file in location.transcripts)
        for folder in folders:
            if (folder / INDEX).is_file():
                yield _source(home, folder / INDEX, copy_whole, f"{agent}/sessions", names)
    if home.log is not None:
        yield Source(home.log, LOG, copy_lines)


def _source(home: Home, file: Path, copy: Callable[[Path, Path, str], Copy], folder: str, names: set[str]) -> Source:
    """Return how a file is copied: below the home under its path, from elsewhere under a path of its agent."""
    if file.is_relative_to(home.path):
        name = file.relative_to(home.path).as_posix()
    else:
        agent, _, kind = folder.partition("/")
        # The host may have two folders of one agent: an earlier one in its home, and the one that is configured.
        others = (f"agents/{agent}{f'.{number}' if number else ''}/{kind}/{file.name}" for number in count())
        name = next(name for name in others if name not in names and not (home.path / name).exists())
    names.add(name)
    return Source(file, name, copy)


def _link(part: Path, file: FileDigest, like: Snapshot | None) -> None:
    """Replace a copy by a link to an equal file of another snapshot, on a file system that has links."""
    if like is not None and file in like.known:
        copy, link = part / file.path, part / f"{file.path}.link"
        with suppress(OSError):
            os.link(like.path / file.path, link)
            os.replace(link, copy)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
