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

Two receipts of one turn are found as well. The engine registers one handler for ``before_prompt_build`` and
``before_agent_start`` (E-23). A host that runs both (OpenClaw 2026.6.11) calls it twice per turn. The engine drops the
second call only if session, prompt *and number of messages* equal those of a call in the last 4000 ms; if the host adds
a message between its hooks, both calls recall.

Two receipts belong to the same turn if they are at most :data:`SECONDS` apart (as far as both lines have a time), and

* either both lines have the same trace id, and the receipts are equal or the second span is a child of the first;
* or the lines have no trace id, the receipts are exactly equal, the lines have the same session or none, both have a
  time, and there is no capture receipt, which ends a turn, between them. Without sessions, two sessions that get the
  same answer at the same time (two "ok", two empty recalls) cannot be distinguished.

A receipt has at most one second receipt, so a series of equal receipts never counts as one recall.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.canary.audit.check import Damaged
from lab.canary.audit.lines import STDIN, MarkedLines, opened
from lab.canary.audit.log_line import DAY, LogLine, read_line

# The window in which the engine itself drops duplicate calls.
SECONDS = 4.0
# The largest number of first receipts to remember.
_MOST = 1024
LOOK = 32
AROUND = 32
QUARTER = 900
# The largest offset of a time zone from UTC, in quarters of an hour.
FURTHEST = 14 * 3600 // QUARTER
# Precision of a line's time: only the time of day, a date without a zone, a date with a zone.
_OF_DAY, _DATED, _ZONED = range(3)
_COPY_SLOTS, _REACH = 1 << 20, 8
_SPREAD, _WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1


@dataclass(slots=True, eq=False)
class _First:
    """A first receipt; ``paired`` is set once its second was read or can no longer follow."""

    entry: LogLine
    injected: int
    paired: bool = False


class Pairs:
    """The receipts of the last seconds, and counts of second receipts."""

    def __init__(self) -> None:
        self._recent = deque[_First]()
        # The same receipts, by the keys under which a second receipt finds its first.
        self._open = defaultdict[tuple[str | None, ...], list[_First]](list)
        self._last: LogLine | None = None
        self._n = {"count": 0, "by_trace": 0, "by_time": 0, "differing": 0, "injected": 0, "undecided": 0}

    def is_second(self, entry: LogLine, injected: int) -> bool:
        """Return whether this is the second receipt of a turn; ``injected`` is its number of injected items."""
        self._expire(entry)
        candidates = (candidate for key in _keys(entry) for candidate in reversed(self._open.get(key, ())))
        first = next(
            (candidate for candidate in candidates if not candidate.paired and _is_same_turn(candidate.entry, entry)),
            None,
        )
        if first is None:
            last = self._last
            if last and entry.trace is None and entry.clock is None and last.rest == entry.rest:
                self._n["undecided"] += 1
            self._last = entry
            self._remember(_First(entry, injected))
            return False
        first.paired = True
        self._n["count"] += 1
        self._n["by_trace" if entry.trace and first.entry.trace else "by_time"] += 1
        self._n["differing"] += first.entry.rest != entry.rest
        self._n["injected"] += bool(first.injected and injected)
        return True

    def _remember(self, first: _First) -> None:
        # A line without a trace and a time cannot be paired.
        if first.entry.trace is None and first.entry.clock is None:
            return
        self._recent.append(first)
        for key in _keys(first.entry):
            self._open[key].append(first)

    def _expire(self, now: LogLine) -> None:
        """Forget the receipts whose second can no longer follow."""
        while self._recent:
            first = self._recent[0]
            apart = _apart(first.entry, now)
            if not first.paired and len(self._recent) < _MOST and (apart is None or apart <= SECONDS):
                return
            self._recent.popleft()
            for key in _keys(first.entry):
                self._open[key].remove(first)
                if not self._open[key]:
                    del self._open[key]

    def end_turn(self, entry: LogLine) -> None:
        """Process a capture receipt: the next recall of its session belongs to another turn."""
        for receipt in self._recent:
            receipt.paired |= receipt.entry.session == entry.session and not receipt.entry.trace

    def state(self) -> list[list[Any]]:
        """Return the receipts whose second may still follow, as plain values."""
        return [[list(first.entry), first.injected, first.paired] for first in self._recent]

    @classmethod
    def restored(cls, state: Iterable[Sequence[Any]]) -> Pairs:
        """Return pairs that go on from a :meth:`state`; the counts begin at 0."""
        pairs = cls()
        for entry, injected, paired in state:
            pairs._remember(_First(LogLine(*entry), injected, paired))
        return pairs

    def as_json(self, answered: int) -> dict[str, Any]:
        """Return the counts; ``injected_rate`` is relative to ``answered`` recalls, where a pair counts once."""
        return {**self._n, "injected_rate": self._n["injected"] / answered if answered else None}


def _keys(entry: LogLine) -> list[tuple[str | None, ...]]:
    by_receipt = (entry.session, entry.rest)
    return [(entry.trace,), by_receipt] if entry.trace else [by_receipt]


def _is_same_turn(first: LogLine, second: LogLine) -> bool:
    apart = _apart(first, second)
    if apart is not None and not 0 <= apart <= SECONDS:
        return False
    if first.trace and second.trace:
        same = first.trace == second.trace
        return same and (first.rest == second.rest or (second.parent is not None and second.parent == first.span))
    return apart is not None and first.session == second.session and first.rest == second.rest


def _apart(first: LogLine, second: LogLine) -> float | None:
    """Return the seconds from the first line to the second (negative if it is earlier); None without both times."""
    if first.time is not None and second.time is not None:
        return second.time - first.time
    if first.clock is None or second.clock is None:
        return None
    return (second.clock - first.clock + DAY / 2) % DAY - DAY / 2


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
