"""What a replay needs besides the recording: vectors, words, and the data that arms prepare.

Caches hold these for all conversations. A task carries those of its conversation, so that a worker needs no cache; one
that runs in this process reads them here, and conversations over one store share its index.

Systems may embed more than memories and prompts. A rehearsal finds these texts before a replay, so that they are
embedded in bulk: it shows a conversation to the arms that offer one (:class:`lab.systems.contract.Rehearses`) as the
turn loop does, without recalls.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lab.base.errors import CannotWrite, UnusableInput
from lab.base.utf16 import WHITESPACE
from lab.embedding.embedder import DOCUMENT, QUERY, Embedder, Role, VectorsOf, roles_of
from lab.embedding.endpoint import TextRefused
from lab.embedding.vectors import AGREE, StoredVectors, Vectors
from lab.recordings.model import Recording
from lab.replay.loop import Play, ask_of
from lab.replay.plan import Plan
from lab.replay.timeline import timeline
from lab.retrieval.clamp import Clamp
from lab.retrieval.contract import Store
from lab.retrieval.retrievers import Retrieval, StoreRetriever, embedded_text, make_store, query_text
from lab.retrieval.tokens import TextSettings, Words, words_under
from lab.systems.contract import Arm, ArmInfo, Prepares, Rehearses, Rephrases, Step
from lab.systems.kit import Kit, Made, Rows, Search, Tools, Workshop
from lab.systems.openclaw.capture.secrets import holds_secret

if TYPE_CHECKING:
    import numpy as np


def rehearsed(play: Play, arms: Sequence[Arm], infos: Sequence[ArmInfo]) -> tuple[str, ...]:
    """Return the distinct texts that the arms will embed as documents in one conversation, in order."""
    captured = play.source == "captured"
    texts: dict[str, None] = {}
    done: set[Hashable] = set()
    for arm, info in zip(arms, infos, strict=True):
        key = arm.rehearsal_key if isinstance(arm, Rehearses) else None
        if key is None or (key, info.writes) in done or not isinstance(arm, Rehearses):
            continue
        done.add((key, info.writes))
        # Systems of two rehearsals share nothing, because the first is closed.
        with closing(Kit(replace(play.tools, shared={}), info.name, captures=captured and info.writes)) as kit:
            texts |= dict.fromkeys(arm.rehearse(kit, _steps(play, fed=not kit.captures)))
    return tuple(texts)


def _steps(play: Play, *, fed: bool) -> Iterator[Step]:
    """Yield what a system is shown; only one that is ``fed`` receives memories."""
    scoping, every_turn = play.tools.scoping, play.source == "captured"
    for entry in timeline(play.recording, play.memories, play.recall_points, every_turn=every_turn):
        play.tools.clock.now_ms = entry.now_ms
        born, gone = (entry.born, [memory.key for memory in entry.gone]) if fed else ((), ())
        asks = [ask_of(point, scoping, play.faults) for point in entry.points]
        yield Step(born, gone, asks, entry.turn)


Announce = Callable[[str], None]
# Stored texts whose vectors are compared with the embedder's.
AGREEING = 5


class Shared:
    """What conversations over one store share: its rows, and a search of all of them for each retrieval.

    Each conversation takes the rows that it sees from there (:meth:`lab.retrieval.exact.ExactStore.take`). Nothing is
    shared before the texts of several are prepared.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._prepared: Sequence[Recording] = ()
        self._searches: dict[Retrieval, StoreRetriever] = {}

    def cover(self, prepared: Sequence[Recording]) -> None:
        """Share what these conversations see, unless others are covered."""
        if self._plan.library.stored and len(prepared) > 1:
            self._prepared = self._prepared or prepared

    @property
    def made(self) -> Made:
        """The memories that the prepared conversation with the last turn sees, in its order, with their rows."""
        return self._made if self._prepared else {}

    @cached_property
    def _made(self) -> Made:
        last = max(self._prepared, key=lambda recording: recording.turns[-1].time_ms)
        end = len(last.turns)
        memories = [memory for memory in self._plan.memories_of(last) if memory.visible_from <= end]
        return {memory.key: (memory, row) for memory, row in zip(memories, Rows().of(memories), strict=True)}

    def base(self, retrieval: Retrieval, make: Callable[[], StoreRetriever]) -> Store:
        """Return a store of all rows; ``make`` returns an empty search."""
        search = self._searches.get(retrieval)
        if search is None:
            search = self._searches[retrieval] = make()
            search.add([row for _, row in self.made.values()])
        return search.store


