"""Audit the logs of a live engine: check and aggregate its receipts (Stage B of the design document seed 001)."""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.base.regex import regex
from lab.canary.audit.check import (
    CAPTURE,
    MARKERS,
    OTHERS,
    RECALL,
    Damage,
    Damaged,
    Understanding,
    UnknownFormat,
    check_marker,
    check_recall,
    unknown_formats,
)
from lab.canary.audit.copies import Copies, Pairs, in_reading_order, is_stream
from lab.canary.audit.lines import MAX_LINE, STDIN, MarkedLines, opened
from lab.canary.audit.log_line import FAILED, STARTED, LogLine, entries_in, payload, read_lines
from lab.canary.audit.sessions import DAMAGE, GAP, NAMED, SCOPE, TRANSCRIPT, Key, Sessions
from lab.canary.audit.status import with_known_reasons
from lab.canary.audit.tally import Tally
from lab.gate.receipts import FOREIGN, FOREIGN_FROM, SCHEMA, WITH_JSON

LISTED = 20
_COUNTED = (RECALL, *MARKERS, *OTHERS, "unknown", "sentences", FAILED)
_NO_COPIES = {"count": 0, "lost": 0}
_SLOTS = 1 << 21
_REPORT_EVERY = 256 << 20
# The beginning of an audit file, whether indented or on one line.
_BEGINS = regex(rb'\{\s*"schema":\s*"' + re.escape(SCHEMA.encode()) + rb'"')


def audit(
    logs: Sequence[str],
    *,
    listed: int = LISTED,
    tell: Callable[[str], None] | None = None,
    since: datetime | None = None,
    sessions: Mapping[str, str] | None = None,
    others: Container[str] = (),
    ended: bool = False,
    now: float | None = None,
) -> dict[str, Any]:
    """Read logs (``-`` is stdin) and return the content of ``audit.json``.

    Logs with more information per line are read first (:mod:`lab.canary.audit.copies`), and otherwise in the given
    order. All damaged lines are counted, and the first ``listed`` of them are listed. ``tell`` receives progress
    messages. Lines before ``since`` are left out; a line without a time has that of the line before it. ``sessions``
    names the session of lines that name none, by file and line (``gateway.log:7``). Lines with a trace id of ``others``
    are of another gateway: counted, and left out. ``ended`` says that the logs end by
    a decision made without them, so that open sessions count as they are; so they do if the last line is older than a
    pause that ends a session, at ``now`` in seconds since 1970. Raises :class:`UnusableInput` for a missing
    or unreadable file, and for ``since`` where no line has a time.
    """
    _require_readable(logs)
    since_time = since.timestamp() if since else -math.inf
    reading = _Reading(listed, several=len(logs) > 1, since=since_time, sessions=sessions or {}, others=others)
    if len(logs) == 1:
        reading.read(logs[0], None, tell)
    else:
        with in_reading_order(logs) as (order, streams):
            for name in order:
                reading.read(name, streams.get(name), tell)
    if ended or (now is not None and reading.last is not None and now - reading.last > GAP):
        reading.sessions.close_all()
    return reading.as_json(logs)


def require_replaceable(out: Path, logs: Sequence[str]) -> None:
    """Raise :class:`UnusableInput` if ``out`` is one of the logs, or an existing file that is not an audit."""
    if any(name != STDIN and _same(Path(name), out) for name in logs):
        raise UnusableInput(f"--out {out}: is one of the logs and would be overwritten; choose another file")
    if out.exists() and not _is_audit(out):
        raise UnusableInput(f"--out {out}: exists and is not an audit of receipts; choose another file")


def _same(left: Path, right: Path) -> bool:
    return left.resolve() == right.resolve() or (left.exists() and right.exists() and left.samefile(right))


def _is_audit(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return _BEGINS.match(file.read(100)) is not None
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror or error}") from None


