"""Stores that are measured, the arms that ask them, and one timed turn.

Every arm makes its own searches, as it would live: a view of the store is made for each and shared with none. An arm
that shares its search with nobody has a table of its own, which it is fed and asked itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab.embedding.embedder import QUERY
from lab.errors import CannotMeasure
from lab.latency.memories import Pool, PoolVectors, PoolWords
from lab.latency.turns import TOTAL
from lab.recordings.model import Memory
from lab.replay.candidates import rows_of
from lab.replay.loop import ask_of
from lab.replay.plan import Plan
from lab.replay.seat import Given, Seat
from lab.replay.sources import Sources
from lab.retrieval.contract import Query, Store
from lab.retrieval.query_context import QueryContext, Retrieval
from lab.retrieval.retrievers import StoreRetriever, embedded_text, make_store, row_vectors
from lab.retrieval.row import Row
from lab.retrieval.tokens import words_under
from lab.systems.contract import Ask, Recall
from lab.systems.kit import Kit, Tools


class Question(NamedTuple):
    """One turn: what an arm is asked, what one is that is told the gold, and what the store is searched for.

    Embedding it is not measured.
    """

    ask: Ask
    told: Ask
    query: Query


class Sample(NamedTuple):
    """What one stage of one turn took.

    ``place`` is the arm's place in the order of the turn. ``passed_over``: the arm searched nothing, for the prompt is
    trivial. ``appended`` rows had been added one by one, ``waiting`` of them not compacted yet.
    """

    part: str
    store: str
    arm: str
    memories: int
    turn: int
    place: int
    stage: str
    ns: int
    passed_over: bool = False
    appended: int = 0
    waiting: int = 0


@dataclass(slots=True)
class Shelf:
    """A store with its memories, and the tools of the systems that are asked over it."""

    kind: str
    store: Store
    tools: Tools
    memories: list[Memory] = field(default_factory=list)
    by_id: dict[str, Row] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def note(self, memories: Sequence[Memory]) -> None:
        """Take in memories that the store holds."""
        self.memories += memories
        self.keys.update(memory.key for memory in memories)
        self.by_id.update((row.id, row) for row in self.tools.rows.of(memories))

    def fill(self, pool: Pool, start: int, stop: int, words: PoolWords | None = None) -> None:
        """Add memories of the pool. ``words`` makes their tokens, where the store needs them."""
        for memories, vectors in pool.parts(start, stop):
            tokens = words.of([one.index_text for one in memories]) if words else [[]] * len(memories)
            self.store.add(self.tools.rows.of(memories), vectors, tokens)
            self.note(memories)

    def found(self, query: Query) -> QueryContext:
        """What an arm chooses from."""
        return QueryContext(self.store.view(query), self.store.rows, self.by_id)


@dataclass(slots=True)
class Subject:
    """An arm over a store, with the arm's own past."""

    shelf: Shelf
    seat: Seat

    @property
    def name(self) -> tuple[str, str]:
        """Store and arm."""
        return self.shelf.kind, self.seat.name


@contextmanager
def opened(shelves: Iterable[Shelf], plan: Plan, *, sharing: bool = False) -> Iterator[list[Subject]]:
    """Every arm of a plan over every shelf, fed with what stands there. ``sharing``: those alone that search it."""
    subjects: list[Subject] = []
    try:
        for shelf in shelves:
            for number in range(len(plan.arms)):
                subject = Subject(shelf, seated(plan, number, shelf.tools, shelf.keys))
                subjects.append(subject)
                if not sharing or subject.seat.shared:
                    feed(subject.seat, shelf.memories)
        yield [one for one in subjects if not sharing or one.seat.shared]
    finally:
        for one in subjects:
            one.seat.close()


def seated(plan: Plan, arm: int, tools: Tools, keys: set[str]) -> Seat:
    """An arm without a past, to which the memories of these keys are given."""
    one = plan.arms[arm]
    return Seat(one, plan.infos[arm], Kit(tools, one.name), Given(keys, keys), fed=True)


def feed(seat: Seat, memories: Sequence[Memory]) -> None:
    """Hand memories over; a system that breaks is :class:`CannotMeasure`."""
    seat.remember(memories)
    if seat.broken:
        raise CannotMeasure(f"arm {seat.name!r}: {seat.broken}; a system that breaks cannot be timed")


