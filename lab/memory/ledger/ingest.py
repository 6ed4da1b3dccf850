"""Ingest a log of observations into a ledger: every line once, however often the command is run or killed (LD-4).

A line of the log is an observation, malformed with a reason, or not yet complete. Each batch of lines has one row of
``lab_origins``, by which an observation's line is found (LD-10): about 2 bytes an observation, where a row each would
take 20.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lab.base.errors import InUse, UnusableInput
from lab.base.files import require_finite
from lab.base.sqlite import tables, transaction
from lab.memory.ledger import ledger
from lab.memory.ledger.grading import Grades, Scorer, fill
from lab.memory.ledger.ledger import detail_of, index_rows, moment, row_of, stamp, storable

# A longer line is counted and skipped without being held in memory.
LONGEST = 1 << 20
RECEIPT = "recall-lab.ledger.ingest.v1"
BATCH = 5000
# Line numbers of malformed lines that a receipt names.
NAMED = 5
# Every observation has one of these; a line of another file has none (LD-3).
TELLING = ("summary", "summary_en", "text_en", "tool_name", "tool")
# References that count in the provenance of a detail alone.
LINKS = ("supersedes", "contradicts")
_INSERT = "INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class Line(NamedTuple):
    """A line with its number from 1, its first byte and its length in bytes.

    ``observation`` is None if the line is malformed; then ``problem`` says why, unless the line is blank.
    """

    number: int
    position: int
    length: int
    observation: dict[str, Any] | None
    problem: str = ""


def read_lines(file: BinaryIO, hashed: Any = None, *, position: int = 0, number: int = 0) -> Iterator[Line]:
    """Yield the lines of a file from ``position`` on; ``number`` is the number of lines before it.

    Their bytes are added to ``hashed``, a hash of :mod:`hashlib`.

    A last line without a line break is yielded if it is a complete JSON object. Otherwise its writer has not finished
    it, or was killed: it is not yielded, and its bytes are not added.
    """
    hashed = hashed or hashlib.sha256()
    file.seek(position)
    while data := file.readline(LONGEST + 1):
        number += 1
        length = len(data)
        if data.endswith(b"\n"):
            hashed.update(data)
            yield Line(number, position, length, *_parsed(data))
        elif length <= LONGEST:
            observation, _ = _parsed(data)
            if observation is not None:
                hashed.update(data)
                yield Line(number, position, length, observation)
            return
        else:
            rest = _end_of_line(file)
            if rest is None:
                return
            file.seek(position)
            length += rest
            _add(file, hashed, length)
            yield Line(number, position, length, None, f"longer than {LONGEST >> 20} MiB")
        position += length


def _end_of_line(file: BinaryIO) -> int | None:
    """Read to the end of a line; return the number of bytes, None if the line has no end yet."""
    length = 0
    while data := file.readline(LONGEST):
        length += len(data)
        if data.endswith(b"\n"):
            return length
    return None


def _add(file: BinaryIO, hashed: Any, length: int) -> None:
    while length and (data := file.read(min(length, LONGEST))):
        hashed.update(data)
        length -= len(data)


def _parsed(data: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the object in a line and why there is none; neither for a blank line."""
    if not data.strip():
        return None, ""
    if b"\0" in data:
        return None, "holds NUL bytes"
    try:
        # SQLite cannot read NaN and Infinity in JSON, so they become texts.
        value = json.loads(data, parse_constant=str)
    except UnicodeDecodeError:
        return None, "not UTF-8"
    except (ValueError, RecursionError):
        return None, "not JSON"
    return (value, "") if isinstance(value, dict) else (None, "not a JSON object")


class Origin(NamedTuple):
    """A line of a source: its number from 1, its first byte and its length in bytes."""

    source_id: int
    line: int
    position: int
    length: int


def add_origins(connection: sqlite3.Connection, source_id: int, ids: range, lines: Sequence[Line]) -> None:
    """Record the lines of a batch, which follow each other; ``ids`` are those of its observations, in order."""
    if ids:
        # Of each line the length, and in the lowest bit whether it is an observation.
        numbers = (line.length << 1 | (line.observation is not None) for line in lines)
        packed = zlib.compress(struct.pack(f"<{len(lines)}Q", *numbers))
        values = (ids[0], ids[-1], source_id, lines[0].number, lines[0].position, packed)
        connection.execute("INSERT INTO lab_origins VALUES (?, ?, ?, ?, ?, ?)", values)