class _Reading:
    """The state of an audit: the counts so far."""

    def __init__(
        self, listed: int, *, several: bool, since: float, sessions: Mapping[str, str], others: Container[str]
    ) -> None:
        self._since = since
        self._names, self._others = sessions, others
        # Lines of other gateways by marker, and the starts of engines by database.
        self._elsewhere, self._databases = Counter[str](), Counter[str]()
        self.sessions = Sessions()
        self._files: dict[str, dict[str, Any]] = {}
        self._damage = Damage(listed)
        self._tally = Tally()
        self._pairs = Pairs()
        self._copies = Copies() if several else None
        self._seen = _Seen()
        self._previous: bytes | None = None
        self._markers = Counter[str]()
        self._dropped = Counter[str]()
        self._first: float | None = None
        self.last: float | None = None
        self._timed = 0
        self._unknown: list[UnknownFormat] = []

    def read(self, name: str, stream: MarkedLines | None, tell: Callable[[str], None] | None) -> None:
        """Read one log; ``stream`` is set if the log is already open."""
        understanding = Understanding()
        with nullcontext(stream) if stream else opened(name) as lines:
            entries = self._entries(name, lines, tell)
            number = 0
            for number, entry in self._copies.without(entries) if self._copies else entries:
                try:
                    if isinstance(entry, Damaged):
                        raise entry
                    if self._count(entry, f"{name}:{number}") in WITH_JSON:
                        understanding.read()
                except Damaged as error:
                    self._damage.add(name, number, error)
                    self._in_session(None, None)
                    understanding.failed(number, error)
                    if understanding.is_hopeless:
                        break
            if unknown := understanding.of(name):
                self._unknown.append(unknown)
            elif not number and not lines.is_text:
                what = "is not text, or is compressed in an unknown way"
                self._unknown.append(UnknownFormat(name, 1, FOREIGN, what, 0, 0))
            elif not number and lines.lines >= FOREIGN_FROM and not lines.of_gateway:
                what = f"none of its {lines.lines:,} lines names the engine, and none of the first ones a gateway"
                self._unknown.append(UnknownFormat(name, 1, FOREIGN, what, 0, 0))
            if lines.broken:
                self._damage.add(name, lines.lines, Damaged("gzip", lines.broken))
            self._files[name] = {"file": name, "lines": lines.lines, "bytes": lines.bytes}

    def _entries(
        self, name: str, lines: MarkedLines, tell: Callable[[str], None] | None
    ) -> Iterator[tuple[int, LogLine | Damaged]]:
        """Yield the parsed lines of the engine with their numbers; lines that only mention it are just counted."""
        next_report = _REPORT_EVERY
        time = None if self._since > -math.inf else math.inf
        is_named = False
        for number, line in lines:
            is_named = lines.of_gateway = True
            try:
                entries = self._read(line)
            except Damaged as error:
                entries = [error]
            for entry in entries:
                if time != math.inf and not isinstance(entry, Damaged) and entry.time is not None:
                    time = entry.time
                if time is None or time < self._since:
                    continue
                if not isinstance(entry, Damaged) and entry.name is None:
                    self._markers["mentions"] += 1
                else:
                    yield number, entry
            if tell and lines.bytes >= next_report:
                tell(f"{name}: {lines.bytes >> 20} MB, {counted(lines.lines, 'line')}")
                next_report += _REPORT_EVERY
        if time is None and is_named:
            raise UnusableInput(f"{name}: no line of the engine has a time, so --since cannot choose any")

    def _read(self, line: bytes | None) -> list[LogLine | Damaged]:
        if line is None:
            raise Damaged("too_long", f"the line is longer than {MAX_LINE} bytes")
        entries = read_lines(line)
        if len(entries) == 1:
            return [self._unseen(line, entries[0])]
        # Documents that overlap hold the same records in other lines; equal records of one line have only its time.
        found, seen = list[LogLine | Damaged](), Counter[str]()
        for entry in entries:
            key = f"{entry.time} {entry.name}{entry.rest}"
            found.append(self._unseen(f"{seen[key]} {key}".encode("utf-8", "replace"), entry))
            seen[key] += 1
        return found

    def _unseen(self, line: bytes, entry: LogLine) -> LogLine | Damaged:
        # The two receipts of one turn may be equal if the log's times have no fraction of a second.
        neighbours = line == self._previous and entry.time is not None and entry.time.is_integer()
        self._previous = line
        if entry.time is not None and self._seen.before(line) and not neighbours:
            return Damaged("duplicate", "the same line, with the same time, was read before")
        return entry

    def _count(self, entry: LogLine, where: str) -> str:
        """Count a line, and return the name of its marker."""
        name = entry.name or ""
        if not name and (started := STARTED.match(entry.rest.lstrip())):
            self._databases[started["db"]] += 1
        if entry.trace is not None and entry.trace in self._others:
            self._elsewhere[name] += 1
            return name
        key: Key | None = (NAMED, entry.session) if entry.session else None
        is_recall = False
        if name == RECALL:
            receipt = payload(entry)
            check_recall(with_known_reasons(receipt))
            if not self._pairs.is_second(entry, receipt["injectedCount"]):
                known = self._names.get(where)
                key = key or ((TRANSCRIPT, known) if known else (SCOPE, receipt["scope"]))
                is_recall = True
                self._tally.add(receipt, entry.session or known)
        elif name in MARKERS:
            value = payload(entry)
            check_marker(name, value)
            if name == "todoGuardrail" and type(value.get("dropped")) is int:
                self._dropped["todos"] += value["dropped"]
            elif name == CAPTURE:
                self._pairs.end_turn(entry)
        elif not name:
            self._tally.health.add_message(entry.rest)
            failed = entry.rest.lstrip().startswith(FAILED)
            name = FAILED if failed else "sentences"
        # Only valid lines reach this point, so damaged lines do not count as timed.
        if entry.time is not None:
            self._timed += 1
            self._first = entry.time if self._first is None else min(self._first, entry.time)
            self.last = entry.time if self.last is None else max(self.last, entry.time)
        self._markers[name if name in _COUNTED else "unknown"] += 1
        self._in_session(key, entry.time, recall=is_recall, failed=name == FAILED)
        return name

    def _in_session(self, key: Key | None, time: float | None, *, recall: bool = False, failed: bool = False) -> None:
        """Count what the last line added in its session."""
        broken = self._damage.broken
        lines = self._markers.total() - self._markers["mentions"] + broken
        sums = {**self._tally.sums(), DAMAGE: (broken, lines)}
        self.sessions.add(key, time, sums, recall=recall, failed=failed)

    def as_json(self, logs: Sequence[str]) -> dict[str, Any]:
        """Return the audit, with its keys in a fixed order and its files in the order of ``logs``."""
        sound = self._markers.total() - self._markers["mentions"]
        return {
            "schema": SCHEMA,
            "files": [self._files[name] for name in logs],
            "lines": sum(file["lines"] for file in self._files.values()),
            "bytes": sum(file["bytes"] for file in self._files.values()),
            "first_time": _iso(self._first),
            "last_time": _iso(self.last),
            "timed_lines": self._timed,
            "markers": {name: self._markers[name] for name in (*_COUNTED, "mentions")},
            "damage": self._damage.as_json(sound),
            "copies": {"count": self._copies.count, "lost": self._copies.lost} if self._copies else _NO_COPIES,
            "pairs": self._pairs.as_json(self._tally.answered),
            "stale_todos_dropped": self._dropped["todos"],
            "sessions": self.sessions.as_json(),
            **self._tally.as_json(self._markers[FAILED]),
            **unknown_formats(self._unknown),
            **({"databases": dict(self._databases)} if len(self._databases) > 1 else {}),
            **({"elsewhere": {"recalls": self._elsewhere[RECALL]}} if self._elsewhere else {}),
        }