@dataclass(frozen=True, slots=True)
class Sources:
    """Vectors and words of texts, data that arms prepared (by name), and the vectors of a store, if used.

    ``shared`` is None in a task for another process.
    """

    embedder: Embedder
    vectors: VectorsOf
    words: dict[TextSettings, Words]
    prepared: dict[str, bytes]
    stored: StoredVectors | None = None
    # What rehearsals found, by conversation.
    rehearsed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shared: Shared | None = None

    def open(self) -> Sources:
        """Return these sources, for a task in their process."""
        return self

    def retriever(self, retrieval: Retrieval, store: str) -> StoreRetriever:
        """Return a retriever over an empty store of the kind ``store``."""
        if self.shared is None or not self.shared.made or store != "exact":
            return self._retriever(retrieval, store)
        base = self.shared.base(retrieval, lambda: self._retriever(retrieval, store))
        return self._retriever(retrieval, store, base)

    def _retriever(self, retrieval: Retrieval, store: str, base: Store | None = None) -> StoreRetriever:
        words = self.words.get(retrieval.text) or self.words.setdefault(
            retrieval.text, words_under(retrieval.text, holds_secret)
        )
        return StoreRetriever(
            make_store(store, self.vectors.dimension, retrieval.text, base),
            self.vectors,
            words,
            retrieval.clamp,
            as_stored=retrieval.text.lane == "scan",
            stored=self.stored,
        )


def open_sources(
    plan: Plan,
    announce: Announce = lambda _: None,
    opened: Sources | None = None,
    embedding: Embedder | None = None,
) -> Sources:
    """Open the caches that a plan reads, and let its arms prepare; ``announce`` receives progress messages.

    ``opened`` are sources of a plan with the same embedder, whose caches are used again: a cache of many files takes
    over a second to open. ``embedding`` computes missing vectors in place of the plan's embedder, and equal ones.
    """
    vectors = opened.vectors if opened else Vectors(embedding or plan.embedder)
    words = opened.words if opened else {}
    for settings in dict.fromkeys(retrieval.text for retrieval in plan.retrievals()):
        if settings not in words:
            words[settings] = words_under(settings, holds_secret)
    workshop = Workshop(plan.embedder, vectors, announce)
    made = {arm.name: arm.prepare(workshop) for arm in plan.arms if isinstance(arm, Prepares)}
    prepared = {name: data for name, data in made.items() if data is not None}
    return Sources(plan.embedder, vectors, words, prepared, plan.vectors, shared=Shared(plan))


def tools_of(
    plan: Plan, recording: Recording, sources: Sources, searches: Callable[[Retrieval], Search] | None = None
) -> Tools:
    """Return the tools of one conversation; ``searches`` returns searches that may use cached candidates."""

    def live(retrieval: Retrieval) -> StoreRetriever:
        return sources.retriever(retrieval, plan.request.store)

    return Tools(
        recording.conversation,
        sources.embedder,
        sources.vectors,
        searches or live,
        live,
        plan.request.seed,
        plan.scoping,
        sources.prepared,
        Rows(made=sources.shared.made if sources.shared else None),
        replies=any(turn.role == "assistant" for turn in recording.turns),
        others=recording.others,
    )


def play_of(plan: Plan, recording: Recording, tools: Tools) -> Play:
    """Return what the loop needs to replay one conversation."""
    return Play(
        recording, plan.memories_of(recording), plan.recall_points_of(recording), tools, plan.source, plan.faults
    )


def prepare(plan: Plan, recordings: Sequence[Recording], sources: Sources, announce: Announce) -> int:
    """Embed and tokenise every text that the recordings need; return the number of texts embedded."""
    texts = [text for recording in recordings for text in texts_of(plan, recording)]
    try:
        if sources.stored and recordings:
            _require_agreement(plan, recordings[0], sources.stored, sources.vectors)
        embedded = 0
        for role in roles_of(sources.embedder):
            to_embed = [text for recording in recordings for text in _embedded_of(plan, recording, sources)[role]]
            embedded += sources.vectors.prepare(list(dict.fromkeys(to_embed)), announce, role)
        for words in sources.words.values():
            words.prepare(texts)
        if sources.shared:
            sources.shared.cover(recordings)
    except CannotWrite as error:
        raise CannotWrite(f"{error}; set LAB_CACHE_DIR to another folder for the cache") from error
    except TextRefused as error:
        raise TextRefused(f"{error} ({_place_of(plan, recordings, error.text)})", error.text) from error
    return embedded


