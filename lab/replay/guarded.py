"""Guard all calls of a memory system: an arm in one conversation, and the retriever that several arms share.

A system may raise anything, or return what the contract does not allow. Then its recall has failed, and the replay goes
on. The failure names kind, stage and line of code, but never the message of an exception, which may contain a text.
Errors of the lab (:class:`lab.base.errors.LabError`) are raised again, because they mean that the conversation could
not be measured.

If a call other than a recall fails, nobody knows what the system holds, so it is not called again: every later recall
of the conversation fails with that first failure. The same holds for a shared retriever and all arms that share it.

Answers of systems from other packages are checked for types, ranges, and encodable texts. Systems of this project are
typed and tested, and need no such check.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from lab.base.errors import LabError
from lab.recordings.model import Memory, Turn
from lab.replay.unlisted import Texts
from lab.systems.contract import (
    NOTHING,
    Arm,
    ArmInfo,
    Ask,
    Candidates,
    Item,
    MemorySystem,
    Recall,
    Retriever,
    SharedRetrieval,
    Signals,
    Stored,
    Writes,
)
from lab.systems.external.protocol import HostFailed
from lab.systems.kit import Kit

STATUSES = ("ok", "skipped", "degraded")


class Broken(Exception):
    """A breach of the contract by a system; the only argument is its kind."""


def require_recall(answer: object) -> None:
    """Raise :class:`Broken` for a recall whose fields do not match the contract."""
    if not isinstance(answer, Recall):
        raise Broken("no_recall")
    if answer.status not in STATUSES:
        raise Broken("unknown_status")
    _require(isinstance(answer.items, tuple) and all(map(_is_item, answer.items)), "bad_item")
    _require(type(answer.injected) is int, "bad_injected")
    _require(_is_text(answer.context), "bad_context")
    _require(isinstance(answer.timings, dict), "bad_timings")
    _require(_are_texts(answer.pinned), "bad_pinned")
    _require(_are_texts(answer.displaced), "bad_displaced")
    _require(_are_texts(answer.log), "bad_log")
    _require(_is_count(answer.duplicates) and _is_count(answer.evicted), "bad_count")
    _require(answer.receipt_text is None or _is_text(answer.receipt_text), "bad_receipt")
    require_writes(answer.writes)
    _require_receipt(answer.receipt)


def require_writes(writes: object) -> None:
    """Raise :class:`Broken` for writes whose fields do not match the contract."""
    _require(isinstance(writes, Writes), "no_writes")
    if isinstance(writes, Writes):
        _require(all(map(_is_stored, (*writes.created, *writes.updated))), "bad_write")
        _require(_are_texts(tuple(writes.deleted)), "bad_write")
        _require(_are_texts(writes.log), "bad_log")
        _require_receipt(writes.receipt)


def _require_receipt(receipt: object) -> None:
    import orjson

    if not isinstance(receipt, Mapping):
        raise Broken("bad_receipt")
    try:
        orjson.dumps(dict(receipt))
    except (TypeError, ValueError, RecursionError):
        raise Broken("bad_receipt") from None


def _require(holds: bool, kind: str) -> None:
    if not holds:
        raise Broken(kind)


def _is_text(value: object) -> bool:
    """Return whether a value is a text that UTF-8 can encode."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_texts(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and all(map(_is_text, values))


def _is_count(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value < 1 << 31)


def _is_stored(value: object) -> bool:
    return isinstance(value, Stored) and _is_text(value.id) and _is_text(value.text) and _are_texts(value.sources)


def _is_item(value: object) -> bool:
    if not (isinstance(value, Item) and _is_text(value.id) and _is_text(value.text) and _are_texts(value.sources)):
        return False
    signals = value.signals
    if not (isinstance(signals, Signals) and isinstance(value.score, int | float) and math.isfinite(value.score)):
        return False
    texts = (value.tier, signals.id, signals.label, signals.scope, signals.decision)
    ranks = (signals.fts_rank, signals.vec_rank)
    return all(text is None or _is_text(text) for text in texts) and all(map(_is_count, ranks))


