"""The stores of a latency measurement, the arms that search them, and one timed turn.

In a timed turn an arm makes its own search, as in live use. Only :func:`ask_together` shares one search between arms.
An arm that does not search the shared store fills and searches a table of its own.
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

from lab.base.errors import CannotMeasure
from lab.embedding.embedder import QUERY
from lab.measures.latency import TOTAL
from lab.recordings.model import Memory
from lab.replay.candidates import rows_of
from lab.replay.guarded import Given, Seat
from lab.replay.loop import ask_of
from lab.replay.plan import Plan
from lab.replay.sources import Sources
from lab.retrieval.contract import Query, Row, Store
from lab.retrieval.retrievers import QueryContext, Retrieval, StoreRetriever, embedded_text, make_store, row_vectors
from lab.retrieval.tokens import words_under
from lab.studies.latency.memories import Pool, PoolVectors, PoolWords
from lab.systems.contract import Ask, Recall
from lab.systems.kit import Kit, Tools


class Question(NamedTuple):
    """One turn: the request to an arm, the request with gold for arms that need it, and the query to the store.

    The time to embed the query is not measured.
    """

    ask: Ask
    with_gold: Ask
    query: Query


class Sample(NamedTuple):
    """The time of one stage of one turn, ``ns`` in nanoseconds.

    ``part`` names the test, such as warm, cold, open (open loop), waiting or append. ``place`` is the arm's position
    in the order in which the arms ran this turn. ``passed_over`` is true if the arm skipped the turn because the prompt
    is trivial. ``appended`` rows had been added one by one; ``waiting`` of them were not compacted yet.
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
class LoadedStore:
    """A store with its memories, and the tools of the systems that search it."""

    kind: str
    store: Store
    tools: Tools
    memories: list[Memory] = field(default_factory=list)
    by_id: dict[str, Row] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)

    def note(self, memories: Sequence[Memory]) -> None:
        """Record memories that the store holds."""
        self.memories += memories
        self.keys.update(memory.key for memory in memories)
        self.by_id.update((row.id, row) for row in self.tools.rows.of(memories))

    def fill(self, pool: Pool, start: int, stop: int, words: PoolWords | None = None) -> None:
        """Add the memories ``start`` to ``stop`` of the pool; ``words`` tokenizes them if the store needs tokens."""
        for memories, vectors in pool.parts(start, stop):
            tokens = words.of([memory.index_text for memory in memories]) if words else [[]] * len(memories)
            self.store.add(self.tools.rows.of(memories), vectors, tokens)
            self.note(memories)

    def found(self, query: Query) -> QueryContext:
        """Return the candidates of a query."""
        return QueryContext(self.store.view(query), self.store.rows, self.by_id)


@dataclass(slots=True)
class Subject:
    """An arm on a store, with the arm's own history."""

    loaded: LoadedStore
    seat: Seat

    @property
    def name(self) -> tuple[str, str]:
        """Return the names of the store and the arm."""
        return self.loaded.kind, self.seat.name


@contextmanager
def opened(loaded_stores: Iterable[LoadedStore], plan: Plan, *, sharing: bool = False) -> Iterator[list[Subject]]:
    """Open every arm of a plan on every store; with ``sharing``, yield only the arms that search the shared store."""
    subjects: list[Subject] = []
    try:
        for loaded in loaded_stores:
            for number in range(len(plan.arms)):
                subject = Subject(loaded, seated(plan, number, loaded.tools, loaded.keys))
                subjects.append(subject)
                if not sharing or subject.seat.shared:
                    feed(subject.seat, loaded.memories)
        yield [subject for subject in subjects if not sharing or subject.seat.shared]
    finally:
        for subject in subjects:
            subject.seat.close()


def seated(plan: Plan, arm: int, tools: Tools, keys: set[str]) -> Seat:
    """Open an arm with an empty history, which will be given the memories with these keys."""
    chosen = plan.arms[arm]
    return Seat(chosen, plan.infos[arm], Kit(tools, chosen.name), Given(keys, keys), fed=True)


def feed(seat: Seat, memories: Sequence[Memory]) -> None:
    """Give memories to an arm; raise :class:`CannotMeasure` if the system fails."""
    seat.remember(memories)
    if seat.broken:
        raise CannotMeasure(f"arm {seat.name!r}: {seat.broken}; a system that fails cannot be timed")