def tools_over(plan: Plan, sources: Sources, kind: str, pool: Pool | None = None, size: int = 0) -> Tools:
    """The tools of systems over a store. A table of a system's own is of the same kind, over ``size`` of the pool."""
    vectors = PoolVectors(pool, size, sources.vectors, retrieval_of(plan).clamp) if pool else sources.vectors

    def live(retrieval: Retrieval) -> StoreRetriever:
        words = PoolWords(pool, retrieval.text) if pool else words_under(retrieval.text)
        store = make_store(kind, vectors.dimension, retrieval.text)
        return StoreRetriever(store, vectors, words, retrieval.clamp, as_stored=retrieval.text.lane == "scan")

    return Tools("latency", sources.embedder, vectors, live, live, plan.asked.seed, plan.scoping, sources.prepared)


class TimedRecall(NamedTuple):
    """One timed turn: nanoseconds by stage, ``total`` among them, and what came of it."""

    timings: dict[str, int]
    recall: Recall

    @property
    def passed_over(self) -> bool:
        """Whether nothing was searched."""
        return self.recall.status == "skipped"


def ask(subject: Subject, question: Question) -> TimedRecall:
    """Ask an arm about a turn, and time it."""
    shelf, seat = subject.shelf, subject.seat
    shelf.tools.clock.now_ms = question.ask.now_ms
    searched = partial(shelf.found, question.query) if seat.shared else None
    started = time.perf_counter_ns()
    found = searched() if searched else None
    ready = time.perf_counter_ns()
    recall = _answer(seat, question, found)
    ended = time.perf_counter_ns()
    retrieved = {"retrieve": ready - started} if searched else {}
    return TimedRecall(retrieved | recall.timings | {TOTAL: ended - started}, recall)


def ask_together(shelf: Shelf, seats: Sequence[Seat], question: Question) -> int:
    """Ask all arms about a turn over one view, as a replay does; nanoseconds for all of them."""
    started = time.perf_counter_ns()
    found = shelf.found(question.query)
    for seat in seats:
        _answer(seat, question, found)
    return time.perf_counter_ns() - started


def _answer(seat: Seat, question: Question, found: QueryContext | None) -> Recall:
    asked = question.told if seat.info.needs_gold else question.ask
    recall, failure = seat.ask(asked, found)
    if failure:
        raise CannotMeasure(f"arm {seat.name!r}: recall failed at {asked.turn}: {failure}")
    return recall


def retrieval_of(plan: Plan) -> Retrieval:
    """How the arms search, as far as that is known of one of them."""
    return next(iter(plan.retrievals()), Retrieval())


def pool_of(plan: Plan, sources: Sources) -> Pool:
    """The memories of all recordings, in their order, and what more is asked for."""
    memories = [memory for recording in plan.recordings for memory in plan.memories_of(recording)]
    rows = [row for recording in plan.recordings for row in rows_of(plan, recording)]
    vectors = row_vectors(rows, retrieval_of(plan).clamp, sources.vectors, sources.stored)
    return Pool(memories, vectors, plan.asked.seed)


def questions_of(plan: Plan, sources: Sources, count: int) -> list[Question]:
    """``count`` turns, spread evenly over all recordings; where there are fewer, they are asked again."""
    retrieval = retrieval_of(plan)
    happening = [point for recording in plan.recordings for point in plan.recall_points_of(recording)]
    some = min(count, len(happening))
    chosen = [happening[place * len(happening) // some] for place in range(some)]
    texts = [point.text for point in chosen]
    vectors = sources.vectors.of([embedded_text(text, retrieval.clamp) for text in texts], QUERY)
    known = sources.words.get(retrieval.text) or words_under(retrieval.text)
    known.prepare(texts)
    words = known.of(texts)
    once = []
    for point, tokens, vector in zip(chosen, words, vectors, strict=True):
        plain = ask_of(point, plan.scoping, plan.faults)
        told = replace(plain, grades=point.probe.grades if point.probe else {})
        once.append(Question(plain, told, Query(point.text, tokens, vector)))
    return [once[place % some] for place in range(count)]


def resident() -> int | None:
    """Bytes of memory that this process has, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def load() -> list[float] | None:
    """The load averages over 1, 5 and 15 minutes, where the system tells."""
    try:
        return [round(one, 2) for one in os.getloadavg()]
    except (AttributeError, OSError):
        return None


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