def _place_of(plan: Plan, recordings: Sequence[Recording], text: str) -> str:
    """Return where a text that is embedded comes from: the key of its memory or of its turn."""
    limits = [retrieval.clamp for retrieval in plan.retrievals()] or [Clamp()]
    texts = [("memory", memory.key, memory.index_text) for each in recordings for memory in each.memories]
    texts += [("turn", point.key, point.text) for each in recordings for point in plan.recall_points_of(each)]
    texts += [
        ("turn", turn.key, turn.index_text or turn.said or turn.text) for each in recordings for turn in each.turns
    ]
    for kind, key, whole in texts:
        if text == whole or any(text in (embedded_text(whole, limit), query_text(whole, limit)) for limit in limits):
            return f"{kind} {key}"
    return "a text of a system"


def prepared_sources(plan: Plan, recordings: Sequence[Recording] | None = None) -> Sources:
    """Open the sources of a plan, and :func:`prepare` some recordings, by default all of the plan."""
    sources = open_sources(plan)
    prepare(plan, plan.recordings if recordings is None else recordings, sources, lambda _: None)
    return sources


def texts_of(plan: Plan, recording: Recording) -> list[str]:
    """Return all documents and queries of one conversation."""
    return _documents_of(plan, recording) + _queries_of(plan, recording)


def _queries_of(plan: Plan, recording: Recording) -> list[str]:
    return [point.text for point in plan.recall_points_of(recording)]


def _documents_of(plan: Plan, recording: Recording, stored: Container[str] = ()) -> list[str]:
    """Return the texts of memories, and of turns if systems capture, because captures mostly repeat turns.

    Memories whose keys are ``stored`` are left out: another memory with the same text may have no vector.
    """
    turns = recording.turns if plan.source == "captured" else ()
    others = (memory for memory in recording.others if memory.embedded)
    return [memory.index_text for memory in (*recording.memories, *others) if memory.key not in stored] + [
        turn.index_text or turn.said or turn.text for turn in turns
    ]


def _embedded_of(plan: Plan, recording: Recording, sources: Sources) -> dict[Role, list[str]]:
    """Return the distinct texts of a conversation as they are embedded, by role.

    All are under ``document`` if both roles share vectors. Documents of the docs cold lane are searched with the
    unclamped prompt. White space around prompts is trimmed (E-31).
    """
    documents = _documents_of(plan, recording, plan.vectors or ())
    prompts = _queries_of(plan, recording)
    limits = dict.fromkeys(retrieval.clamp for retrieval in plan.retrievals()) or {Clamp(): None}
    rephrased = [
        text for arm in plan.arms if isinstance(arm, Rephrases) for prompt in prompts if (text := arm.query_for(prompt))
    ]
    unclamped = (prompt.strip(WHITESPACE) for prompt in prompts if any(info.inputs for info in plan.infos))
    own = _rehearsed_of(plan, recording, sources)

    def clamped(texts: Sequence[str]) -> list[str]:
        return [embedded_text(text, limit) for limit in limits for text in texts]

    queries = [query_text(prompt, limit) for limit in limits for prompt in prompts]
    queries += [*clamped(rephrased), *unclamped]
    if len(roles_of(plan.embedder)) == 1:
        return {DOCUMENT: list(dict.fromkeys([*clamped(documents), *queries, *own]))}
    return {DOCUMENT: list(dict.fromkeys([*clamped(documents), *own])), QUERY: list(dict.fromkeys(queries))}


def _rehearsed_of(plan: Plan, recording: Recording, sources: Sources) -> tuple[str, ...]:
    """Return the texts of their own that systems will embed, found once for each conversation."""
    name = recording.conversation
    if not any(isinstance(arm, Rehearses) for arm in plan.arms):
        return ()
    if name not in sources.rehearsed:
        play = play_of(plan, recording, tools_of(plan, recording, sources))
        sources.rehearsed[name] = rehearsed(play, plan.arms, plan.infos)
    return sources.rehearsed[name]


def _require_agreement(plan: Plan, recording: Recording, stored: StoredVectors, vectors: VectorsOf) -> None:
    """Raise :class:`UnusableInput` for stored vectors of another embedder, to which queries are not comparable.

    The dimensions must be equal, and the cosine at least :data:`lab.embedding.vectors.AGREE` on each of the first
    :data:`AGREEING` distinct stored texts, ordered by key, of rows with an embedding.
    """
    import numpy as np

    texts = {memory.key: memory.index_text for memory in recording.memories if memory.key in stored}
    by_text: dict[str, str] = {}
    for key in sorted(texts):
        by_text.setdefault(texts[key], key)
    chosen = list(by_text.items())[:AGREEING]
    limits = next((retrieval.clamp for retrieval in plan.retrievals()), Clamp())
    clamped = [embedded_text(text, limits) for text, _ in chosen]
    vectors.prepare(clamped)
    name = plan.embedder.identity()["model"]
    remedy = "name the embedder that made them with --embedder, or replay without --vectors stored"
    if vectors.dimension != stored.dimension:
        raise UnusableInput(
            f"{stored.where}: its vectors have {stored.dimension} numbers, but those of {name} have "
            f"{vectors.dimension}; {remedy}"
        )
    expected = stored.of([key for _, key in chosen])
    cosines = (expected * vectors.of(clamped)).sum(axis=1) / np.linalg.norm(expected, axis=1)
    differing = int((~(cosines >= AGREE)).sum())
    if differing:
        raise UnusableInput(
            f"{stored.where}: {differing} of {len(chosen)} stored vectors differ from those of {name} (lowest cosine "
            f"{cosines.min():.3f}, expected {AGREE}); {remedy}"
        )


