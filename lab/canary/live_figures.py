"""Observations of a live engine, one line of its log or of a transcript at a time (CN-14).

* ``errors``: 1 for a recall that failed, 0 for any other, as the audit counts them. A receipt with ``failed`` and the
  warning of the same failure count once. The second receipt of a turn does not count (:mod:`lab.canary.pairs`).
* ``calls``: 1 for a call of the tool memory_recall that failed, 0 for any other.
* ``latency``: the milliseconds of a call of memory_recall. Receipts of automatic recall hold none.
* ``repeat``: the mean repeat rate of at most :data:`BLOCK` turns of one conversation, as the audit defines the rate. A
  conversation without a turn among :data:`IDLE` recalls gives the mean of what it has.

What is remembered is bounded and plain, so that it can be saved after every line; ids and names are kept as digests.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from lab.canary.check import check_recall
from lab.canary.check_markers import CAPTURE, RECALL
from lab.canary.damage import Damaged
from lab.canary.lines import MARKER, MAX_LINE
from lab.canary.log_line import FAILED, LogLine, payload, read_line
from lab.canary.pairs import Pairs
from lab.canary.tool_receipts import tool_recall
from lab.measures.repetition import WINDOW

ERRORS, CALLS, LATENCY, REPEAT = FIGURES = ("errors", "calls", "latency", "repeat")
# Turns of a conversation that make one observation: neighbouring turns repeat alike, so they are no evidence apart.
BLOCK, IDLE = 5, 30
MOST_CONVERSATIONS, MOST_CALLS = 256, 512


class Observation(NamedTuple):
    """A value of one of :data:`FIGURES`."""

    figure: str
    value: float


@dataclass(slots=True)
class _Conversation:
    """The items of the last turns, whether there was any, the block that is not full yet, and the last recall."""

    turns: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    started: bool = False
    total: float = 0.0
    count: int = 0
    last: int = 0


class Gateway:
    """What was read of one gateway: its log and its transcripts."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self.counts = Counter[str](state.get("counts", {}))
        self.last_time: float | None = state.get("last_time")
        self._pairs = Pairs.restored(state.get("pairs", ()))
        self._calls = deque[str](state.get("calls", ()), maxlen=MOST_CALLS)
        self._open = OrderedDict[str, _Conversation]()
        for name, (turns, *rest) in state.get("conversations", {}).items():
            listed = deque((frozenset(turn) for turn in turns), maxlen=WINDOW)
            self._open[name] = _Conversation(listed, *rest)

    def as_json(self) -> dict[str, Any]:
        """Return the state as plain values."""
        return {
            "counts": dict(self.counts),
            "last_time": self.last_time,
            "pairs": self._pairs.state(),
            "calls": list(self._calls),
            "conversations": {
                name: [[sorted(turn) for turn in one.turns], one.started, one.total, one.count, one.last]
                for name, one in self._open.items()
            },
        }

    def log_line(self, line: bytes) -> list[Observation]:
        """Return what a line of the gateway's log shows."""
        if MARKER not in line:
            return []
        if len(line) > MAX_LINE:
            self.counts["damaged"] += 1
            return []
        try:
            entry = read_line(line)
            if entry.time is not None:
                self.last_time = entry.time
            return list(self._read(entry))
        except Damaged:
            self.counts["damaged"] += 1
            return []

    def transcript_line(self, line: bytes) -> list[Observation]:
        """Return what a line of a transcript shows: a call of memory_recall counts once, by its id."""
        call = tool_recall(line)
        if call is None:
            return []
        known = _digest(call.call)
        if call.call and known in self._calls:
            return []
        self._calls.append(known)
        self.counts["calls"] += 1
        self.counts["failed_calls"] += call.failed
        found = [Observation(CALLS, float(call.failed))]
        if call.milliseconds is not None and not call.failed:
            found.append(Observation(LATENCY, call.milliseconds))
        return found

    @property
    def recalls(self) -> int:
        """Automatic recalls so far, with those that failed."""
        n = self.counts
        return n["receipts"] - n["failed_receipts"] + n["failed"]

    def _read(self, entry: LogLine) -> Iterator[Observation]:
        n = self.counts
        if entry.name == RECALL:
            receipt = payload(entry)
            check_recall(receipt)
            # The digest is as good as the text for finding an equal one, and holds no text.
            if self._pairs.is_second(entry._replace(rest=_digest(entry.rest)), receipt["injectedCount"]):
                n["second"] += 1
                return
            yield from self.recall(receipt, entry.session)
        elif entry.name == CAPTURE:
            self._pairs.end_turn(entry)
        elif not entry.name and entry.name is not None and entry.rest.lstrip().startswith(FAILED):
            n["warnings"] += 1
            yield from self.failure()

    def recall(self, receipt: dict[str, Any], session: str | None) -> Iterator[Observation]:
        """Yield what a sound receipt shows that is not the second of its turn."""
        n = self.counts
        n["receipts"] += 1
        if "failed" in receipt:
            n["failed_receipts"] += 1
            yield from self.failure()
            return
        yield Observation(ERRORS, 0.0)
        if receipt["skipped"]:
            n["skipped"] += 1
            return
        n["answered"] += 1
        n["empty"] += not receipt["finalCount"]
        name = _digest(f"scope {receipt['scope']}" if session is None else f"session {session}")
        yield from self._turn(name, receipt["fusedTop"])
        yield from self._idle()

    def failure(self) -> Iterator[Observation]:
        """Yield a failure that was not counted: profile seed logs a receipt and a warning, the plugin a warning."""
        n = self.counts
        if max(n["warnings"], n["failed_receipts"]) > n["failed"]:
            n["failed"] += 1
            yield Observation(ERRORS, 1.0)

    def _turn(self, name: str, ids: Sequence[str]) -> Iterator[Observation]:
        one = self._open.setdefault(name, _Conversation())
        self._open.move_to_end(name)
        if len(self._open) > MOST_CONVERSATIONS:
            self._open.popitem(last=False)
        listed = frozenset(map(_digest, ids))
        if listed and one.started:
            one.total += len(listed & frozenset().union(*one.turns)) / len(listed)
            one.count += 1
        one.started |= bool(listed)
        one.turns.append(listed)
        one.last = self.counts["answered"]
        if one.count == BLOCK:
            yield _block(one)

    def _idle(self) -> Iterator[Observation]:
        """Close the blocks of the conversations that went silent; the least recent ones come first."""
        for one in self._open.values():
            if one.last > self.counts["answered"] - IDLE:
                return
            if one.count:
                yield _block(one)


def _block(one: _Conversation) -> Observation:
    mean, one.total, one.count = one.total / one.count, 0.0, 0
    return Observation(REPEAT, mean)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
