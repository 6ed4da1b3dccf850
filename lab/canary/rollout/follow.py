"""Follow growing files for weeks, across rotation, cuts and kills, reading every line once (CN-13).

Where reading goes on is kept for each file as plain values, so that it can be saved together with what was counted. A
file is known by its device and inode, and by the digest of its first bytes: a file that was renamed is read on, one
that was cut or replaced is read from its beginning, and a copy of one that was read already is not read again. Only
whole lines are read; the rest of a file is read again once its line has ended.

Since 2026.9 OpenClaw keeps transcripts in a database. Events are only added. The last row that was read is kept for
each database; a database is opened if it or its log has changed. One that is locked or being replaced is tried again at
the next look.

A canary keeps the engine's lines of its log until there are enough of them, and audits them (CN-8).
"""

from __future__ import annotations

import gzip
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import cannot_write, require_finite
from lab.base.formatting import Announce, duration, silent
from lab.base.regex import regex
from lab.base.sqlite import read_sqlite
from lab.canary.audit.audit import audit
from lab.canary.audit.lines import MARKER, MAX_LINE, Parts, marked
from lab.canary.audit.streams import BLOCK, UTF8, encoding_of
from lab.recordings.openclaw.entries import CannotUnpack, unpack_event

# Bytes at the beginning of a file that tell it from others. Fewer than the least may be the same in another file.
HEAD, LEAST = 1024, 64
# Bytes of one file that are read before the others have their turn, and what was read is saved.
MOST = 8 * BLOCK
# Files that are gone and may come back under another name.
MISSING = 64
PACKED = ".gz"
# Names that the host makes anew every day.
_DATED = regex(r"openclaw-(\d{4}-\d\d-\d\d|YYYY-MM-DD)\.log")
_OF_A_DAY = regex(r"openclaw-\d{4}-\d\d-\d\d\.log([.-]|$)")
_PATTERN = "agents/*/agent/openclaw-agent.sqlite"
# Events that are read at a look.
_MOST = 2000
# Instead of a row: from the end that the database has when it is first read.
_AT_END = -1
# The engine's lines of the window, and the seconds between two looks at a log.
KEPT_LINES, PAUSE = "receipts.log", 1.0
# Recalls, and seconds, after which a line of progress is due.
SAY_RECALLS, SAY_EVERY = 50, 60.0


@dataclass(slots=True)
class Place:
    """How far a file was read: ``at`` bytes, always at the end of a line unless ``within`` a line that is too long."""

    name: str
    device: int
    inode: int
    at: int
    head: int
    digest: str
    within: bool = False
    stamp: int = 0
    encoding: str = UTF8


