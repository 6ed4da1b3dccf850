"""The work of a latency measurement, each cell in its own process: build stores, run recalls, time them.

Arms take turns in ABBA blocks; an open loop has intended start times. The prompt is embedded in warm turns and in the
open loop: what cold turns and rows that wait cost does not depend on it.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lab.base.formatting import Announce
from lab.replay.sources import Sources, open_sources
from lab.retrieval.contract import Filter
from lab.retrieval.lance import LanceStore
from lab.retrieval.quiet import import_lancedb
from lab.retrieval.retrievers import make_store
from lab.studies.latency.bench import (
    RECALL,
    TURN,
    Embed,
    LoadedStore,
    Pool,
    PoolWords,
    Question,
    Sample,
    Subject,
    TimedRecall,
    ask,
    ask_together,
    embedding_by,
    feed,
    load,
    opened,
    pool_of,
    questions_of,
    resident,
    retrieval_of,
    seated,
    size_of,
    tools_over,
)
from lab.studies.latency.request import WAITING_TURNS, Cell, LatencyPlan

if TYPE_CHECKING:
    import numpy as np

Each = TypeVar("Each")
# Turns of a block: one in forward, one in backward order.
BLOCK = 2


class Clock:
    """The machine's clock, ``time.perf_counter_ns``."""

    def now(self) -> int:
        """Return nanoseconds since an arbitrary point."""
        return time.perf_counter_ns()

    def wait_until(self, point: int) -> None:
        """Sleep until ``point``."""
        while (left := point - time.perf_counter_ns()) > 0:
            time.sleep(left / 1e9)


def abba(subjects: Sequence[Each], turns: int) -> Iterator[tuple[int, list[Each]]]:
    """Yield each turn with the order of the subjects in it: forward, then backward.

    In each block of two turns, every subject is as often early as late, so that drift of the machine and warmed caches
    affect all subjects equally.
    """
    for turn in range(turns):
        yield turn, list(subjects if turn % BLOCK == 0 else reversed(subjects))


def stretches(subjects: Sequence[Each], turns: int) -> Iterator[tuple[Each, range]]:
    """Yield each subject with its turns, one subject at a time in the order A B … B A, half of the turns in each."""
    half = (turns + 1) // 2
    for subject in subjects:
        yield subject, range(half)
    for subject in reversed(subjects):
        yield subject, range(half, turns)


class Served(NamedTuple):
    """One request of an open loop, in nanoseconds of its clock."""

    intended: int
    started: int
    ended: int

    @property
    def latency(self) -> int:
        """Return the time from the intended start, which includes queueing behind slow requests."""
        return self.ended - self.intended


def open_loop(clock: Clock, rate: float, turns: Sequence[int], serve: Callable[[int], object]) -> Iterator[Served]:
    """Serve ``turns`` at ``rate`` per second, one at a time; yield the intended start, the start and the end of each.

    The intended starts are fixed beforehand, so requests behind a slow one queue (no coordinated omission).
    """
    first = clock.now()
    for index, turn in enumerate(turns):
        intended = first + round(index * 1e9 / rate)
        clock.wait_until(intended)
        started = clock.now()
        serve(turn)
        yield Served(intended, started, clock.now())


MEMORIES = "memories.pickle"
# The number of searches that compare an approximate index with exact search, and the hits of each.
COMPARED, HITS = 50, 12
# Further turns of a cold process, so that its memory can be measured once it is warm.
AFTER_COLD = 5


class Job(NamedTuple):
    """One cell for one process; its tables are in ``folder``."""

    measurement: LatencyPlan
    cell: Cell
    folder: Path
    announce: Announce


class Measured(NamedTuple):
    """The samples of a cell, and further facts about it: sizes, memory, load."""

    samples: list[Sample]
    about: dict[str, Any]


def measure(job: Job) -> Measured:
    """Measure a cell except its cold turns, which need their own processes."""
    before = load()
    sources = open_sources(job.measurement.plan)
    pool = pool_of(job.measurement.plan, sources)
    kinds = {"size": measure_size, "waiting": measure_waiting, "cadence": measure_cadence}
    samples, about = kinds[job.cell.kind](job, sources, pool)
    return Measured(samples, about | {"load": {"before": before, "after": load()}})