class _Seen:
    """A lossy set of the lines that were read, in constant memory.

    Each line has one slot, by its hash, and a new line replaces the old one in its slot. Among millions of lines, a
    duplicate may be missed, but practically no line is falsely reported.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _SLOTS))

    def before(self, line: bytes) -> bool:
        """Return whether this line was read before, and remember it."""
        key = int.from_bytes(hashlib.blake2b(line.rstrip(b"\r\n"), digest_size=8).digest())
        slot = key % _SLOTS
        known = self._slots[slot] == key
        self._slots[slot] = key
        return known


def _require_readable(logs: Sequence[str]) -> None:
    """Raise :class:`UnusableInput` for a duplicate or unreadable log before the first one is read."""
    paths = [name if name == STDIN else str(Path(name).resolve()) for name in logs]
    for index, (name, path) in enumerate(zip(logs, paths, strict=True)):
        if path in paths[:index]:
            raise UnusableInput(f"{name}: is given twice, so every receipt would count twice; give it once")
        # Opening a pipe would lose its data.
        if not is_stream(name):
            with opened(name):
                pass


def _iso(time: float | None) -> str | None:
    if time is None:
        return None
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class LastReceipt(NamedTuple):
    """A recall receipt and its line; ``again`` is the line of the second receipt of the same turn, if there is one."""

    line: int
    receipt: dict[str, Any]
    again: int | None = None


def last_receipts(log: str, count: int) -> list[LastReceipt]:
    """Return the last ``count`` valid recall receipts of a log, in its order; the two of one turn count once.

    Damaged lines are passed over; ``lab canary audit`` lists them. Raises :class:`UnusableInput` if the log cannot be
    read or has no valid receipt.
    """
    receipts: deque[LastReceipt] = deque(maxlen=count)
    pairs = Pairs()
    damaged = 0
    with opened(log) as lines:
        for number, entry in entries_in(lines):
            try:
                if entry is None:
                    damaged += 1
                elif entry.name == RECALL:
                    receipt = payload(entry)
                    check_recall(with_known_reasons(receipt))
                    if pairs.is_second(entry, receipt["injectedCount"]) and receipts:
                        receipts[-1] = receipts[-1]._replace(again=number)
                    else:
                        receipts.append(LastReceipt(number, receipt))
                elif entry.name == CAPTURE:
                    pairs.end_turn(entry)
            except Damaged:
                damaged += 1
    if not receipts:
        why = f"; {counted(damaged, 'damaged line')}, which lab canary audit lists" if damaged else ""
        raise UnusableInput(f"{log}: has no valid recall receipt{why}. Are receipts enabled (receipts.enabled)?")
    return list(receipts)
