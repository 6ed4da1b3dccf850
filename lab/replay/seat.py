"""One arm in one conversation: its system is called here and nowhere else, and held to the contract.

A system that raises, or says what cannot be, gives a failed recall: its kind, its stage and its place, and never the
words of an exception, which may hold a text. An error of the lab's own (:class:`lab.errors.LabError`) goes through: the
conversation could not be measured.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from lab.errors import LabError
from lab.recordings.model import Memory, Turn
from lab.replay.strict import Broken, require_recall, require_writes
from lab.systems.contract import (
    NOTHING,
    Arm,
    ArmInfo,
    Ask,
    Candidates,
    MemorySystem,
    Recall,
    SharedRetrieval,
    Stored,
    Writes,
)
from lab.systems.kit import Kit

T = TypeVar("T")
# What a memory system can be asked to do.
CALLS = ("remember", "forget", "observe", "close")
# The stage of a system that says nothing of its stages.
WHOLE = "recall"


class Failure(NamedTuple):
    """Why a recall failed: the kind of exception or of broken promise, in which call, and where in the code."""

    kind: str
    stage: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.kind} in {self.stage}" + (f" at {self.place}" if self.place else "")


@dataclass(frozen=True, slots=True)
class Given:
    """Memories from outside as they stand: ``known`` are all keys of the conversation, ``present`` those that are."""

    known: Container[str]
    present: Container[str]


class Seat:
    """An arm's system, what it wrote so far, and why it cannot be asked any more, if it cannot.

    What breaks outside a recall leaves a system of which nobody knows what it holds: every later recall of the
    conversation fails with it.
    """

    def __init__(self, arm: Arm, info: ArmInfo, kit: Kit, given: Given, *, fed: bool) -> None:
        self.name, self.info, self.fed = arm.name, info, fed
        self.own: dict[str, Stored] = {}
        self.broken: Failure | None = None
        self._kit, self._given = kit, given
        self._foreign = is_foreign(arm)
        self.system: MemorySystem | None = self._guarded("open", lambda: arm.open(kit))
        opened: object = self.system
        if self.broken is None and not all(hasattr(opened, name) for name in CALLS):
            self.broken = Failure("no_memory_system", "open")
        # Most systems have nothing to see: those that inherit observe() are not shown every turn.
        self.watches = getattr(type(opened), "observe", None) is not MemorySystem.observe
        self._sharing = opened if isinstance(opened, SharedRetrieval) else None

    @property
    def shared(self) -> SharedRetrieval | None:
        """The system, where its search may be made for others, too."""
        sharing = self._sharing
        return sharing if sharing is not None and sharing.retrieval_key is not None else None

    def remember(self, memories: Sequence[Memory]) -> None:
        """Hand over what is born, to a system that is fed from outside."""
        system = self.system
        if self.fed and system is not None:
            handed = [replace(one) for one in memories] if self._foreign else memories
            self._guarded("remember", lambda: system.remember(handed))

    def forget(self, keys: Sequence[str]) -> None:
        """Take away what is forgotten."""
        system = self.system
        if self.fed and system is not None:
            self._guarded("forget", lambda: system.forget(keys))

    def ask(self, ask: Ask, found: Candidates | Failure | None) -> tuple[Recall, Failure | None]:
        """What the system answers, or a failed recall and why; ``found`` may be why there are no candidates."""
        failure = self.broken or (found if isinstance(found, Failure) else None)
        if failure:
            return _failed(failure), failure
        system = self.system
        assert system is not None  # noqa: S101 - else it is broken
        candidates = None if isinstance(found, Failure) else found
        # What one system does to its question is no affair of the next.
        own = replace(ask, grades=dict(ask.grades)) if self._foreign else ask
        try:
            started = time.perf_counter_ns()
            answer = system.recall(own) if candidates is None else self._selected(own, candidates)
            spent = time.perf_counter_ns() - started
            if self._foreign or not isinstance(answer, Recall):
                require_recall(answer)
            self._check(answer, ask)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a system may raise anything, and may try to end the process
            failure = failure_of(error, "recall", foreign=self._foreign)
            return _failed(failure), failure
        if self._foreign or not (answer.timings or answer.status == "skipped" or ask.items_only):
            # The lab's own clock: what a system of another package says of its speed is not believed.
            answer = replace(answer, timings={WHOLE: spent})
        return answer, None

    def observe(self, turn: Turn) -> Writes:
        """Show a turn, and book what was written."""
        system = self.system
        if self.broken or system is None:
            return NOTHING

        def observed() -> Writes:
            writes = system.observe(replace(turn) if self._foreign else turn)
            if self._foreign:
                require_writes(writes)
            if writes and not self._kit.captures:
                raise Broken("captured_what_was_given")
            self._book(writes)
            return writes

        return self._guarded("observe", observed) or NOTHING

    def close(self) -> None:
        """Close the system and remove its folder; what breaks here has been measured already."""
        system = self.system
        if system is not None:
            self._guarded("close", system.close)
        self._kit.close()

    def _selected(self, ask: Ask, found: Candidates) -> Recall:
        shared = self.shared
        assert shared is not None  # noqa: S101 - candidates are handed to those that share
        return shared.select(ask, found)

    def _check(self, answer: Recall, ask: Ask) -> None:
        """Refuse what cannot be: items that are not there, more of them than was said, a trace of a probe."""
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
            if not self._kit.captures:
                raise Broken("captured_what_was_given")
            self._book(answer.writes)
        present = self._given.present if self.fed else ()
        for identity in (*ids, *answer.pinned):
            if identity not in present and identity not in self.own:
                raise Broken("item_not_there" if identity in self._given.known else "unknown_item")

    def _book(self, writes: Writes) -> None:
        for one in writes.created:
            if one.id in self.own or (self.fed and one.id in self._given.present):
                raise Broken("created_twice")
            self.own[one.id] = one
        for one in writes.updated:
            if one.id not in self.own:
                raise Broken("updated_unknown")
            self.own[one.id] = one
        for identity in writes.deleted:
            if self.own.pop(identity, None) is None:
                raise Broken("deleted_unknown")

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


def timed(call: Callable[[], T]) -> tuple[T, int]:
    """What a call returns, and the nanoseconds it took."""
    started = time.perf_counter_ns()
    found = call()
    return found, time.perf_counter_ns() - started


def booked(recall: Recall, retrieved: int | None) -> Recall:
    """A recall with what finding its candidates took: every arm is booked what it would have taken it alone.

    Noted in the recall's own timings: a system that shares its search makes them for each recall.
    """
    if retrieved is not None:
        recall.timings["retrieve"] = retrieved
    return recall


def _failed(failure: Failure) -> Recall:
    return Recall(status="failed", receipt={"failed": failure._asdict()})


def is_foreign(system: object) -> bool:
    """Whether a system is of another package."""
    return not type(system).__module__.startswith("lab.")


def failure_of(error: BaseException, stage: str, *, foreign: bool = True) -> Failure:
    """Kind, stage and place of what was raised, and none of its words.

    An error of the lab's own is raised again, as the conversation could not be measured; of a ``foreign`` system only
    where the lab raised it.
    """
    if isinstance(error, Broken):
        return Failure(str(error), stage)
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