def measure_size(job: Job, sources: Sources, pool: Pool) -> Measured:
    """Measure warm turns of every arm on every store in ABBA blocks, then the open loop if requested."""
    measurement, size = job.measurement, int(job.cell.value or 0)
    asked, plan = measurement.asked, measurement.plan
    about: dict[str, Any] = {"memories": size, "real": min(size, len(pool.real)), "stores": {}}
    loaded_stores = [_build(job, sources, pool, kind, size, about["stores"]) for kind in asked.stores]
    questions = questions_of(plan, sources, asked.warm_up + asked.turns)
    embed = embedding_by(sources.embedder) if measurement.embeds else None
    exact = [loaded for loaded in loaded_stores if loaded.kind == "exact"]
    with opened(loaded_stores, plan) as subjects, opened(exact, plan, sharing=True) as together:
        about["alone"] = list(dict.fromkeys(subject.seat.name for subject in subjects if not subject.seat.shared))
        _expect(subjects + together[:1], questions)
        samples, chosen = [], {subject.name: list[tuple[str, ...]]() for subject in subjects}
        for turn, position, subject, answer in _interleaved(subjects, questions, embed):
            if position == 0 and turn % 100 == 0:
                job.announce(f"{size} memories: turn {turn} of {len(questions)}, {len(subjects)} arms each")
            spent = None
            if together and position == len(subjects) - 1:
                spent = ask_together(exact[0], [subject.seat for subject in together], questions[turn])
            if turn < asked.warm_up:
                continue
            if spent is not None:
                samples.append(Sample("shared", "exact", "", size, turn - asked.warm_up, 0, RECALL, spent))
            samples += _sampled("warm", subject, size, turn - asked.warm_up, position, answer)
            chosen[subject.name].append(tuple(item.id for item in answer.recall.items))
        about["resident"] = resident()
    about["agree"] = _agreement(chosen, asked.stores)
    if asked.rate is not None:
        with opened(loaded_stores, plan) as subjects:
            samples += _open_loop(subjects, questions[asked.warm_up :], asked.rate, size, embed)
    for loaded in loaded_stores:
        if asked.index and isinstance(loaded.store, LanceStore):
            about["index_recall"] = _index_recall(loaded.store, questions[:COMPARED])
    if asked.cold and "lancedb" in asked.stores:
        with (job.folder / MEMORIES).open("wb") as file:
            pickle.dump(loaded_stores[0].memories, file)
    return Measured(samples, about)


def measure_waiting(job: Job, sources: Sources, pool: Pool) -> Measured:
    """Measure turns on a compacted table plus rows appended one by one, then the same turns after compaction.

    An empty table has no index until it is compacted, as in the public plugin, which never builds one.
    """
    asked, count = job.measurement.asked, int(job.cell.value or 0)
    loaded = _growing(job, sources, pool, None)
    samples = [
        Sample("append", "lancedb", "", asked.base, number, 0, "append", spent, appended=number + 1, waiting=number + 1)
        for number, (spent, _) in enumerate(_append(loaded, pool, asked.base, count))
    ]
    questions = questions_of(job.measurement.plan, sources, WAITING_TURNS + 2)
    chosen: dict[str, list[tuple[str, ...]]] = {}
    for part in ("waiting", "compacted"):
        chosen[part] = []
        with opened([loaded], job.measurement.plan, sharing=True) as subjects:
            for turn, position, subject, answer in _interleaved(subjects, questions):
                chosen[part].append(tuple(item.id for item in answer.recall.items))
                if turn >= 2:
                    samples += _sampled(part, subject, asked.base, turn - 2, position, answer, count, count)
        if part == "waiting":
            folder = size_of(job.folder)
            started = time.perf_counter_ns()
            _store(loaded).compact()
            compacting = time.perf_counter_ns() - started
    differ = sum(before != after for before, after in zip(chosen["waiting"], chosen["compacted"], strict=True))
    about = {
        "memories": asked.base,
        "waiting": count,
        "compact_ns": compacting if count else None,
        "bytes": {"waiting": folder, "compacted": size_of(job.folder)},
        "changed": {"turns": differ, "of": len(chosen["waiting"])},
    }
    return Measured(samples, about)