T = TypeVar("T")
# Methods that a memory system must have, besides recall.
CALLS = ("remember", "forget", "observe", "close")
# The stage of a system that reports no stages.
WHOLE = "recall"


class Failure(NamedTuple):
    """Why a recall failed: the exception or breach of contract, the call, and the module and line."""

    kind: str
    stage: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.kind} in {self.stage}" + (f" at {self.place}" if self.place else "")


@dataclass(frozen=True, slots=True)
class Given:
    """Keys of the memories from outside: ``known`` are all of the conversation, ``present`` those visible now.

    ``texts`` are those of the visible memories; empty if no system writes a text of its own.
    """

    known: Container[str]
    present: Container[str]
    texts: Texts = field(default_factory=Texts)


class Guarded:
    """Calls of a system that may raise anything.

    ``broken`` is the first failure of a call, None before one. After it the system is not called again.
    """

    def __init__(self, system: object) -> None:
        self.broken: Failure | None = None
        self._foreign = is_foreign(system)

    def _guarded(self, stage: str, call: Callable[[], T]) -> T | None:
        if self.broken:
            return None
        try:
            return call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a system may raise anything, and may try to end the process
            failure = failure_of(error, stage, foreign=self._foreign)
            if stage != "close":
                self.broken = failure
            return None


