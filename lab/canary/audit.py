"""The audit of a live engine's logs: every receipt checked, all of them added up (seed 001, Stage B)."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.canary.check import check_recall
from lab.canary.check_markers import CAPTURE, MARKERS, OTHERS, RECALL, check_marker
from lab.canary.copies import Copies
from lab.canary.damage import Damage, Damaged
from lab.canary.lines import MAX_LINE, STDIN, MarkedLines, opened
from lab.canary.order import is_stream, looked_at
from lab.canary.pairs import Pairs
from lab.canary.said import FAILED, Said, payload, read_line
from lab.canary.tally import Tally
from lab.errors import UnusableInput

SCHEMA = "lab.receipts.audit.v1"
LISTED = 20
_COUNTED = (RECALL, *MARKERS, *OTHERS, "unknown", "sentences", FAILED)
_NO_COPIES = {"count": 0, "lost": 0}
_SLOTS = 1 << 21
_TOLD_EVERY = 256 << 20
# How a file that holds an audit begins, in lines or in one.
_BEGINS = re.compile(rb'\{\s*"schema":\s*"' + re.escape(SCHEMA.encode()) + rb'"')


def audit(logs: Sequence[str], *, listed: int = LISTED, tell: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Read logs, ``-`` for stdin, and return the audit as it is written to ``audit.json``.

    Logs are read in the order given, but those that know more before others (:mod:`lab.canary.order`).
    ``listed`` damaged lines are named, all are counted. ``tell`` hears of progress. A file that is missing or cannot
    be read is :class:`UnusableInput`.
    """
    _refuse(logs)
    reading = _Reading(listed, several=len(logs) > 1)
    if len(logs) == 1:
        reading.read(logs[0], None, tell)
    else:
        with looked_at(logs) as (order, streams):
            for name in order:
                reading.read(name, streams.get(name), tell)
    return reading.as_json(logs)


def nothing_found(found: Mapping[str, Any]) -> str | None:
    """What to ask where logs tell nothing of recall, not even of one that failed; None where they do."""
    if found["recalls"]["receipts"] or found["errors"]["attempts"] or found["damage"]["lines"]:
        return None
    return (
        f"no receipt of recall in {found['lines']} lines: is this the gateway's log? "
        "are receipts enabled (receipts.enabled)?"
    )


def require_replaceable(out: Path, logs: Sequence[str]) -> None:
    """Refuse to write an audit over a log that it is of, or over anything else that is no audit."""
    if any(name != STDIN and _same(Path(name), out) for name in logs):
        raise UnusableInput(f"--out {out}: is one of the logs, and would be overwritten; name another file")
    if out.exists() and not _is_audit(out):
        raise UnusableInput(f"--out {out}: exists and is no audit of receipts; name another file")


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _is_audit(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return _BEGINS.match(file.read(100)) is not None
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror or error}") from None