def measure_cadence(job: Job, sources: Sources, pool: Pool) -> Measured:
    """Measure one append and one recall of every arm per turn, compacting the table after every ``cadence`` rows."""
    asked, cadence = job.measurement.asked, job.cell.value
    loaded = _growing(job, sources, pool, cadence)
    questions = questions_of(job.measurement.plan, sources, asked.appends)
    samples: list[Sample] = []
    with opened([loaded], job.measurement.plan, sharing=True) as subjects:
        for turn, (spent, waiting) in enumerate(_append(loaded, pool, asked.base, asked.appends)):
            fields = ("append", "lancedb", "", asked.base, turn, 0, "append", spent)
            samples.append(Sample(*fields, appended=turn + 1, waiting=waiting))
            for subject in subjects:
                feed(subject.seat, loaded.memories[-1:])
            order = subjects if turn % 2 == 0 else subjects[::-1]
            for position, subject in enumerate(order):
                answer = ask(subject, questions[turn])
                samples += _sampled("cadence", subject, asked.base, turn, position, answer, turn + 1, waiting)
    about = {"memories": asked.base, "compact_every": cadence, "appends": asked.appends, "bytes": size_of(job.folder)}
    return Measured(samples, about)


def measure_cold(job: Job, arm: int, turn: int) -> Measured:
    """Measure the first turn of an arm in a fresh process: import, open the table, and recall."""
    plan, size = job.measurement.plan, int(job.cell.value or 0)
    sources = open_sources(plan)
    retrieval = retrieval_of(plan)
    question, *after = questions_of(plan, sources, job.measurement.asked.cold + AFTER_COLD)[turn:][: 1 + AFTER_COLD]
    with (job.folder / MEMORIES).open("rb") as file:
        memories = pickle.load(file)  # noqa: S301 - a file written by this run
    tools = tools_over(plan, sources, "lancedb")
    rows, seat = tools.rows.of(memories), seated(plan, arm, tools, {memory.key for memory in memories})
    feed(seat, memories)
    bare = resident()
    started = time.perf_counter_ns()
    import_lancedb()
    imported = time.perf_counter_ns()
    store = LanceStore(
        sources.vectors.dimension,
        retrieval.text,
        job.folder / "lancedb",
        None,
        vector_index=job.measurement.asked.index,
        reopen=True,
    )
    ready = time.perf_counter_ns()
    store.know(rows)
    loaded = LoadedStore("lancedb", store, tools)
    loaded.note(memories)
    with closing(seat):
        subject = Subject(loaded, seat)
        samples = _sampled("cold", subject, size, turn, 0, ask(subject, question))
        samples += [
            samples[0]._replace(stage=stage, ns=spent)
            for stage, spent in (("import", imported - started), ("open", ready - imported))
        ]
        first = resident()
        for later_question in after:
            ask(subject, later_question)
        return Measured(samples, {"resident": {"rows": bare, "first": first, "warm": resident()}})


def _build(job: Job, sources: Sources, pool: Pool, kind: str, size: int, about: dict[str, Any]) -> LoadedStore:
    plan = job.measurement.plan
    retrieval, tools = retrieval_of(plan), tools_over(plan, sources, kind, pool, size)
    job.announce(f"{size} memories: building the {kind} store")
    before = resident()
    words = None
    if kind == "lancedb":
        loaded = LoadedStore(kind, _lance(job, pool, None, job.folder / kind), tools)
    else:
        words = PoolWords(pool, retrieval.text)
        loaded = LoadedStore(kind, make_store(kind, sources.vectors.dimension, retrieval.text), tools)
    started = time.perf_counter_ns()
    loaded.fill(pool, 0, size, words)
    filled = time.perf_counter_ns()
    if isinstance(loaded.store, LanceStore):
        loaded.store.compact()
    about[kind] = {
        "fill_ns": filled - started,
        "index_ns": time.perf_counter_ns() - filled,
        "bytes": size_of(job.folder / kind) if kind == "lancedb" else None,
        "resident": {"before": before, "after": resident()},
    }
    return loaded


def _growing(job: Job, sources: Sources, pool: Pool, cadence: int | None) -> LoadedStore:
    """Return a compacted table of the first memories, to which more will be appended under a cadence."""
    job.announce(f"{job.cell.kind} {job.cell.value or 0 if job.cell.kind == 'waiting' else job.cell.value or 'never'}")
    base = job.measurement.asked.base
    tools = tools_over(job.measurement.plan, sources, "lancedb", pool, base)
    loaded = LoadedStore("lancedb", _lance(job, pool, None, job.folder / "lancedb"), tools)
    loaded.fill(pool, 0, base)
    store = _store(loaded)
    store.compact()
    store.compact_every = cadence
    return loaded