class Seat(Guarded):
    """An arm's system in one conversation. ``written`` are the memories that it wrote, by id.

    A recall that fails leaves the system as it was, and the next one is tried. After a failure of any other call nobody
    knows what the system holds: ``broken`` keeps this failure, and every later recall of the conversation fails with
    it.
    """

    def __init__(self, arm: Arm, info: ArmInfo, kit: Kit, given: Given, *, fed: bool) -> None:
        super().__init__(arm)
        self.name, self.info, self.fed = arm.name, info, fed
        self.written: dict[str, Stored] = {}
        self._derived: dict[str, Stored] = {}
        self._texts = given.texts if fed else Texts()
        self._kit, self._given = kit, given
        # Systems of other packages are timed by the lab; their own timings are ignored.
        self._times_itself = type(getattr(arm, "base", arm)).__module__.startswith("lab.")
        self.system: MemorySystem | None = self._guarded("open", lambda: arm.open(kit))
        opened: object = self.system
        if self.broken is None and not all(hasattr(opened, name) for name in CALLS):
            self.broken = Failure("no_memory_system", "open")
        # Systems that inherit observe() ignore turns, so it is not called.
        self.watches = getattr(type(opened), "observe", None) is not MemorySystem.observe
        self._sharing = opened if isinstance(opened, SharedRetrieval) else None

    @property
    def shared(self) -> SharedRetrieval | None:
        """The system, if its search can be shared with other arms, else None."""
        sharing = self._sharing
        return sharing if sharing is not None and sharing.retrieval_key is not None else None

    def remember(self, memories: Sequence[Memory]) -> None:
        """Pass created memories to a system that is fed from outside."""
        system = self.system
        if self.fed and system is not None:
            copies = [replace(memory) for memory in memories] if self._foreign else memories
            self._guarded("remember", lambda: system.remember(copies))

    def forget(self, keys: Sequence[str]) -> None:
        """Pass forgotten memories to a system that is fed from outside."""
        system = self.system
        if self.fed and system is not None:
            self._guarded("forget", lambda: system.forget(keys))

    def ask(self, ask: Ask, retrieved: Candidates | Failure | None) -> tuple[Recall, Failure | None]:
        """Return the system's answer, or a failed recall with its failure.

        ``retrieved`` are shared candidates, the failure of their retrieval, or None if the system searches by itself.
        """
        failure = self.broken or (retrieved if isinstance(retrieved, Failure) else None)
        if failure:
            return _failed(failure), failure
        system = self.system
        assert system is not None  # noqa: S101 - else it is broken
        candidates = None if isinstance(retrieved, Failure) else retrieved
        # A copy, so that a system cannot change the query of the next one.
        query = replace(ask, grades=dict(ask.grades)) if self._foreign else ask
        try:
            started = time.perf_counter_ns()
            answer = system.recall(query) if candidates is None else self._selected(query, candidates)
            spent = time.perf_counter_ns() - started
            if self._foreign or not isinstance(answer, Recall):
                require_recall(answer)
            self._check(answer, ask)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a system may raise anything, and may try to end the process
            failure = failure_of(error, "recall", foreign=self._foreign)
            return _failed(failure), failure
        if not self._times_itself or not (answer.timings or answer.status == "skipped" or ask.items_only):
            answer = replace(answer, timings={WHOLE: spent})
        return answer, None

    def observe(self, turn: Turn) -> Writes:
        """Show a turn to the system; record and return what it wrote."""
        system = self.system
        if self.broken or system is None:
            return NOTHING

        def observed() -> Writes:
            writes = system.observe(replace(turn) if self._foreign else turn)
            if self._foreign:
                require_writes(writes)
            if writes and not self._kit.captures:
                raise Broken("captured_what_was_given")
            self._book(writes, self.written)
            return writes

        return self._guarded("observe", observed) or NOTHING

    def close(self) -> None:
        """Close the system, a broken one too, and remove its folder; errors no longer affect results."""
        system, self.broken = self.system, None
        try:
            if system is not None:
                self._guarded("close", system.close)
        finally:
            self._kit.close()

    def _selected(self, ask: Ask, candidates: Candidates) -> Recall:
        shared = self.shared
        assert shared is not None  # noqa: S101 - only systems that share get candidates
        return shared.select(ask, candidates)

    def _check(self, answer: Recall, ask: Ask) -> None:
        """Raise :class:`Broken` for items that do not exist, are too many or too few, and for writes at a probe."""
        if not 0 <= answer.injected <= len(answer.items):
            raise Broken("injected_out_of_range")
        if self.info.at_most is not None and answer.injected > self.info.at_most:
            raise Broken("too_many_items")
        if answer.injected and not answer.context and not ask.items_only:
            raise Broken("nothing_injected")
        ids = [item.id for item in answer.items]
        if len(set(ids)) < len(ids):
            raise Broken("item_twice")
        if answer.writes:
            if ask.probe:
                raise Broken("trace_of_a_probe")
            if not (self._kit.captures or self.info.derives):
                raise Broken("captured_what_was_given")
            # A derived row is no memory of the conversation, so it may not become an item.
            self._book(answer.writes, self.written if self._kit.captures else self._derived)
        present = self._given.present if self.fed else ()
        for identity in (*ids, *answer.pinned):
            if identity not in present and identity not in self.written:
                raise Broken("item_not_there" if identity in self._given.known else "unknown_item")
        # The text of a system of this project is made from its list.
        listed = {*ids[: answer.injected], *answer.pinned}
        if self._foreign and answer.context and self._texts.unlisted(answer.context, listed, ask.text):
            raise Broken("unlisted_memory")
        written = ((item.id, item.text) for item in answer.items[: answer.injected])
        if self._foreign and not ask.items_only and self._texts.unwritten(written, answer.context):
            raise Broken("unwritten_item")

    def _book(self, writes: Writes, held: dict[str, Stored]) -> None:
        for memory in writes.created:
            if memory.id in held or (self.fed and memory.id in self._given.present):
                raise Broken("created_twice")
            held[memory.id] = memory
        for memory in writes.updated:
            if memory.id not in held:
                raise Broken("updated_unknown")
            held[memory.id] = memory
        for identity in writes.deleted:
            if held.pop(identity, None) is None:
                raise Broken("deleted_unknown")
        if held is self.written and self._foreign and not self.fed:
            for memory in (*writes.created, *writes.updated):
                self._texts.add(memory.id, memory.text)
            for identity in writes.deleted:
                self._texts.remove(identity)


