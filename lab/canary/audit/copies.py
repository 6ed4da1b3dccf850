"""Find lines that one gateway wrote to two logs, ``logging.file`` and its console, so that each event counts once.

Logs with more information per line are read before possible copies of them. A console prints only the time of day, in
an unnamed time zone. A line is a copy if

1. a log that was read earlier contains the same text of the engine, in the same order;
2. the times of both lines differ by a shift, with a tolerance of one second:

   * 0 if both times have a time zone;
   * a multiple of a quarter of an hour, at most :data:`FURTHEST` quarters, if both have a date and one has no zone;
   * any multiple of a quarter of an hour if one has a date and the other only the time of day;

   two lines with only the time of day are never copies, because they may be from different days;
3. the surrounding lines are copies with the same shift: at least a quarter of the :data:`AROUND` lines before and after
   it, and at least three of them (or all, if there are fewer);
4. if both have dates and the shift is not 0, no other shift fits half as many lines, because lines that a schedule
   produces fit many shifts.

A line that is repeated within one log is separate traffic, not a copy.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.canary.audit.check import Damaged
from lab.canary.audit.lines import STDIN, MarkedLines, opened
from lab.canary.audit.log_line import DAY, LogLine, read_line

LOOK = 32
AROUND = 32
QUARTER = 900
# The largest offset of a time zone from UTC, in quarters of an hour.
FURTHEST = 14 * 3600 // QUARTER
# Precision of a line's time: only the time of day, a date without a zone, a date with a zone.
_OF_DAY, _DATED, _ZONED = range(3)
_COPY_SLOTS, _REACH = 1 << 20, 8
_SPREAD, _WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1


@contextmanager
def in_reading_order(logs: Sequence[str]) -> Iterator[tuple[list[str], dict[str, MarkedLines]]]:
    """Yield the names of the logs in reading order, and the open streams by name.

    A log whose first lines contain more of date, time zone, session and trace comes first; ties keep the given order.
    Stdin and pipes cannot be read twice, so they stay open, and the lines that were inspected will still be returned.
    """
    information, streams = dict[str, int](), dict[str, MarkedLines]()
    with ExitStack() as stack:
        for name in logs:
            if is_stream(name):
                streams[name] = stack.enter_context(opened(name))
                information[name] = _information(streams[name])
            else:
                with opened(name) as lines:
                    information[name] = _information(lines)
        yield sorted(logs, key=lambda name: -information[name]), streams


def is_stream(name: str) -> bool:
    """Return whether a log can be read only once."""
    return name == STDIN or Path(name).is_fifo()


def _information(lines: MarkedLines) -> int:
    """Return how many of date, time zone, session and trace the first lines contain."""
    entries = [entry for entry in map(_parsed, lines.look(LOOK)) if entry]
    return sum(
        (
            any(entry.time is not None for entry in entries),
            any(entry.time is not None and entry.zoned for entry in entries),
            any(entry.session is not None for entry in entries),
            any(entry.trace is not None for entry in entries),
        )
    )


def _parsed(line: bytes | None) -> LogLine | None:
    try:
        return read_line(line) if line is not None else None
    except Damaged:
        return None


@dataclass(slots=True)
class _Waiting:
    """A line that waits for the lines after it. ``shifts`` maps time shifts to the slots of possible originals."""

    number: int
    entry: LogLine | Damaged
    shifts: dict[int, list[int]] = field(default_factory=dict)

    @property
    def timed(self) -> bool:
        """Whether the line has a time, so that it can be a copy."""
        return isinstance(self.entry, LogLine) and self.entry.clock is not None


class Copies:
    """The lines of several logs, in constant memory.

    Among millions of lines, copies may be missed; :attr:`lost` counts the lines that were forgotten.
    """

    def __init__(self, slots: int = _COPY_SLOTS) -> None:
        self.count = self.lost = 0
        self._size = slots
        self._keys, self._times = array("Q", bytes(8 * slots)), array("d", bytes(8 * slots))
        self._order, self._kinds = array("Q", bytes(8 * slots)), bytearray(slots)
        self._log, self._taken = array("H", bytes(2 * slots)), array("H", bytes(2 * slots))
        self._lines = self._logs = 0

    def without(self, lines: Iterable[tuple[int, LogLine | Damaged]]) -> Iterator[tuple[int, LogLine | Damaged]]:
        """Yield the numbered lines of the next log in order, without copies of lines in earlier logs."""
        self._logs += 1
        preceding, following = deque[_Waiting](maxlen=AROUND), deque[_Waiting]()
        votes, timed = Counter[int](), 0
        last: dict[int, int] = {}

        def settled() -> Iterator[tuple[int, LogLine | Damaged]]:
            nonlocal timed
            settling = following.popleft()
            if not self._is_copy(settling, votes, timed, last):
                self._remember(settling.entry)
                yield settling.number, settling.entry
            else:
                self.count += 1
            if len(preceding) == AROUND:
                oldest = preceding[0]
                votes.subtract(oldest.shifts.keys())
                timed -= oldest.timed
            preceding.append(settling)

        for number, entry in lines:
            waiting = _Waiting(number, entry, self._matches(entry))
            votes.update(waiting.shifts.keys())
            timed += waiting.timed
            following.append(waiting)
            if len(following) > AROUND:
                yield from settled()
        while following:
            yield from settled()

    def _is_copy(self, waiting: _Waiting, votes: Counter[int], timed: int, last: dict[int, int]) -> bool:
        shift = max(waiting.shifts, key=lambda shift: (votes[shift], -abs(shift)), default=None)
        if shift is None or votes[shift] < max(min(3, timed), timed / 4):
            return False
        # Take the earliest original after those already taken from the same log.
        slots = sorted(waiting.shifts[shift], key=self._order.__getitem__)
        dated = (
            isinstance(waiting.entry, LogLine) and waiting.entry.time is not None and self._kinds[slots[0]] != _OF_DAY
        )
        if dated and shift and _fits_another(votes, shift):
            return False
        for slot in slots:
            log, order = self._log[slot], self._order[slot]
            if self._taken[slot] != self._logs and order + AROUND > last.get(log, 0):
                self._taken[slot] = self._logs
                last[log] = max(order, last.get(log, 0))
                return True
        return False

    def _matches(self, entry: LogLine | Damaged) -> dict[int, list[int]]:
        """Return the slots of the same line in earlier logs, by time shift in quarters of an hour."""
        slots_by_shift: dict[int, list[int]] = {}
        if isinstance(entry, Damaged) or entry.clock is None or self._logs == 1:
            return slots_by_shift
        text, clock_second = _key(entry), int(entry.clock)
        for near in (clock_second - 1, clock_second, clock_second + 1):
            key = _slot_key(text, near)
            for slot in self._bucket(key):
                if self._keys[slot] == key and self._log[slot] != self._logs:
                    shift = _shift(self._times[slot], self._kinds[slot], entry, entry.clock)
                    if shift is not None:
                        slots_by_shift.setdefault(shift, []).append(slot)
        return slots_by_shift

    def _remember(self, entry: LogLine | Damaged) -> None:
        if isinstance(entry, Damaged) or entry.clock is None:
            return
        key = _slot_key(_key(entry), int(entry.clock))
        bucket = list(self._bucket(key))
        slot = next((candidate for candidate in bucket if not self._keys[candidate]), None)
        if slot is None:
            self.lost += 1
            slot = min(bucket, key=self._order.__getitem__)
        self._lines += 1
        self._keys[slot], self._order[slot] = key, self._lines
        self._times[slot] = entry.clock if entry.time is None else entry.time
        self._kinds[slot] = _kind(entry)
        self._log[slot], self._taken[slot] = self._logs, 0

    def _bucket(self, key: int) -> Iterator[int]:
        first = key % self._size
        return (slot % self._size for slot in range(first, first + _REACH))


def _key(entry: LogLine) -> int:
    text = f"{entry.name}{entry.rest}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def _slot_key(text: int, second: int) -> int:
    # 0 marks an empty slot.
    return (text + (second % QUARTER) * _SPREAD) & _WORD or 1


def _kind(entry: LogLine) -> int:
    if entry.time is None:
        return _OF_DAY
    return _ZONED if entry.zoned else _DATED


def _shift(earlier: float, kind: int, entry: LogLine, clock: float) -> int | None:
    """Return the quarters of an hour from a line to an earlier one, or None if they cannot be copies."""
    if kind == _OF_DAY or entry.time is None:
        if kind == _OF_DAY and entry.time is None:
            return None
        return round((earlier - clock) % DAY / QUARTER) % (DAY // QUARTER)
    if kind == _ZONED and entry.zoned:
        return 0 if abs(earlier - entry.time) < 2 else None
    shift = round((earlier - entry.time) / QUARTER)
    return shift if abs(shift) <= FURTHEST else None


def _fits_another(votes: Counter[int], shift: int) -> bool:
    return any(2 * count >= votes[shift] for other, count in votes.items() if other != shift)