def origin_of(connection: sqlite3.Connection, observation_id: int) -> Origin | None:
    """Return where an observation comes from; None if another program inserted it."""
    row = connection.execute(
        "SELECT * FROM lab_origins WHERE first <= ? ORDER BY first DESC LIMIT 1", (observation_id,)
    ).fetchone()
    if row is None or observation_id > row[1]:
        return None
    identity, _, source_id, number, position, packed = row
    for (packed_length,) in struct.iter_unpack("<Q", zlib.decompress(packed)):
        length, is_observation = packed_length >> 1, packed_length & 1
        if is_observation and identity == observation_id:
            return Origin(source_id, number, position, length)
        identity += is_observation
        number += 1
        position += length
    return None


class Source(NamedTuple):
    """A log in ``lab_sources``: what was read of it, and where it is."""

    id: int
    path: str
    head: str
    position: int
    lines: int
    digest: str
    archived: str | None


@dataclass(slots=True)
class Ingested:
    """What an ingest did. ``malformed`` maps a reason to its lines; ``tail`` is the length of a cut last line."""

    log: Path
    write: bool
    already: int = 0
    inserted: int = 0
    first: int = 0
    last: int = 0
    malformed: dict[str, list[int]] = field(default_factory=dict)
    blank: int = 0
    tail: int = 0
    without_time: int = 0
    without_summary: int = 0
    links_unread: int = 0
    clock_back: int = 0
    grades: Grades = field(default_factory=Grades)

    def receipt(self) -> dict[str, Any]:
        """Return the counts, with the sidecar's names where it has them. No text of an observation is in it."""
        return {
            "kind": RECEIPT,
            "written": self.write,
            "inserted": self.inserted,
            "ids": [self.first, self.last] if self.inserted and self.write else [],
            "lines_ingested_before": self.already,
            "total_seen": self.inserted,
            **self.grades.counts(),
            "malformed": {reason: len(lines) for reason, lines in sorted(self.malformed.items())},
            "malformed_lines": {reason: lines[:NAMED] for reason, lines in sorted(self.malformed.items())},
            "blank": self.blank,
            "cut_tail_bytes": self.tail,
            "without_time": self.without_time,
            "without_summary": self.without_summary,
            "links_unread": self.links_unread,
            "clock_back": self.clock_back,
        }


def ingest(
    path: Path,
    log: Path,
    *,
    write: bool = True,
    scorer: Scorer | None = None,
    upstream: bool = False,
    now: datetime | None = None,
    announce: Callable[[int], None] | None = None,
) -> Ingested:
    """Insert the lines of a log that the ledger at ``path`` does not have yet, in batches of :data:`BATCH`.

    A batch and the place in the log that it ends at are one transaction. Without ``write`` the lines are only read.
    ``scorer`` grades what has no importance. ``upstream`` names kinds as the sidecar does. ``now`` (default: the wall
    clock) is the time of observations without one, and of grades. ``announce`` gets the number of lines read.

    Raises :class:`UnusableInput` for a log whose ingested lines have changed and for a file without an observation, and
    as :func:`ledger.open_ledger`.
    """
    require_finite(log)
    try:
        with log.open("rb") as beginning:
            _require_observation(beginning, log)
        file = log.open("rb")
    except OSError as error:
        raise UnusableInput(f"{log}: cannot be read: {error.strerror}") from None
    done = Ingested(log, write)
    at = stamp(now or datetime.now(UTC))
    missing = not path.exists() or path.stat().st_size == 0
    is_dry = missing and not write
    with file, nullcontext() if is_dry else ledger.open_ledger(path, write=write, new=write) as connection:
        source = source_of(connection, file, log)
        hashed, end = _digest(file, source.position), source.position
        clock: datetime | None = None
        done.already = source.lines
        lines = _observed(read_lines(file, hashed, position=source.position, number=source.lines))
        while batch := list(islice(lines, BATCH)):
            rows, clock = _rows(batch, done, at, scorer, upstream, clock)
            last = batch[-1]
            end = last.position + last.length
            if write and connection is not None:
                after = source._replace(position=end, lines=last.number, digest=hashed.hexdigest())
                with transaction(connection):
                    ids = _write(connection, source, after, batch, rows)
                source = after
                done.first, done.last = done.first or ids.start, ids.stop - 1
            done.inserted += len(rows)
            if announce:
                announce(last.number)
        if write and connection is not None and source.digest:
            # A log that was moved is found at its new place from now on.
            with transaction(connection):
                connection.execute("UPDATE lab_sources SET path = ? WHERE id = ?", (source.path, source.id))
        done.tail = log.stat().st_size - end
    return done


