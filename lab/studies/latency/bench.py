"""The stores of a latency measurement, the arms that search them, and one timed turn.

In a timed turn an arm makes its own search, as in live use, and its prompt is embedded again, unless the embedder is on
another machine. Only :func:`ask_together` shares one search between arms.
An arm that does not search the shared store fills and searches a table of its own.

The memories of a store of any size are first those of the recordings, then resampled ones. A resampled memory has its
own id, and the label, scope, category and time of a recorded one. Half of the words of its text, chosen at random, are
replaced by words drawn from all texts, so that common words stay common; its vector gets some noise and is
renormalised. It depends only on the seed and its number, so a smaller store is a prefix of a larger one.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import CannotMeasure
from lab.embedding.embedder import DOCUMENT, QUERY, Embedder, Role, SentenceTransformerEmbedder, VectorsOf
from lab.recordings.model import Memory
from lab.replay.candidates import rows_of
from lab.replay.guarded import Given, Seat
from lab.replay.loop import ask_of
from lab.replay.plan import Plan
from lab.replay.sources import Sources
from lab.retrieval.clamp import Clamp
from lab.retrieval.contract import Query, Row, Store
from lab.retrieval.retrievers import (
    QueryContext,
    Retrieval,
    StoreRetriever,
    embedded_text,
    make_store,
    query_text,
    row_vectors,
)
from lab.retrieval.stage_timer import SEARCH
from lab.retrieval.tokens import TextSettings, words_under
from lab.systems.contract import Ask, Recall
from lab.systems.kit import Kit, Tools
from lab.systems.openclaw.memory import is_hard_rule

if TYPE_CHECKING:
    import numpy as np

# Memories per batch.
BATCH = 1_000
# Length of the noise relative to the vector; the cosine to the recorded vector is then about .97.
NOISE = 0.25
EXCHANGED = 0.5
# The stages of a turn: embedding its prompt, all other work of the arm, and both.
EMBED, RECALL, TURN = "embed", "recall", "turn"
# Embeds one text; the vector is not used.
Embed = Callable[[str], object]


class Part(NamedTuple):
    """Some memories of a pool, in order, and their float32 unit vectors ``[memories, dimension]``."""

    memories: list[Memory]
    vectors: np.ndarray


class Pool:
    """The memories from which stores are made."""

    def __init__(self, memories: Sequence[Memory], vectors: np.ndarray, seed: int) -> None:
        self.real = list(memories)
        self._vectors, self._seed = vectors, seed
        self._words = [memory.index_text.split() for memory in memories]
        self._all = [word for words in self._words for word in words] or ["-"]

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return int(self._vectors.shape[1])

    def parts(self, start: int, stop: int) -> Iterator[Part]:
        """Yield the memories from ``start`` to ``stop``, in parts."""
        import numpy as np

        recorded = min(stop, len(self.real))
        if start < recorded:
            yield Part(self.real[start:recorded], np.ascontiguousarray(self._vectors[start:recorded]))
        first = max(start, recorded)
        while first < stop:
            batch, at = divmod(first - len(self.real), BATCH)
            memories, vectors = self._resampled(batch)
            until = min(BATCH, at + stop - first)
            yield Part(memories[at:until], np.ascontiguousarray(vectors[at:until]))
            first += until - at

    def _resampled(self, batch: int) -> Part:
        import numpy as np

        key = hashlib.sha256(f"{self._seed}\nresampled {batch}".encode()).digest()
        random = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "big")))
        bases = random.integers(len(self.real), size=BATCH)
        width = self._vectors.shape[1]
        noise = random.standard_normal((BATCH, width), dtype=np.float32) * np.float32(NOISE / width**0.5)
        vectors = self._vectors[bases] + noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        memories = []
        for index, base in enumerate(bases.tolist()):
            words = list(self._words[base])
            drawn = random.integers(len(self._all), size=len(words)).tolist()
            exchanged = np.flatnonzero(random.random(len(words)) < EXCHANGED).tolist()
            for at in exchanged:
                words[at] = self._all[drawn[at]]
            if len(words) < 2 or not exchanged:
                # Without words separated by blanks, as in Chinese, the text would equal an existing one.
                words.append(self._all[int(random.integers(len(self._all)))])
            if is_hard_rule(" ".join(words)):
                # Hard rules must not multiply with the size of the store.
                words = words[1:] + words[:1]
            name, text = f"resampled/{self._seed}/{batch * BATCH + index}", " ".join(words)
            memories.append(replace(self.real[base], key=name, text=text, index_text=text, hard_rule=False))
        return Part(memories, vectors)


class PoolVectors:
    """The vectors of a pool's memories by their embedded text; vectors of other texts come from ``others``.

    A system with its own table needs them. They are computed at first use. ``queries`` are the texts whose vectors it
    took as queries.
    """

    def __init__(self, pool: Pool, size: int, others: VectorsOf, limits: Clamp) -> None:
        self._pool, self._size, self._others, self._limits = pool, size, others, limits
        self.queries: list[str] = []

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return self._pool.dimension

    @cached_property
    def _known(self) -> dict[str, np.ndarray]:
        parts = self._pool.parts(0, self._size)
        return {
            embedded_text(memory.index_text, self._limits): vector
            for memories, vectors in parts
            for memory, vector in zip(memories, vectors, strict=True)
        }

    def prepare(
        self, texts: Sequence[str], announce: Callable[[str], None] | None = None, role: Role = DOCUMENT
    ) -> int:
        """Embed texts that are not of a memory; return how many were embedded."""
        others = [text for text in texts if text not in self._known]
        return self._others.prepare(others, announce, role) if others else 0

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return vectors, float32 ``[len(texts), dimension]``."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), np.float32)
        known = self._known if role == DOCUMENT else {}
        self.queries += texts if role == QUERY else ()
        return np.stack([known[text] if text in known else self._others.of([text], role)[0] for text in texts])


class PoolWords:
    """Tokens of a pool's texts for the exact store: a resampled text has the tokens of its words in order."""

    def __init__(self, pool: Pool, settings: TextSettings) -> None:
        self._words = words_under(settings)
        recorded = [memory.index_text for memory in pool.real]
        single = list(dict.fromkeys(word for text in recorded for word in text.split()))
        self._words.prepare([*recorded, *single])
        self._recorded = dict(zip(recorded, self._words.of(recorded), strict=True))
        self._single = dict(zip(single, self._words.of(single), strict=True))

    def prepare(self, texts: Sequence[str]) -> int:
        """Tokenise texts with unknown words; return how many were new."""
        return self._words.prepare([text for text in texts if self._parts(text) is None])

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of each text."""
        known = (self._parts(text) for text in texts)
        return [
            self._words.of([text])[0] if tokens is None else tokens for text, tokens in zip(texts, known, strict=True)
        ]

    def _parts(self, text: str) -> list[str] | None:
        """Return the tokens of a text of the pool; None if it has a word that is not in the pool."""
        if text in self._recorded:
            return self._recorded[text]
        words = text.split()
        if any(word not in self._single for word in words):
            return None
        return [token for word in words for token in self._single[word]]


class Question(NamedTuple):
    """One turn: the request to an arm, the request with gold for arms that need it, and the query to the store.

    The query has its vector already; ``prompt`` is the text that is embedded again to measure how long that takes.
    """

    ask: Ask
    with_gold: Ask
    query: Query
    prompt: str


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
    """One timed turn: nanoseconds by stage, and the recall.

    ``recall`` is the whole turn but the embedding; ``embed`` and ``turn``, with it, are there if it was timed. An arm
    that took no vector of a prompt has no ``embed``.
    """

    timings: dict[str, int]
    recall: Recall

    @property
    def passed_over(self) -> bool:
        """Return whether the arm skipped the turn."""
        return self.recall.status == "skipped"


def ask(subject: Subject, question: Question, embed: Embed | None = None) -> TimedRecall:
    """Time one recall of an arm, and with ``embed`` the embedding of its prompt. Raises :class:`CannotMeasure`.

    The prompt is embedded afterwards, because a turn in which the arm did not search needs no vector.
    """
    loaded, seat = subject.loaded, subject.seat
    loaded.tools.clock.now_ms = question.ask.now_ms
    vectors = loaded.tools.vectors
    taken = vectors.queries if isinstance(vectors, PoolVectors) else []
    taken.clear()
    searched = partial(loaded.found, question.query) if seat.shared else None
    started = time.perf_counter_ns()
    found = searched() if searched else None
    ready = time.perf_counter_ns()
    recall = _answer(seat, question, found)
    ended = time.perf_counter_ns()
    timings = ({"retrieve": ready - started} if searched else {}) | recall.timings | {RECALL: ended - started}
    if embed:
        prompts = dict.fromkeys([*([question.prompt] if searched and SEARCH in recall.timings else []), *taken])
        begun = time.perf_counter_ns()
        for prompt in prompts:
            embed(prompt)
        spent = time.perf_counter_ns() - begun
        timings |= ({EMBED: spent} if prompts else {}) | {TURN: timings[RECALL] + spent}
    return TimedRecall(timings, recall)


def embedding_by(embedder: Embedder) -> Embed:
    """Return what embeds one prompt as a live system does, ready for use: a model is loaded."""
    if isinstance(embedder, SentenceTransformerEmbedder):
        embed: Embed = partial(embedder.alone, role=QUERY)
    else:
        embed = lambda text: embedder.encode([text], QUERY)  # noqa: E731 - both are one expression
    embed("What did we decide?")
    return embed


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
    prompts = [query_text(text, retrieval.clamp) for text in texts]
    vectors = sources.vectors.of(prompts, QUERY)
    tokens_of = sources.words.get(retrieval.text) or words_under(retrieval.text)
    tokens_of.prepare(texts)
    words = tokens_of.of(texts)
    questions = []
    for point, prompt, tokens, vector in zip(chosen, prompts, words, vectors, strict=True):
        plain = ask_of(point, plan.scoping, plan.faults)
        with_gold = replace(plain, grades=point.probe.grades if point.probe else {})
        questions.append(Question(plain, with_gold, Query(point.text, tokens, vector), prompt))
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
