"""The two blocks: OBSERVATIONS, the log, and RAW BUFFER, the last entries unchanged (OB-2).

A :class:`Window` takes entries in order. Each call returns what changed, for a system that reports its writes and for a
log in a file. When the log has grown too large, :func:`reflect` prunes it (OB-5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from lab.base.token_estimate import tokens
from lab.systems.observations.log import LEVELS, Observation
from lab.systems.observations.observer import Entry, Observe
from lab.systems.openclaw.recall.block import escape
from lab.systems.plans import is_past

# The share of its room that a log is pruned to, so that the next reflection is not near.
KEPT = 0.75


def reflect(
    log: Sequence[Observation], room: int, now_ms: int, size: Callable[[Sequence[Observation]], int]
) -> list[Observation]:
    """Return a log of at most :data:`KEPT` of ``room`` tokens, in its order; unchanged if it fits into ``room`` (OB-5).

    Past plans are pruned first, then the least important observations; among equally important ones the longest, which
    cost most, and among equally long ones the oldest. ``size`` returns the tokens of observations.
    """
    if size(log) <= room:
        return list(log)
    order = sorted(range(len(log)), key=lambda at: (*_worth(log[at], now_ms), at))
    counts = range(1, len(log))
    fits = bisect_left(counts, True, key=lambda count: size(_without(log, order[:count])) <= KEPT * room)
    return _without(log, order[: 1 + fits])


def _worth(observation: Observation, now_ms: int) -> tuple[int, int, int]:
    """Return the sort key for pruning: the observations with the smallest values go first."""
    return not is_past(observation.due_ms, now_ms), -LEVELS[observation.level], -len(observation.text)


def _without(log: Sequence[Observation], pruned: Sequence[int]) -> list[Observation]:
    out = {*pruned}
    return [observation for at, observation in enumerate(log) if at not in out]


LOG_HEAD, BUFFER_HEAD = "OBSERVATIONS", "RAW BUFFER"
# The share of a full buffer that stays as it is when the observer has run.
TAIL = 0.5


class Sizes(NamedTuple):
    """Tokens of the ``block``, and of the ``buffer``, beyond which the observer runs; the log has the rest."""

    block: int
    buffer: int

    @property
    def log(self) -> int:
        """The room of the log."""
        return self.block - self.buffer


class Change(NamedTuple):
    """The effect of an entry: entries that the observer read, observations it added, and those the reflector pruned."""

    observed: tuple[Entry, ...] = ()
    added: tuple[Observation, ...] = ()
    pruned: tuple[Observation, ...] = ()


UNCHANGED = Change()


class Window:
    """A log and a raw buffer. ``log`` is only appended to, except by reflections."""

    def __init__(self, sizes: Sizes, observe: Observe, log: Iterable[Observation] = ()) -> None:
        self.log, self.buffer = list(log), list[Entry]()
        self._sizes, self._observe = sizes, observe

    def add(self, entry: Entry) -> Change:
        """Add an entry to the buffer. If that is full, observe it, up to a tail of the newest entries.

        The tail has the share :data:`TAIL` of a full buffer, or the newest entry alone if that is longer and fits.
        """
        if not entry.text.strip():
            return UNCHANGED
        self.buffer.append(entry)
        if size_of_buffer(self.buffer) <= self._sizes.buffer:
            return UNCHANGED
        first = len(self.buffer) - (size_of_buffer([entry]) <= self._sizes.buffer)
        while first and size_of_buffer(self.buffer[first - 1 :]) <= TAIL * self._sizes.buffer:
            first -= 1
        observed = self.buffer[:first]
        added = [observation for one in observed if (observation := self._observe(one)) is not None]
        del self.buffer[:first]
        before = [*self.log, *added]
        self.log = reflect(before, self._sizes.log, entry.time_ms, size_of_log)
        kept = {id(observation) for observation in self.log}
        pruned = tuple(observation for observation in before if id(observation) not in kept)
        return Change(tuple(observed), tuple(added), pruned)

    def forget(self, keys: Collection[str]) -> None:
        """Drop the entries and observations with these keys."""
        self.log = [observation for observation in self.log if observation.key not in keys]
        self.buffer = [entry for entry in self.buffer if entry.key not in keys]


class Block(NamedTuple):
    """An injected text with the observations and entries that it shows, in order."""

    text: str
    log: Sequence[Observation] = ()
    buffer: Sequence[Entry] = ()


def block_of(windows: Sequence[Window], sizes: Sizes, most: int, now_ms: int) -> Block:
    """Return the block of some windows, of at most ``sizes.block`` tokens and ``most`` lines; past plans are left out.

    The buffer gets its lines first. If the block is too large, as with the windows of several scopes, the log is
    reflected, then the oldest entries of the buffer are dropped, then the oldest observations.
    """
    log = [one for window in windows for one in window.log if not is_past(one.due_ms, now_ms)]
    buffer = [entry for window in windows for entry in window.buffer if not is_past(entry.due_ms, now_ms)]
    if len(windows) > 1:
        log.sort(key=lambda observation: observation.time_ms)
        buffer.sort(key=lambda entry: entry.time_ms)
    buffer = buffer[-most:]
    log = reflect(log, sizes.log, now_ms, size_of_log)
    log = log[max(0, len(log) - most + len(buffer)) :]
    while (log or buffer) and tokens(_text(log, buffer)) > sizes.block:
        del (buffer or log)[0]
    return Block(_text(log, buffer), log, buffer)


def size_of_log(log: Sequence[Observation]) -> int:
    """Return the tokens of the log in a block."""
    return tokens(_text(log, ()))


def size_of_buffer(buffer: Sequence[Entry]) -> int:
    """Return the tokens of the raw buffer in a block."""
    return tokens(_text((), buffer))


def _text(log: Sequence[Observation], buffer: Sequence[Entry]) -> str:
    lines = [LOG_HEAD, *(f"- {escape(observation.statement)}" for observation in log)] if log else []
    lines += [BUFFER_HEAD, *(f"- {_indented(escape(entry.text))}" for entry in buffer)] if buffer else []
    return "\n".join(lines)


def _indented(text: str) -> str:
    """Return a text whose further lines are indented, so that none can pass for a heading or a line of the log."""
    return "\n  ".join(text.splitlines())
