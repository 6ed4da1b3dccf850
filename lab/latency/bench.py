"""Stores that are measured, the arms that ask them, and one timed turn.

Every arm makes its own searches, as it would live: a view of the store is made for each and shared with none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lab.embedding.embedder import QUERY
from lab.errors import CannotMeasure
from lab.latency.memories import Pool, PoolWords
from lab.replay.loop import request_of
from lab.replay.plan import Plan
from lab.replay.sources import Sources
from lab.retrieval.contract import Query, Store
from lab.retrieval.retrievers import embedded_text, row_vectors
from lab.retrieval.row import Row
from lab.systems.contract import Recall, Request, Selector
from lab.systems.openclaw.docs.lane import DocsLane
from lab.systems.openclaw.listing import Listing
from lab.systems.openclaw.recall.turn import Memories


class Question(NamedTuple):
    """One turn: what an arm is asked, and what the store is searched for. Embedding it is not measured."""

    request: Request
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
    """A store with what recall needs besides it."""

    kind: str
    store: Store
    docs: DocsLane | None = None
    by_id: dict[str, Row] = field(default_factory=dict)
    listing: Listing = field(default_factory=Listing)

    def note(self, rows: Sequence[Row]) -> None:
        """Take in rows that the store holds."""
        self.by_id.update((row.id, row) for row in rows)
        self.listing.add(rows)

    def fill(self, pool: Pool, start: int, stop: int, words: PoolWords | None = None) -> None:
        """Add memories of the pool. ``words`` makes their tokens, where the store needs them."""
        for rows, vectors in pool.parts(start, stop):
            self.store.add(rows, vectors, words.of(rows) if words else [[]] * len(rows))
        if stop > start:
            self.note(self.store.rows[start - stop :])


@dataclass(slots=True)
class Subject:
    """An arm over a store, with the arm's own past."""

    shelf: Shelf
    arm: Selector

    @property
    def name(self) -> tuple[str, str]:
        """Store and arm."""
        return self.shelf.kind, self.arm.name


class Asked(NamedTuple):
    """One timed turn: nanoseconds by stage, ``total`` among them, and what came of it."""

    timings: dict[str, int]
    recall: Recall

    @property
    def passed_over(self) -> bool:
        """Whether nothing was searched."""
        return bool(self.recall.receipt.get("skipped"))


def ask(subject: Subject, question: Question) -> Asked:
    """Ask an arm about a turn, and time it."""
    shelf = subject.shelf
    started = time.perf_counter_ns()
    view = shelf.store.view(question.query)
    memories = Memories(view, shelf.store.rows, shelf.by_id, shelf.listing, docs=shelf.docs)
    ready = time.perf_counter_ns()
    recall = subject.arm.select(question.request, memories)
    ended = time.perf_counter_ns()
    failed = [line for line in recall.log if "autoRecall failed" in line]
    if failed:
        raise CannotMeasure(f"{subject.arm.name}: recall failed at {question.request.key}: {failed[0]}")
    return Asked({"retrieve": ready - started} | recall.timings | {"total": ended - started}, recall)


def ask_together(shelf: Shelf, arms: Sequence[Selector], question: Question) -> int:
    """Ask all arms about a turn over one view, as a replay does; nanoseconds for all of them."""
    started = time.perf_counter_ns()
    view = shelf.store.view(question.query)
    memories = Memories(view, shelf.store.rows, shelf.by_id, shelf.listing, docs=shelf.docs)
    for arm in arms:
        arm.select(question.request, memories)
    return time.perf_counter_ns() - started


def pool_of(plan: Plan, sources: Sources) -> Pool:
    """The memories of all recordings, in their order, and what more is asked for."""
    limits = plan.retrievals()[0].clamp
    rows = [row for recording in plan.recordings for row in plan.rows_of(recording)]
    return Pool(rows, row_vectors(rows, limits, sources.vectors, sources.stored), plan.asked.seed)


def questions_of(plan: Plan, sources: Sources, count: int) -> list[Question]:
    """``count`` turns, spread evenly over all recordings; where there are fewer, they are asked again."""
    retrieval = plan.retrievals()[0]
    happening = [moment for recording in plan.recordings for moment in plan.moments_of(recording)]
    some = min(count, len(happening))
    chosen = [happening[place * len(happening) // some] for place in range(some)]
    texts = [moment.text for moment in chosen]
    vectors = sources.vectors.of([embedded_text(text, retrieval.clamp) for text in texts], QUERY)
    words = sources.words[retrieval.text].of(texts)
    once = [
        Question(request_of(moment, plan.scoping, plan.faults), Query(moment.text, tokens, vector))
        for moment, tokens, vector in zip(chosen, words, vectors, strict=True)
    ]
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