def tools_over(plan: Plan, sources: Sources, kind: str, pool: Pool | None = None, size: int = 0) -> Tools:
    """Return the tools for systems on a store of this kind; a system's own table is of the same kind.

    Vectors of the first ``size`` memories of ``pool`` come from the pool, all others from ``sources``.
    """
    vectors = PoolVectors(pool, size, sources.vectors, retrieval_of(plan).clamp) if pool else sources.vectors

    def live(retrieval: Retrieval) -> StoreRetriever:
        words = PoolWords(pool, retrieval.text) if pool else words_under(retrieval.text)
        store = make_store(kind, vectors.dimension, retrieval.text)
        return StoreRetriever(store, vectors, words, retrieval.clamp, as_stored=retrieval.text.lane == "scan")

    return Tools("latency", sources.embedder, vectors, live, live, plan.request.seed, plan.scoping, sources.prepared)


class TimedRecall(NamedTuple):
    """One timed turn: nanoseconds by stage, including ``total``, and the recall."""

    timings: dict[str, int]
    recall: Recall

    @property
    def passed_over(self) -> bool:
        """Return whether the arm skipped the turn."""
        return self.recall.status == "skipped"


def ask(subject: Subject, question: Question) -> TimedRecall:
    """Time one recall of an arm. Raises :class:`CannotMeasure` if it fails."""
    loaded, seat = subject.loaded, subject.seat
    loaded.tools.clock.now_ms = question.ask.now_ms
    searched = partial(loaded.found, question.query) if seat.shared else None
    started = time.perf_counter_ns()
    found = searched() if searched else None
    ready = time.perf_counter_ns()
    recall = _answer(seat, question, found)
    ended = time.perf_counter_ns()
    retrieved = {"retrieve": ready - started} if searched else {}
    return TimedRecall(retrieved | recall.timings | {TOTAL: ended - started}, recall)


def ask_together(loaded: LoadedStore, seats: Sequence[Seat], question: Question) -> int:
    """Run one recall of every arm on one shared search, as a replay does; return the total in nanoseconds."""
    started = time.perf_counter_ns()
    found = loaded.found(question.query)
    for seat in seats:
        _answer(seat, question, found)
    return time.perf_counter_ns() - started


def _answer(seat: Seat, question: Question, found: QueryContext | None) -> Recall:
    request = question.with_gold if seat.info.needs_gold else question.ask
    recall, failure = seat.ask(request, found)
    if failure:
        raise CannotMeasure(f"arm {seat.name!r}: recall failed at {request.turn}: {failure}")
    return recall


def retrieval_of(plan: Plan) -> Retrieval:
    """Return the search settings of the first arm that declares any, else the defaults."""
    return next(iter(plan.retrievals()), Retrieval())


def pool_of(plan: Plan, sources: Sources) -> Pool:
    """Return a pool of the memories of all recordings, in order; it resamples if more are requested."""
    memories = [memory for recording in plan.recordings for memory in plan.memories_of(recording)]
    rows = [row for recording in plan.recordings for row in rows_of(plan, recording)]
    vectors = row_vectors(rows, retrieval_of(plan).clamp, sources.vectors, sources.stored)
    return Pool(memories, vectors, plan.request.seed)


def questions_of(plan: Plan, sources: Sources, count: int) -> list[Question]:
    """Return ``count`` turns spread evenly over all recordings; if there are fewer, turns repeat."""
    retrieval = retrieval_of(plan)
    points = [point for recording in plan.recordings for point in plan.recall_points_of(recording)]
    distinct = min(count, len(points))
    chosen = [points[index * len(points) // distinct] for index in range(distinct)]
    texts = [point.text for point in chosen]
    vectors = sources.vectors.of([embedded_text(text, retrieval.clamp) for text in texts], QUERY)
    tokens_of = sources.words.get(retrieval.text) or words_under(retrieval.text)
    tokens_of.prepare(texts)
    words = tokens_of.of(texts)
    questions = []
    for point, tokens, vector in zip(chosen, words, vectors, strict=True):
        plain = ask_of(point, plan.scoping, plan.faults)
        with_gold = replace(plain, grades=point.probe.grades if point.probe else {})
        questions.append(Question(plain, with_gold, Query(point.text, tokens, vector)))
    return [questions[index % distinct] for index in range(count)]


def resident() -> int | None:
    """Return the resident memory of this process in bytes; None if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def load() -> list[float] | None:
    """Return the load averages over 1, 5 and 15 minutes; None if unknown."""
    try:
        return [round(average, 2) for average in os.getloadavg()]
    except (AttributeError, OSError):
        return None


def size_of(folder: Path) -> int:
    """Return the size of the files in a folder in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