class Follower:
    """The files that a function lists, such as a log with those it was rotated to.

    The first time, files that exist are read from their end, all later ones from their beginning. ``places`` are those
    of an earlier process.
    """

    def __init__(
        self, files: Callable[[], Sequence[Path]], places: Sequence[Mapping[str, Any]] | None = None, since: float = 0.0
    ) -> None:
        self._files = files
        # Whether the last look read anything, or found another file.
        self.moved = False
        self._places = {(place.device, place.inode): place for place in (Place(**one) for one in places or ())}
        # Packed files by time and size: those that were there, or were looked into.
        self._packed = {stamp for _, stamp in self._gzipped() if places is None or stamp[0] <= since * 1e9}
        self._resumed = places is not None
        if places is None:
            for path, found in self._found():
                place = self._new(path, found)
                _end_of_line(path, place)
                self._places[found.st_dev, found.st_ino] = place

    def as_json(self) -> list[dict[str, Any]]:
        """Return the places as plain values."""
        return [asdict(place) for place in self._places.values()]

    def more(self, *wanted: bytes) -> Iterator[bytes]:
        """Yield the new whole lines that contain any of ``wanted``, a bounded number of bytes of each file.

        The places are those after the last line once all are read. Raises :class:`CannotMeasure` for a file that exists
        and cannot be read.
        """
        listed, self.moved = self._found(), False
        yield from self._unpacked(wanted)
        kept: dict[tuple[int, int], Place] = {}
        for path, found in listed:
            known = self._places.get((found.st_dev, found.st_ino))
            if known is not None and (known.at, known.stamp) == (found.st_size, found.st_mtime_ns):
                kept[found.st_dev, found.st_ino] = known
                continue
            try:
                with path.open("rb") as file:
                    found = os.fstat(file.fileno())
                    place = self._place(path, file, found)
                    kept[found.st_dev, found.st_ino] = place
                    yield from _lines(file, place, wanted)
                    self.moved |= place != known
            except FileNotFoundError:
                # It was rotated away just now: the next look finds it under its new name.
                continue
            except OSError as error:
                raise CannotMeasure(f"{path}: cannot be read: {error.strerror}") from None
        # A file that is not there may be between two names, or packed.
        missing = [(key, place) for key, place in self._places.items() if key not in kept]
        self._places = {**dict(missing[-MISSING:]), **kept}

    def _found(self) -> list[tuple[Path, os.stat_result]]:
        """Return the files with what the system says of them, the oldest first; packed ones are left out."""
        found = []
        for path in self._files():
            try:
                about = path.stat()
            except OSError:
                continue
            if path.suffix != PACKED and path.is_file():
                found.append((path, about))
        return sorted(found, key=lambda one: (one[1].st_mtime_ns, one[0].name))

    def _gzipped(self) -> list[tuple[Path, tuple[int, int]]]:
        """Return the packed files with their time and size, the oldest first."""
        found = []
        for path in self._files():
            if path.suffix == PACKED:
                with suppress(OSError):
                    about = path.stat()
                    found.append((path, (about.st_mtime_ns, about.st_size)))
        return sorted(found, key=lambda one: one[1])

    def _new(self, path: Path, found: os.stat_result) -> Place:
        try:
            with path.open("rb") as file:
                head = file.read(HEAD)
        except OSError as error:
            raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None
        encoding = encoding_of(head, is_whole=False)
        return Place(path.name, found.st_dev, found.st_ino, found.st_size, len(head), _digest(head), encoding=encoding)

    def _place(self, path: Path, file: BinaryIO, found: os.stat_result) -> Place:
        """Return where to read an open file on; the place of a file that is not known begins at 0."""
        head = file.read(HEAD)
        own = (found.st_dev, found.st_ino)
        known = self._places.get(own)
        if known is not None and not _begins(head, known):
            known = None
        alike = [place for key, place in self._places.items() if key != own and _same_file(head, place)]
        furthest = max(alike, key=lambda place: place.at, default=None)
        encoding = encoding_of(head, is_whole=False)
        place = Place(path.name, *own, 0, len(head), _digest(head), stamp=found.st_mtime_ns, encoding=encoding)
        if known is not None:
            place.at, place.within = known.at, known.within
        if furthest is not None and furthest.at >= place.at:
            # A copy that is still being made may be shorter than what was read of its original.
            place.at, place.within = furthest.at, furthest.within
        else:
            # What is left after a cut in the middle was read before; a cut to nothing changes the head.
            place.at = min(place.at, found.st_size)
        return place

    def _unpacked(self, wanted: tuple[bytes, ...]) -> Iterator[bytes]:
        """Yield the lines that were packed by gzip before they were read, the oldest file first."""
        for path, stamp in self._gzipped():
            if stamp in self._packed:
                continue
            self._packed.add(stamp)
            self.moved = True
            try:
                with gzip.open(path) as file:
                    head = file.read(HEAD)
                    known = [place for place in self._places.values() if _same_file(head, place)]
                    if not known and not self._resumed:
                        # While a watch runs, it sees every log before that is packed.
                        continue
                    furthest = max(known, key=lambda place: place.at, default=None)
                    place = Place(path.name, 0, -stamp[0], furthest.at if furthest else 0, len(head), _digest(head))
                    place.encoding = encoding_of(head, is_whole=False)
                    # A copy of it that is not packed goes on behind what is read here.
                    self._places[0, place.inode] = place
                    before = -1
                    while place.at != before:
                        before = place.at
                        yield from _lines(file, place, wanted)
            except (OSError, EOFError, zlib.error):
                continue
        self._resumed = False


def log_files(log: Path) -> Callable[[], list[Path]]:
    """Return a function that lists a log and the files it was rotated to, such as ``gateway.log.1``.

    A ``*`` in the name stands for a date: ``openclaw-*.log``. So does a date in the name ``openclaw-2026-11-29.log``,
    which the host replaces by that of the day. Raises :class:`UnusableInput` for a device and for a folder.
    """
    require_finite(log)
    if log.is_dir():
        raise UnusableInput(f"{log}: is a folder; name the log in it")
    pattern = log.name if "*" in log.name else None

    def files() -> list[Path]:
        if pattern is not None:
            return list(log.parent.glob(pattern))
        try:
            names = os.listdir(log.parent)
        except OSError:
            return []
        if _DATED.fullmatch(log.name):
            return [log.parent / name for name in names if _OF_A_DAY.match(name)]
        begins = (f"{log.name}.", f"{log.name}-")
        return [log.parent / name for name in names if name == log.name or name.startswith(begins)]

    return files