def timed(call: Callable[[], T]) -> tuple[T, int]:
    """Return the result of a call and its duration in nanoseconds."""
    started = time.perf_counter_ns()
    result = call()
    return result, time.perf_counter_ns() - started


def booked(recall: Recall, retrieved: int | None) -> Recall:
    """Add the time of the shared retrieval to a recall's timings: every arm counts the full retrieval.

    The timings are changed in place; a system that shares its search creates them for each recall.
    """
    if retrieved is not None:
        recall.timings["retrieve"] = retrieved
    return recall


def _failed(failure: Failure) -> Recall:
    return Recall(status="failed", receipt={"failed": failure._asdict()})


def is_foreign(system: object) -> bool:
    """Return whether a system is defined outside of the lab; ``foreign`` says so of a process behind it (EX-17)."""
    # An arm under a token budget is the lab's, and the system in it may not be.
    base = getattr(system, "base", system)
    return bool(getattr(base, "foreign", not type(base).__module__.startswith("lab.")))


def failure_of(error: BaseException, stage: str, *, foreign: bool = True) -> Failure:
    """Return kind, stage, module and line of an exception, without its message.

    An error of the lab is raised again; for a ``foreign`` system, only if it was raised in the lab's code.
    """
    if isinstance(error, Broken):
        return Failure(str(error), stage)
    if isinstance(error, HostFailed):
        return Failure(error.kind, error.op or stage, error.place)
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    module = where.tb_frame.f_globals.get("__name__", "") if where is not None else ""
    if isinstance(error, LabError) and (not foreign or module.startswith("lab.")):
        raise error
    kind = type(error).__name__
    return Failure(kind if kind.isidentifier() else "exception", stage, f"{module}:{last.lineno}" if last else "")


Retrieved = tuple[Candidates, int] | Failure


class SharedSearch(Guarded):
    """The retriever of one key."""

    def __init__(self, system: SharedRetrieval) -> None:
        super().__init__(system)
        # The last query, which all arms of this key share, and its result.
        self._ask: Ask | None = None
        self._retrieved: Retrieved = Failure("not_asked", "retrieve")
        self._retriever: Retriever | None = self._guarded("open_retriever", system.open_retriever)

    def observe(self, memories: Sequence[Memory]) -> None:
        """Add memories that become visible."""
        if self._retriever is not None:
            retriever = self._retriever
            copies = [replace(memory) for memory in memories] if self._foreign else memories
            self._guarded("retriever.observe", lambda: retriever.observe(copies))

    def forget(self, keys: Sequence[str]) -> None:
        """Remove forgotten memories."""
        if self._retriever is not None:
            retriever = self._retriever
            self._guarded("retriever.forget", lambda: retriever.forget(keys))

    def expect(self, texts: Sequence[str]) -> None:
        """Announce the queries to come."""
        if self._retriever is not None:
            retriever = self._retriever
            self._guarded("retriever.expect", lambda: retriever.expect(texts))

    def retrieve(self, ask: Ask) -> Retrieved:
        """Return the candidates and the nanoseconds of the search, or the failure; one search for each query."""
        if self._ask is not ask:
            self._ask, self._retrieved = ask, self._retrieve(ask)
        return self._retrieved

    def _retrieve(self, ask: Ask) -> Retrieved:
        if self.broken or self._retriever is None:
            return self.broken or Failure("no_retriever", "open_retriever")
        retriever = self._retriever
        try:
            ungraded = replace(ask, grades={}) if self._foreign else ask
            return timed(lambda: retriever.retrieve(ungraded))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a retriever may raise anything
            return failure_of(error, "retrieve", foreign=self._foreign)

    def close(self) -> None:
        """Close the retriever; errors no longer affect results."""
        if self._retriever is not None:
            self._guarded("close", self._retriever.close)
