"""Lines that two logs of one gateway hold: what it writes to ``logging.file`` and to its console is the same traffic.

A console tells the time of day alone, in a zone that it does not name. A line is a copy if

1. another log that was read before holds the same text of the engine, in the same order;
2. the times of both lines differ by a shift, give or take a second:

   * none where both times name their zones;
   * whole quarter hours, :data:`FURTHEST` at most, where both tell a date and one names no zone;
   * any quarter hours where one tells a date, and the other the time of day alone;

   two lines that tell the time of day alone are never copies: yesterday's looks like today's;
3. the lines around it are copies with the same shift: at least a quarter of the :data:`AROUND` before and behind it,
   and three or all of them;
4. between two dates no other shift fits half as many of them, where a shift is needed: a schedule fits many.

A line that comes again in one and the same log is traffic, and no copy.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lab.canary.damage import Damaged
from lab.canary.said import DAY, Said

AROUND = 32
QUARTER = 900
# No zone is further from UTC.
FURTHEST = 14 * 3600 // QUARTER
# What a line tells of its time.
_OF_DAY, _DATED, _ZONED = range(3)
_SLOTS, _REACH = 1 << 20, 8
_SPREAD, _WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1


@dataclass(slots=True)
class _Waiting:
    """A line that waits for those behind it: shifts in quarter hours, each with the slots of such lines."""

    number: int
    said: Said | Damaged
    shifts: dict[int, list[int]] = field(default_factory=dict)

    @property
    def timed(self) -> bool:
        """Whether it can be a copy."""
        return isinstance(self.said, Said) and self.said.clock is not None


class Copies:
    """Lines of several logs, in constant memory: among millions a copy may be missed, and :attr:`lost` counts why."""

    def __init__(self, slots: int = _SLOTS) -> None:
        self.count = self.lost = 0
        self._size = slots
        self._keys, self._times = array("Q", bytes(8 * slots)), array("d", bytes(8 * slots))
        self._order, self._kinds = array("Q", bytes(8 * slots)), bytearray(slots)
        self._log, self._taken = array("H", bytes(2 * slots)), array("H", bytes(2 * slots))
        self._lines = self._logs = 0

    def without(self, lines: Iterable[tuple[int, Said | Damaged]]) -> Iterator[tuple[int, Said | Damaged]]:
        """The numbered lines of the next log, in their order, without those that an earlier log holds."""
        self._logs += 1
        before, behind = deque[_Waiting](maxlen=AROUND), deque[_Waiting]()
        votes, timed = Counter[int](), 0
        last: dict[int, int] = {}

        def settled() -> Iterator[tuple[int, Said | Damaged]]:
            nonlocal timed
            one = behind.popleft()
            if not self._is_copy(one, votes, timed, last):
                self._remember(one.said)
                yield one.number, one.said
            else:
                self.count += 1
            if len(before) == AROUND:
                gone = before[0]
                votes.subtract(gone.shifts.keys())
                timed -= gone.timed
            before.append(one)

        for number, said in lines:
            waiting = _Waiting(number, said, self._matches(said))
            votes.update(waiting.shifts.keys())
            timed += waiting.timed
            behind.append(waiting)
            if len(behind) > AROUND:
                yield from settled()
        while behind:
            yield from settled()

    def _is_copy(self, one: _Waiting, votes: Counter[int], timed: int, last: dict[int, int]) -> bool:
        shift = max(one.shifts, key=lambda shift: (votes[shift], -abs(shift)), default=None)
        if shift is None or votes[shift] < max(min(3, timed), timed / 4):
            return False
        # The earliest of them that comes behind what was taken before, log by log.
        slots = sorted(one.shifts[shift], key=self._order.__getitem__)
        dated = isinstance(one.said, Said) and one.said.time is not None and self._kinds[slots[0]] != _OF_DAY
        if dated and shift and _fits_another(votes, shift):
            return False
        for slot in slots:
            log, order = self._log[slot], self._order[slot]
            if self._taken[slot] != self._logs and order + AROUND > last.get(log, 0):
                self._taken[slot] = self._logs
                last[log] = max(order, last.get(log, 0))
                return True
        return False

    def _matches(self, said: Said | Damaged) -> dict[int, list[int]]:
        """Slots of the same line in earlier logs, by the shift to it."""
        found: dict[int, list[int]] = {}
        if isinstance(said, Damaged) or said.clock is None or self._logs == 1:
            return found
        text, second = _key(said), int(said.clock)
        for near in (second - 1, second, second + 1):
            key = _slot_key(text, near)
            for slot in self._bucket(key):
                if self._keys[slot] == key and self._log[slot] != self._logs:
                    shift = _shift(self._times[slot], self._kinds[slot], said, said.clock)
                    if shift is not None:
                        found.setdefault(shift, []).append(slot)
        return found

    def _remember(self, said: Said | Damaged) -> None:
        if isinstance(said, Damaged) or said.clock is None:
            return
        key = _slot_key(_key(said), int(said.clock))
        bucket = list(self._bucket(key))
        slot = next((one for one in bucket if not self._keys[one]), None)
        if slot is None:
            self.lost += 1
            slot = min(bucket, key=self._order.__getitem__)
        self._lines += 1
        self._keys[slot], self._order[slot] = key, self._lines
        self._times[slot] = said.clock if said.time is None else said.time
        self._kinds[slot] = _kind(said)
        self._log[slot], self._taken[slot] = self._logs, 0

    def _bucket(self, key: int) -> Iterator[int]:
        first = key % self._size
        return (one % self._size for one in range(first, first + _REACH))


def _key(said: Said) -> int:
    text = f"{said.name}{said.rest}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def _slot_key(text: int, second: int) -> int:
    # 0 is an empty slot.
    return (text + (second % QUARTER) * _SPREAD) & _WORD or 1


def _kind(said: Said) -> int:
    if said.time is None:
        return _OF_DAY
    return _ZONED if said.zoned else _DATED


def _shift(earlier: float, kind: int, said: Said, clock: float) -> int | None:
    """Quarter hours from a line to an earlier one; None for two that are no copies of each other."""
    if kind == _OF_DAY or said.time is None:
        if kind == _OF_DAY and said.time is None:
            return None
        return round((earlier - clock) % DAY / QUARTER) % (DAY // QUARTER)
    if kind == _ZONED and said.zoned:
        return 0 if abs(earlier - said.time) < 2 else None
    shift = round((earlier - said.time) / QUARTER)
    return shift if abs(shift) <= FURTHEST else None


def _fits_another(votes: Counter[int], shift: int) -> bool:
    return any(2 * count >= votes[shift] for other, count in votes.items() if other != shift)
