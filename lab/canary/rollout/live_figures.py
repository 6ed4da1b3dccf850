"""Read observations of a live engine from the lines of its log and of transcripts, one at a time (CN-14).

A host writes the result of a tool as a message of the role ``toolResult``, or, if the agent called it through another
tool, as an entry of its own beside the result of that. Only receipts of the tool itself are read: the other result
repeats the same receipt.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.canary.audit.check import CAPTURE, RECALL, SKIPS, Damaged, check_recall
from lab.canary.audit.copies import Pairs
from lab.canary.audit.lines import MARKER, MAX_LINE, has_marker
from lab.canary.audit.log_line import FAILED, STARTED, LogLine, payload, read_lines
from lab.canary.audit.status import (
    BACKEND,
    EMPTY,
    HOOK,
    HOOK_TIMEOUT,
    ROUTER,
    STORE,
    VECTOR_LANE,
    checkable,
    reading_of,
)
from lab.canary.audit.status import FAILED as RAISED
from lab.measures.inputs import WINDOW

TOOL = "memory_recall"
MARK = TOOL.encode()
# The role of a user's message, as hosts write it.
USER = b'"role":"user"'
_NESTED = "openclaw.nested-tool.v1"
# An hour, in milliseconds. A longer time is of a clock that was set.
_LONGEST_MS = 3_600_000.0
ERRORS, CALLS, LATENCY, REPEAT, TEXT, TURNS = FIGURES = ("errors", "calls", "latency", "repeat", "text", "turns")
# What a line must contain to be read: of a log, a marker of the engine or a handler of it that the host gave up.
HOOKS = b"handler from openclaw-mem-engine failed"
LOG_MARKS, TRANSCRIPT_MARKS = (MARKER, HOOKS), (MARK, USER)
# Turns of a conversation that make one observation: neighbouring turns repeat alike, so they are no evidence apart.
BLOCK, IDLE = 5, 30
MOST_CONVERSATIONS, MOST_CALLS, MOST_SCOPES, MOST_NAMES = 256, 512, 256, 32
# Recalls with hits after which a scope is known to have memories, and recalls in a row that must find nothing: memories
# may be deleted, and one scope may have few.
KNOWN, IN_A_ROW = 5, 10
# Turns that must follow one without a receipt, the seconds that they must take, and the seconds by which a transcript
# may date a turn after its receipt.
LATER, APART, LEEWAY = 8, 30.0, 60.0
OTHER = "other"
_GIVEN_UP = regex(rb"\bbefore_(?:prompt_build|agent_start) " + HOOKS + rb"(: timed out)?")


class ToolRecall(NamedTuple):
    """One call of memory_recall: its id, whether it failed, and its milliseconds if a receipt says so.

    ``faults`` name what did not work according to its receipt; a call with any has failed.
    """

    call: str
    failed: bool
    milliseconds: float | None
    faults: tuple[str, ...] = ()


def user_turn(line: bytes) -> float | None:
    """Return when a user's message was written, in seconds since 1970; None for any other line of a transcript."""
    import orjson

    try:
        entry = _object(orjson.loads(line))
    except ValueError:
        return None
    message = _object(entry.get("message"))
    if message.get("role") != "user":
        return None
    stamp = entry.get("timestamp") or message.get("timestamp")
    if isinstance(stamp, str):
        try:
            return datetime.fromisoformat(stamp).timestamp()
        except ValueError:
            return None
    return stamp / 1000 if isinstance(stamp, int | float) and not isinstance(stamp, bool) else None


def tool_recall(line: bytes) -> ToolRecall | None:
    """Return the call that a line of a transcript is the result of; None for any other line."""
    import orjson

    if MARK not in line:
        return None
    try:
        entry = orjson.loads(line)
    except ValueError:
        return None
    message = _object(_object(entry).get("message"))
    if message.get("role") == "toolResult" and message.get("toolName") == TOOL:
        return _call(message.get("toolCallId"), message.get("isError"), message.get("details"))
    details = _object(message.get("details"))
    if message.get("customType") == _NESTED and details.get("toolName") == TOOL:
        result = _object(details.get("result"))
        return _call(details.get("toolCallId"), details.get("isError"), result.get("details"))
    return None


def _call(identifier: object, is_error: object, details: object) -> ToolRecall:
    receipt = _object(_object(details).get("receipt"))
    value, took = receipt.get("latencyMs"), None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        took = float(value) if 0 <= value <= _LONGEST_MS else None
    faults = faults_of(receipt)
    failed = is_error is True or bool(_object(details).get("error")) or bool(faults)
    return ToolRecall(identifier if isinstance(identifier, str) else "", failed, took, faults)