def transcript_files(folders: Sequence[Path]) -> Callable[[], list[Path]]:
    """Return a function that lists the transcripts of folders, or of homes of a host; also those a reset renamed."""

    def files() -> list[Path]:
        patterns = ("*.jsonl*", "agents/*/sessions/*.jsonl*")
        found = (path for folder in folders for pattern in patterns for path in folder.glob(pattern))
        return [path for path in found if path.suffix not in (".zst", ".lock")]

    return files


def _lines(file: BinaryIO | gzip.GzipFile, place: Place, wanted: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield the whole lines after a place, and move the place behind each piece that was read."""
    file.seek(place.at)
    rest, read, parts = b"", 0, Parts()
    while read < MOST and (block := file.read(BLOCK)):
        read += len(block)
        data = rest + block
        end = _end_of_lines(data, place.encoding)
        if place.encoding == UTF8:
            # The parts of a record that a container's runtime split are read together.
            end = parts.end_of_records(data[:end], guess=False)
        whole, rest = data[:end], data[end:]
        text = whole if place.encoding == UTF8 else whole.decode(place.encoding, "replace").encode()
        if place.within and text:
            # The end of a line that is too long for any line of the engine.
            place.within, text = False, text.partition(b"\n")[2]
        if MARKER in wanted:
            yield from (line for _, line in marked(text, parts, wanted))
        else:
            yield from (line for line in text.split(b"\n") if any(mark in line for mark in wanted))
        place.at += len(whole)
        if len(rest) > MAX_LINE:
            place.at += len(rest)
            rest, place.within = b"", True


def _end_of_line(path: Path, place: Place) -> None:
    """Move a place at the end of a file back to the end of its last whole line, or into a line that is too long."""
    with path.open("rb") as file:
        begin = max(0, place.at - MAX_LINE)
        # A character of another encoding has up to four bytes.
        begin -= begin % 4
        file.seek(begin)
        tail = file.read(place.at - begin)
    end = _end_of_lines(tail, place.encoding)
    if end or not begin:
        # The rest of a line that began before is a line of the watch once it ends.
        place.at = begin + end
    else:
        place.within = True


def _end_of_lines(data: bytes, encoding: str) -> int:
    """Return the end of the last line of some data that has ended."""
    feed = "\n".encode(encoding)
    at = data.rfind(feed)
    while at % len(feed) and at >= 0:
        # These bytes are parts of two other characters.
        at = data.rfind(feed, 0, at + len(feed) - 1)
    return at + len(feed) if at >= 0 else 0


def _begins(head: bytes, place: Place) -> bool:
    return len(head) >= place.head and _digest(head[: place.head]) == place.digest


def _same_file(head: bytes, place: Place) -> bool:
    return place.head >= LEAST and _begins(head, place)


def _digest(head: bytes) -> str:
    return blake2b(head, digest_size=8).hexdigest()


class Databases:
    """The databases of homes of a host: those that exist are read from their end, later ones from their beginning."""

    def __init__(self, homes: Sequence[Path], rows: Mapping[str, int] | None = None) -> None:
        self.moved = False
        self._homes = homes
        self._rows = dict(rows) if rows is not None else {str(path): _AT_END for path in self._found()}
        self._stamps: dict[str, object] = {}

    def as_json(self) -> dict[str, int]:
        """Return the last row of each database."""
        return dict(self._rows)

    def more(self, *wanted: bytes) -> Iterator[bytes]:
        """Yield the new events that contain any of ``wanted``, as lines of a transcript."""
        self.moved = False
        for path in self._found():
            name, stamp = str(path), _stamp(path)
            if self._stamps.get(name) == stamp:
                continue
            try:
                rows = read_sqlite(path, partial(self._read, name))
            except LabError:
                continue
            # As long as there is more, it is opened again.
            self._stamps[name] = stamp if len(rows) < _MOST else None
            for row, plain, packed, size in rows:
                self._rows[name] = row
                self.moved = True
                event = plain if isinstance(plain, bytes) else _unpacked(packed, size)
                if any(mark in event for mark in wanted):
                    yield event

    def _found(self) -> list[Path]:
        return sorted(path for home in self._homes for path in home.glob(_PATTERN))

    def _read(self, name: str, connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
        (newest,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM transcript_events").fetchone()
        # A database that was compacted has other numbers: what comes after is new.
        if self._rows.get(name) == _AT_END or newest < self._rows.get(name, 0):
            self._rows[name] = newest
            self.moved = True
        columns = "rowid, event_json, event_zstd, event_utf8_bytes"
        return connection.execute(
            f"SELECT {columns} FROM transcript_events WHERE rowid > ? ORDER BY rowid LIMIT ?",  # noqa: S608 - fixed names
            (self._rows.get(name, 0), _MOST),
        ).fetchall()


def _unpacked(packed: object, size: object) -> bytes:
    try:
        return unpack_event(packed if isinstance(packed, bytes) else b"", size)
    except CannotUnpack:
        return b""


def _stamp(path: Path) -> object:
    stamps = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            about = file.stat()
        except OSError:
            continue
        stamps.append((about.st_ino, about.st_size, about.st_mtime_ns))
    return stamps


def log_of(value: Mapping[str, Any], config: Path) -> Path | None:
    """Return the log that a configuration names (``logging.file``), or None.

    ``~/.openclaw`` is the home of the host, which is the folder of its configuration wherever that was copied to.
    """
    section = value.get("logging")
    named = section.get("file") if isinstance(section, Mapping) else None
    if not isinstance(named, str):
        return None
    file = Path(named)
    parts = file.parts
    return config.parent.joinpath(*parts[2:]) if parts[:2] == ("~", ".openclaw") else file.expanduser()


def _append(log: Follower, file: BinaryIO) -> bool:
    """Write all new lines of the engine; return whether there are any."""
    found, log_is_read = False, False
    while not log_is_read:
        for line in log.more(MARKER):
            file.write(line + b"\n")
            found = True
        # A look reads a bounded number of bytes of each file.
        log_is_read = not log.moved
    file.flush()
    return found


class Window(NamedTuple):
    """A window that ended: its audit, and whether it was decided or has as many recalls as were required."""

    audit: dict[str, Any]
    complete: bool
    seconds: float


def watch(
    log: Follower,
    out: Path,
    *,
    recalls: int | None,
    seconds: float,
    tell: Announce = silent,
    look: Callable[[Path, bool], dict[str, Any]] = lambda kept, ended: audit([str(kept)], ended=ended),
    decides: Callable[[dict[str, Any]], bool] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Window:
    """Wait until the log has so many answered recalls, if any, or for so many seconds; return the audit of it.

    The engine's lines are kept in ``receipts.log`` in ``out``, readable by the owner alone. ``look`` returns their
    audit; its second argument says that the window ended, so that open sessions count. ``decides`` is given the audit
    after each session that ends, and ends the window if it returns true.
    """
    kept = out / KEPT_LINES
    begun = time.monotonic()
    is_new, due, answered, reported, said, closed = True, begun, 0, 0, begun, 0
    try:
        handle = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "wb") as file:
            while True:
                is_new |= _append(log, file)
                now = time.monotonic()
                is_over = now - begun >= seconds
                # An audit reads the whole window again, so in a long one they become rarer.
                if is_over or (is_new and now >= due):
                    result = look(kept, is_over)
                    answered, is_new = int(result["recalls"]["answered"]), False
                    is_full = recalls is not None and answered >= recalls
                    if is_full and not is_over:
                        result = look(kept, True)
                    if is_over or is_full:
                        return Window(result, is_full or recalls is None, now - begun)
                    if decides and result["sessions"]["closed"] > closed:
                        closed = result["sessions"]["closed"]
                        if decides(result):
                            return Window(result, True, now - begun)
                    due = time.monotonic() + 10 * (time.monotonic() - now)
                if answered >= reported + SAY_RECALLS or now - said >= SAY_EVERY:
                    reported, said = answered, now
                    of = f" of {recalls}" if recalls is not None else ""
                    tell(f"{answered}{of} recalls, {duration(max(seconds - (now - begun), 0.0))} left")
                sleep(min(PAUSE, max(seconds - (now - begun), 0.0)))
    except OSError as error:
        raise cannot_write(kept, error) from error