class TaskVectors:
    """The vectors of the texts of one task. Other vectors come from the cache of the worker.

    Recall itself creates other texts: that of a Working Set is known only when it is built.
    """

    def __init__(self, embedder: Embedder, texts: Mapping[Role, Sequence[str]], source: VectorsOf) -> None:
        """Take the vectors of ``texts`` from ``source``; a missing role uses the vectors of ``document``."""
        import numpy as np

        self._embedder = embedder
        self._rows: dict[Role, dict[str, int]] = {}
        parts: list[np.ndarray] = []
        count = 0
        for role, of_role in texts.items():
            self._rows[role] = {text: row for row, text in enumerate(of_role, count)}
            count += len(of_role)
            if of_role:
                parts.append(source.of(of_role, role))
        self._matrix = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
        self._source: VectorsOf | None = source

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the vectors without their cache."""
        return {**self.__dict__, "_source": None}

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._matrix.shape[1] or self._others().dimension

    def prepare(self, texts: Sequence[str], announce: Announce | None = None, role: Role = DOCUMENT) -> int:
        """Embed texts that the task does not carry; return the number of texts embedded."""
        known = self._known(role)
        others = [text for text in texts if text not in known]
        return self._others().prepare(others, announce, role) if others else 0

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return the vectors of texts, float32 ``[len(texts), dimension]``."""
        import numpy as np

        known = self._known(role)
        rows = [known.get(text, -1) for text in texts]
        others = [text for text, row in zip(texts, rows, strict=True) if row < 0]
        vectors: np.ndarray = (
            self._matrix[rows] if len(self._matrix) else np.empty((len(texts), self.dimension), np.float32)
        )
        if others:
            vectors[[row < 0 for row in rows]] = self._others().of(others, role)
        return vectors

    def _known(self, role: Role) -> dict[str, int]:
        return self._rows[role if role in self._rows else DOCUMENT]

    def _others(self) -> VectorsOf:
        if self._source is None:
            self._source = Vectors(self._embedder)
        return self._source


class TaskWords:
    """The words of the texts of one task. Words of other texts come from the cache of the worker."""

    def __init__(self, settings: TextSettings, texts: Sequence[str], source: Words) -> None:
        self._settings = settings
        self._words = dict(zip(texts, source.of(texts), strict=True))
        self._source: Words | None = source

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the words without their cache."""
        return {**self.__dict__, "_source": None}

    def prepare(self, texts: Sequence[str]) -> int:
        """Tokenise texts that the task does not carry; return the number of new texts."""
        others = [text for text in texts if text not in self._words]
        return self._others().prepare(others) if others else 0

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words of each text, in order."""
        return [self._words[text] if text in self._words else self._others().of([text])[0] for text in texts]

    def _others(self) -> Words:
        if self._source is None:
            self._source = words_under(self._settings, holds_secret)
        return self._source


@dataclass(frozen=True, slots=True)
class TaskSources:
    """The sources of one conversation in a picklable form."""

    embedder: Embedder
    vectors: TaskVectors
    words: dict[TextSettings, TaskWords]
    prepared: dict[str, bytes]
    stored: StoredVectors | None = None

    def open(self) -> Sources:
        """Return the sources, ready for use."""
        return Sources(self.embedder, self.vectors, dict(self.words), self.prepared, self.stored)


def task_sources(plan: Plan, recording: Recording, sources: Sources, *, texts: bool = True) -> TaskSources:
    """Return the prepared sources of one conversation; without ``texts``, only the data that arms prepared."""
    carried = list(dict.fromkeys(texts_of(plan, recording))) if texts else []
    return TaskSources(
        sources.embedder,
        TaskVectors(
            sources.embedder, _embedded_of(plan, recording, sources) if texts else {DOCUMENT: []}, sources.vectors
        ),
        {settings: TaskWords(settings, carried, words) for settings, words in sources.words.items()},
        sources.prepared,
        sources.stored if texts else None,
    )
