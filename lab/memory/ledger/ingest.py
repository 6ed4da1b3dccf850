"""Ingest a log of observations into a ledger: every line once, however often the command is run or killed (LD-4)."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from lab.memory.ledger import origins as ledger_origins
from lab.memory.ledger import schema as ledger_schema
from lab.memory.ledger.grades import Grades, Scorer, fill
from lab.memory.ledger.lines import LONGEST, Line, read_lines
from lab.memory.ledger.rows import detail_of, dumped, row_of
from lab.memory.ledger.times import moment, stamp

RECEIPT = "recall-lab.ledger.ingest.v1"
BATCH = 5000
# Line numbers of malformed lines that a receipt names.
NAMED = 5
# Every observation has one of these; a line of another file has none (LD-3).
TELLING = ("summary", "summary_en", "text_en", "tool_name", "tool")
# References that count in the provenance of a detail alone.
LINKS = ("supersedes", "contradicts")
_INSERT = "INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


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
    for line in _observed(read_lines(file, hashlib.sha256())):
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
        rows.append((*row, dumped(detail)))
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
    ledger_origins.add(connection, after.id, ids, batch)
    if rows:
        ledger_schema.index(connection, ids[0], ids[-1])
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
    while length > 0:
        data = file.read(min(length, LONGEST))
        if not data:
            break
        hashed.update(data)
        length -= len(data)
    return hashed