def _require_observation(file: BinaryIO, log: Path) -> None:
    """Raise :class:`UnusableInput` for a file that has lines, of which none is an observation: no log, by mistake."""
    problems = Counter[str]()
    for line in _observed(read_lines(file)):
        if line.observation is not None:
            return
        problems[line.problem] += bool(line.problem)
    if problems.total():
        reasons = ", ".join(f"{number} {problem}" for problem, number in problems.items() if number)
        raise UnusableInput(
            f"{log}: no line is an observation ({reasons}); a log has one JSON object a line, each with a summary"
        )


def is_observation(value: Mapping[str, Any]) -> bool:
    """Return whether the object of a line has what an observation needs (LD-3)."""
    return any(value.get(name) is not None for name in TELLING)


def _observed(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines; those with an object that is no observation are malformed."""
    for line in lines:
        if line.observation is None or is_observation(line.observation):
            yield line
        else:
            yield line._replace(observation=None, problem="without a summary or tool_name")


def _rows(
    batch: list[Line], done: Ingested, at: str, scorer: Scorer | None, upstream: bool, clock: datetime | None
) -> tuple[list[tuple[Any, ...]], datetime | None]:
    """Return the rows of a batch, without ids, and the last time; count everything else in ``done``."""
    rows = []
    for line in batch:
        if line.observation is None:
            if line.problem:
                done.malformed.setdefault(line.problem, []).append(line.number)
            else:
                done.blank += 1
            continue
        detail = detail_of(line.observation)
        row = row_of(line.observation, detail, at, upstream=upstream)
        done.without_time += not line.observation.get("ts")
        done.without_summary += not any(text and text.strip() for text in row[2:4])
        done.links_unread += any(name in detail for name in LINKS)
        time = moment(row[0])
        done.clock_back += time is not None and clock is not None and time < clock
        clock = time or clock
        fill({"kind": row[1], "tool_name": row[5], "summary": row[2]}, detail, done.grades, at, scorer)
        rows.append((*row, storable(json.dumps(detail, ensure_ascii=False))))
    return rows, clock


def _write(
    connection: sqlite3.Connection, before: Source, after: Source, batch: list[Line], rows: list[tuple[Any, ...]]
) -> range:
    """Write the rows of a batch with their index and origins, and move the source on. Return their ids."""
    position = connection.execute("SELECT position FROM lab_sources WHERE id = ?", (before.id,)).fetchone()
    if position != ((before.position,) if before.digest else None):
        raise InUse(f"{before.path}: another process ingests it as well; wait for it to end and run the command again")
    first = _next_id(connection)
    ids = range(first, first + len(rows))
    connection.executemany(_INSERT, ((number, *row) for number, row in zip(ids, rows, strict=True)))
    add_origins(connection, after.id, ids, batch)
    if rows:
        index_rows(connection, ids[0], ids[-1])
    connection.execute("INSERT OR REPLACE INTO lab_sources VALUES (?, ?, ?, ?, ?, ?, ?)", after)
    return ids


def _next_id(connection: sqlite3.Connection) -> int:
    """Return the id after the highest that was ever given, which AUTOINCREMENT remembers."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'observations'").fetchone()
    return (row[0] if row else 0) + 1


def sources(connection: sqlite3.Connection) -> Iterator[Source]:
    """Yield the logs that were ingested, in order of their first ingest."""
    if "lab_sources" in tables(connection):
        yield from map(Source._make, connection.execute("SELECT * FROM lab_sources ORDER BY id"))


def source_of(connection: sqlite3.Connection | None, file: BinaryIO, log: Path) -> Source:
    """Return the source that a log continues, by what was read of it; a new one, without a digest, if there is none."""
    head = first_line(file)
    size, here = log.stat().st_size, str(log.resolve())
    known = list(sources(connection)) if connection else []
    same = [source for source in known if source.head == head]
    for source in sorted(same, key=lambda source: -source.position):
        if source.position <= size and _digest(file, source.position).hexdigest() == source.digest:
            return source._replace(path=here)
    for source in same:
        if here in (source.path, source.archived):
            raise UnusableInput(
                f"{log}: its first {source.lines} lines changed after they were ingested; a log is only appended to. "
                "To take all its lines as new, ingest a copy of it"
            )
    return Source(max((source.id for source in known), default=0) + 1, here, head, 0, 0, "", None)


def first_line(file: BinaryIO) -> str:
    """Return the digest of a log's first line, or of its beginning."""
    file.seek(0)
    return hashlib.sha256(file.readline(LONGEST).rstrip(b"\r\n")).hexdigest()


def _digest(file: BinaryIO, length: int) -> Any:
    """Return the hash of a file's first bytes, which can be updated with those that follow."""
    hashed = hashlib.sha256()
    file.seek(0)
    _add(file, hashed, length)
    return hashed