def _lance(job: Job, pool: Pool, cadence: int | None, folder: Path) -> LanceStore:
    return LanceStore(
        pool.dimension,
        retrieval_of(job.measurement.plan).text,
        folder,
        cadence,
        vector_index=job.measurement.asked.index,
    )


def _store(loaded: LoadedStore) -> LanceStore:
    assert isinstance(loaded.store, LanceStore)  # noqa: S101 - only LanceDB tables grow
    return loaded.store


def _append(loaded: LoadedStore, pool: Pool, start: int, count: int) -> Any:
    """Append memories of the pool one by one; yield the nanoseconds of each, and the number of uncompacted rows."""
    store = _store(loaded)
    ready: list[tuple[Any, np.ndarray]] = [
        (memory, vectors[row : row + 1])
        for memories, vectors in pool.parts(start, start + count)
        for row, memory in enumerate(memories)
    ]
    for memory, vector in ready:
        rows = loaded.tools.rows.of([memory])
        started = time.perf_counter_ns()
        store.add(rows, vector, [[]])
        spent = time.perf_counter_ns() - started
        loaded.note([memory])
        yield spent, store.waiting


def _expect(subjects: Sequence[Subject], questions: Sequence[Question]) -> None:
    """Announce the queries to each store as a replay does: every question once per arm that searches the store."""
    import numpy as np

    for loaded in {id(subject.loaded): subject.loaded for subject in subjects}.values():
        times = sum(subject.loaded is loaded and subject.seat.shared is not None for subject in subjects)
        vectors = [
            question.query.vector for question in questions for _ in range(times) if question.query.vector is not None
        ]
        loaded.store.expect(np.asarray(vectors, np.float32))


def _interleaved(subjects: Sequence[Subject], questions: Sequence[Question], embed: Embed | None = None) -> Any:
    """Yield turn, position in its order, subject and answer."""
    for turn, order in abba(subjects, len(questions)):
        for position, subject in enumerate(order):
            yield turn, position, subject, ask(subject, questions[turn], embed)


def _sampled(
    part: str,
    subject: Subject,
    memories: int,
    turn: int,
    position: int,
    answer: TimedRecall,
    appended: int = 0,
    waiting: int = 0,
) -> list[Sample]:
    store, arm = subject.name
    return [
        Sample(part, store, arm, memories, turn, position, stage, spent, answer.passed_over, appended, waiting)
        for stage, spent in answer.timings.items()
    ]


def _open_loop(
    subjects: Sequence[Subject], questions: Sequence[Question], rate: float, memories: int, embed: Embed | None
) -> list[Sample]:
    samples: list[Sample] = []
    passed: dict[int, bool] = {}
    for subject, turns in stretches(subjects, len(questions)):

        def serve(turn: int, subject: Subject = subject) -> None:
            passed[turn] = ask(subject, questions[turn], embed).passed_over

        for turn, served in zip(turns, open_loop(Clock(), rate, turns, serve), strict=True):
            store, arm = subject.name
            stages = ((TURN if embed else RECALL, served.latency), ("late", served.started - served.intended))
            samples += [
                Sample("open", store, arm, memories, turn, 0, stage, spent, passed[turn]) for stage, spent in stages
            ]
    return samples


def _agreement(chosen: dict[tuple[str, str], list[tuple[str, ...]]], stores: Sequence[str]) -> dict[str, int] | None:
    """Return in how many turns all stores gave an arm the same items."""
    if len(stores) < 2:
        return None
    arms = dict.fromkeys(arm for _, arm in chosen)
    pairs = [turn for arm in arms for turn in zip(*(chosen[store, arm] for store in stores), strict=True)]
    return {"turns": sum(len(set(pair)) == 1 for pair in pairs), "of": len(pairs)}


def _index_recall(store: LanceStore, questions: Sequence[Question]) -> float | None:
    """Return the recall of the vector index against exact search, over all tiers together and each alone."""
    index, found, expected = store.vector_index, 0, 0
    filters = [
        Filter(),
        *(Filter(None, (label,)) for label in dict.fromkeys(row.importance_label for row in store.rows)),
    ]
    for question in questions:
        for where in filters:
            near = {hit.row for hit in store.search_vectors(question.query, where, HITS)}
            store.vector_index = None
            exact = {hit.row for hit in store.search_vectors(question.query, where, HITS)}
            store.vector_index = index
            found, expected = found + len(near & exact), expected + len(exact)
    return found / expected if expected else None