def faults_of(receipt: dict[str, Any]) -> tuple[str, ...]:
    """Return what did not work according to the receipt of a call of memory_recall."""
    lifecycle = receipt.get("lifecycle")
    if isinstance(lifecycle, dict):
        return reading_of(lifecycle).faults
    # Without receipts.enabled only the numbers of hits are there.
    return (VECTOR_LANE,) if receipt.get("vecCount") == 0 and receipt.get("ftsCount") not in (0, None) else ()


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class Observation(NamedTuple):
    """A value of one of :data:`FIGURES`; ``causes`` name what did not work, or why nothing was recalled."""

    figure: str
    value: float
    causes: tuple[str, ...] = ()


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
        # What did not work, and the reasons that are unknown, by name.
        self.causes, self.unknown = (Counter[str](state.get(name, {})) for name in ("causes", "unknown"))
        self.last_time: float | None = state.get("last_time")
        # Turns before this time are not expected to have a receipt; None: no turn is.
        self.since: float | None = state.get("since")
        self._heard: float | None = state.get("heard")
        self._is_heard = bool(state.get("is_heard"))
        self._asked = deque[float](state.get("asked", ()), maxlen=MOST_CALLS)
        # What lines before the receipt of a recall say of it.
        self._before: list[str] = list(state.get("before", ()))
        self._scopes = OrderedDict[str, int](state.get("scopes", {}))
        self._empty_row = int(state.get("empty_row", 0))
        # The databases on which engines started.
        self.databases = list[str](state.get("databases", ()))
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
            "causes": dict(self.causes),
            "unknown": dict(self.unknown),
            "last_time": self.last_time,
            "since": self.since,
            "heard": self._heard,
            "is_heard": self._is_heard,
            "asked": list(self._asked),
            "before": list(self._before),
            "scopes": dict(self._scopes),
            "empty_row": self._empty_row,
            "databases": self.databases,
            "pairs": self._pairs.state(),
            "calls": list(self._calls),
            "conversations": {
                name: [[sorted(turn) for turn in one.turns], one.started, one.total, one.count, one.last]
                for name, one in self._open.items()
            },
        }

    def log_line(self, line: bytes) -> list[Observation]:
        """Return what a line of the gateway's log shows."""
        if not has_marker(line):
            return list(self._given_up(line))
        if len(line) > MAX_LINE:
            self.counts["damaged"] += 1
            return []
        found: list[Observation] = []
        try:
            for entry in read_lines(line):
                if entry.time is not None:
                    self.last_time = entry.time
                found += self._read(entry)
        except Damaged:
            self.counts["damaged"] += 1
        return found

    def transcript_line(self, line: bytes) -> list[Observation]:
        """Return what a line of a transcript shows: a call of memory_recall counts once, by its id.

        Turns of users are noted for :meth:`settle`.
        """
        if USER in line and self.since is not None and (asked := user_turn(line)) is not None:
            if asked >= self.since:
                self._asked.append(asked)
                self.counts["turns"] += 1
            return []
        call = tool_recall(line)
        if call is None:
            return []
        known = _digest(call.call)
        if call.call and known in self._calls:
            return []
        self._calls.append(known)
        self.counts["calls"] += 1
        self.counts["failed_calls"] += call.failed
        self._name(self.causes, call.faults)
        found = [Observation(CALLS, float(call.failed), call.faults)]
        if call.milliseconds is not None and not call.failed:
            found.append(Observation(LATENCY, call.milliseconds))
        return found

    def settle(self) -> list[Observation]:
        """Return whether the turns that were noted got a receipt; to be called when the log is read to its end."""
        found, waiting = [], []
        asked = sorted(self._asked)
        for at, time in enumerate(asked):
            if self._is_heard or (self._heard is not None and time <= self._heard + LEEWAY):
                found.append(Observation(TURNS, 0.0))
            elif len(asked) - at > LATER and asked[-1] - time >= APART:
                self.counts["turns_without_receipt"] += 1
                found.append(Observation(TURNS, 1.0))
            else:
                waiting.append(time)
        self._asked.clear()
        self._asked.extend(waiting)
        self._is_heard = False
        return found

    @property
    def recalls(self) -> int:
        """Automatic recalls so far, with those that failed or that the host gave up."""
        n = self.counts
        return n["receipts"] - n["failed_receipts"] + n["failed"] + n["given_up"]

    def _read(self, entry: LogLine) -> Iterator[Observation]:
        n = self.counts
        if entry.name == RECALL:
            self._hear(entry)
            given = payload(entry)
            receipt = checkable(given)
            check_recall(receipt)
            # The digest is as good as the text for finding an equal one, and holds no text.
            if self._pairs.is_second(entry._replace(rest=_digest(entry.rest)), receipt["injectedCount"]):
                n["second"] += 1
                return
            yield from self.recall(given, entry.session)
        elif entry.name == CAPTURE:
            self._pairs.end_turn(entry)
        elif entry.name == "routeAuto.receipt":
            value = payload(entry)
            if value.get("ok") is False and not value.get("skipReason"):
                self._note(ROUTER)
        elif entry.name == "autoRecall" and "fallback" in entry.rest[:80]:
            self._note(BACKEND)
        elif not entry.name and entry.name is not None and entry.rest.lstrip().startswith(FAILED):
            self._hear(entry)
            n["warnings"] += 1
            yield from self.failure()
        elif entry.name == "" and (started := STARTED.match(entry.rest.lstrip())):
            self.databases = list(dict.fromkeys((*self.databases, started["db"])))[:MOST_NAMES]

    def _hear(self, entry: LogLine) -> None:
        """Note that the engine logged a recall; a time without a zone cannot be compared with that of a transcript."""
        if entry.time is None or not entry.zoned:
            self._is_heard = True
        else:
            self._heard = max(entry.time, self._heard or entry.time)

    def _note(self, fault: str) -> None:
        if fault not in self._before:
            self._before.append(fault)

    def _given_up(self, line: bytes) -> Iterator[Observation]:
        """Yield a recall whose handler the host gave up, so that nothing was injected."""
        match = _GIVEN_UP.search(line) if len(line) <= MAX_LINE else None
        if match is not None:
            self.counts["given_up"] += 1
            yield self._fault(HOOK_TIMEOUT if match[1] else HOOK)

    def _fault(self, *causes: str) -> Observation:
        self._name(self.causes, causes)
        return Observation(ERRORS, 1.0, causes)

    def _name(self, counted: Counter[str], names: Sequence[str]) -> None:
        """Count names that come from outside, a bounded number of them."""
        for name in names:
            counted[name if name in counted or len(counted) < MOST_NAMES else OTHER] += 1

    def recall(self, receipt: dict[str, Any], session: str | None) -> Iterator[Observation]:
        """Yield what a sound receipt shows that is not the second of its turn."""
        n, before = self.counts, self._before
        self._before = []
        n["receipts"] += 1
        read = reading_of(receipt)
        self._name(self.unknown, read.unknown)
        n["unknown_reasons"] += bool(read.unknown)
        if "failed" in receipt:
            n["failed_receipts"] += 1
            yield from self.failure()
            return
        faults = [*read.faults, *before]
        has_hits = bool(receipt["ftsTop"] or receipt["vecTop"] or receipt["finalCount"])
        scope = _digest(f"scope {receipt['scope']}")
        if has_hits:
            self._empty_row = 0
            self._scopes[scope] = self._scopes.get(scope, 0) + 1
            self._scopes.move_to_end(scope)
            if len(self._scopes) > MOST_SCOPES:
                self._scopes.popitem(last=False)
        elif not receipt["skipped"] and not faults and self._scopes.get(scope, 0) >= KNOWN:
            # Every lane is silent where they answered before.
            self._empty_row += 1
            if self._empty_row > IN_A_ROW:
                faults.append(STORE)
        if faults:
            n["not_working"] += 1
            yield self._fault(*faults)
            return
        if receipt["skipped"]:
            n["skipped"] += 1
            reason = receipt["skipReason"]
            yield Observation(ERRORS, 0.0, (reason if reason in SKIPS else OTHER,))
            return
        yield Observation(ERRORS, 0.0, () if has_hits else (EMPTY,))
        n["answered"] += 1
        n["empty"] += not receipt["finalCount"]
        if has_hits:
            yield Observation(TEXT, float(not receipt["ftsTop"]))
        name = scope if session is None else _digest(f"session {session}")
        yield from self._turn(name, receipt["fusedTop"])
        yield from self._idle()

    def failure(self) -> Iterator[Observation]:
        """Yield a failure that was not counted: profile seed logs a receipt and a warning, the plugin a warning."""
        n = self.counts
        if max(n["warnings"], n["failed_receipts"]) > n["failed"]:
            n["failed"] += 1
            yield self._fault(RAISED)

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