class _Reading:
    """What was found so far."""

    def __init__(self, listed: int, *, several: bool) -> None:
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
        self._last: float | None = None
        self._timed = 0

    def read(self, name: str, stream: MarkedLines | None, tell: Callable[[str], None] | None) -> None:
        """Read one log, from what is open already where it is a stream."""
        with nullcontext(stream) if stream else opened(name) as lines:
            said = self._said(name, lines, tell)
            for number, one in self._copies.without(said) if self._copies else said:
                try:
                    if isinstance(one, Damaged):
                        raise one
                    self._count(one)
                except Damaged as error:
                    self._damage.add(name, number, error)
            if lines.broken:
                self._damage.add(name, lines.lines, Damaged("gzip", lines.broken))
            self._files[name] = {"file": name, "lines": lines.lines, "bytes": lines.bytes}

    def _said(
        self, name: str, lines: MarkedLines, tell: Callable[[str], None] | None
    ) -> Iterator[tuple[int, Said | Damaged]]:
        """What the lines say that name the engine, each with its number; ordinary lines are counted here."""
        told = _TOLD_EVERY
        for number, line in lines:
            try:
                said = self._read(line)
                if said.name is None:
                    self._markers["mentions"] += 1
                else:
                    yield number, said
            except Damaged as error:
                yield number, error
            if tell and lines.bytes >= told:
                tell(f"{name}: {lines.bytes >> 20} MB, {lines.lines} lines")
                told += _TOLD_EVERY

    def _read(self, line: bytes | None) -> Said:
        if line is None:
            raise Damaged("too_long", f"the line is longer than {MAX_LINE} bytes")
        said = read_line(line)
        # Both receipts of a turn may fall into one second, and where no parts of it are told two lines are equal.
        neighbours = line == self._previous and said.time is not None and said.time.is_integer()
        self._previous = line
        if said.time is not None and self._seen.before(line) and not neighbours:
            raise Damaged("duplicate", "the same line, its time included, was there before")
        return said

    def _count(self, said: Said) -> None:
        name = said.name or ""
        if name == RECALL:
            receipt = payload(said)
            check_recall(receipt)
            if not self._pairs.is_second(said, receipt["injectedCount"]):
                self._tally.add(receipt, said.session)
        elif name in MARKERS:
            value = payload(said)
            check_marker(name, value)
            if name == "todoGuardrail" and type(value.get("dropped")) is int:
                self._dropped["todos"] += value["dropped"]
            elif name == CAPTURE:
                self._pairs.end_turn(said)
        elif not name:
            self._tally.health.hear(said.rest)
            failed = said.rest.lstrip().startswith(FAILED)
            name = FAILED if failed else "sentences"
        # A line that is damaged tells no time.
        if said.time is not None:
            self._timed += 1
            self._first = said.time if self._first is None else min(self._first, said.time)
            self._last = said.time if self._last is None else max(self._last, said.time)
        self._markers[name if name in _COUNTED else "unknown"] += 1

    def as_json(self, logs: Sequence[str]) -> dict[str, Any]:
        """The audit, keys in a fixed order, and files in that of ``logs``."""
        sound = self._markers.total() - self._markers["mentions"]
        return {
            "schema": SCHEMA,
            "files": [self._files[name] for name in logs],
            "lines": sum(file["lines"] for file in self._files.values()),
            "bytes": sum(file["bytes"] for file in self._files.values()),
            "first_time": _iso(self._first),
            "last_time": _iso(self._last),
            "timed_lines": self._timed,
            "markers": {name: self._markers[name] for name in (*_COUNTED, "mentions")},
            "damage": self._damage.as_json(sound),
            "copies": {"count": self._copies.count, "lost": self._copies.lost} if self._copies else _NO_COPIES,
            "pairs": self._pairs.as_json(self._tally.answered),
            "stale_todos_dropped": self._dropped["todos"],
            **self._tally.as_json(self._markers[FAILED]),
        }


class _Seen:
    """Lines that were there before, in constant memory.

    Each line has one slot by its hash, and the last one there is remembered: among millions a repeat may be missed, and
    nothing is taken for one.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * _SLOTS))

    def before(self, line: bytes) -> bool:
        """Whether this line was there before; it is noted."""
        key = int.from_bytes(hashlib.blake2b(line.rstrip(b"\r\n"), digest_size=8).digest())
        slot = key % _SLOTS
        known = self._slots[slot] == key
        self._slots[slot] = key
        return known


def _refuse(logs: Sequence[str]) -> None:
    """Refuse a log that is named twice, and say at once that one is missing, not after the others were read."""
    paths = [name if name == STDIN else str(Path(name).resolve()) for name in logs]
    for place, (name, path) in enumerate(zip(logs, paths, strict=True)):
        if path in paths[:place]:
            raise UnusableInput(f"{name}: named twice; every receipt would count double")
        # What has been taken from a pipe is gone.
        if not is_stream(name):
            with opened(name):
                pass


def _iso(time: float | None) -> str | None:
    if time is None:
        return None
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
