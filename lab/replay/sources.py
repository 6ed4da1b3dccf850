"""What a conversation is replayed with besides its recording: vectors, words, and what arms prepare.

The caches hold them for all conversations; a task is handed those of its own, so that whoever works on it needs no
cache, and has the vectors that this machine computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.embedding.embedder import DOCUMENT, QUERY, Embedder, Role, roles_of
from lab.embedding.stored import StoredVectors
from lab.embedding.vectors import AGREE, Vectors
from lab.errors import CannotWrite, UnusableInput
from lab.recordings.model import Recording
from lab.replay.loop import Play
from lab.replay.plan import Plan
from lab.retrieval.clamp import Clamp
from lab.retrieval.query_context import Retrieval
from lab.retrieval.retrievers import StoreRetriever, VectorsOf, embedded_text, make_store
from lab.retrieval.tokens import TextSettings, Words, words_under
from lab.systems.contract import Prepares
from lab.systems.kit import Search, Tools, Workshop

if TYPE_CHECKING:
    import numpy as np

Announce = Callable[[str], None]
# Stored texts on which the embedder must agree with the vectors of the store.
AGREEING = 5


@dataclass(frozen=True, slots=True)
class Sources:
    """Vectors and words of texts, what arms prepared, by name, and the vectors that a store held, where used."""

    embedder: Embedder
    vectors: VectorsOf
    words: dict[TextSettings, Words]
    prepared: dict[str, bytes]
    stored: StoredVectors | None = None

    def retriever(self, retrieval: Retrieval, store: str) -> StoreRetriever:
        """An empty store of the kind ``store``, ready to be fed and asked."""
        words = self.words.get(retrieval.text) or self.words.setdefault(retrieval.text, words_under(retrieval.text))
        return StoreRetriever(
            make_store(store, self.vectors.dimension, retrieval.text),
            self.vectors,
            words,
            retrieval.clamp,
            as_stored=retrieval.text.lane == "scan",
            stored=self.stored,
        )


def open_sources(plan: Plan, announce: Announce = lambda _: None) -> Sources:
    """Open the caches that a plan reads, and let its arms prepare; ``announce`` hears what these have to say."""
    vectors = Vectors(plan.embedder)
    words = {settings: words_under(settings) for settings in dict.fromkeys(one.text for one in plan.retrievals())}
    workshop = Workshop(plan.embedder, vectors, announce)
    made = {arm.name: arm.prepare(workshop) for arm in plan.arms if isinstance(arm, Prepares)}
    prepared = {name: data for name, data in made.items() if data is not None}
    return Sources(plan.embedder, vectors, words, prepared, plan.vectors)


def tools_of(
    plan: Plan, recording: Recording, sources: Sources, keeping: Callable[[Retrieval], Search] | None = None
) -> Tools:
    """The tools of one conversation; ``keeping`` makes searches that may answer from what is kept."""

    def live(retrieval: Retrieval) -> StoreRetriever:
        return sources.retriever(retrieval, plan.asked.store)

    return Tools(
        recording.conversation,
        sources.embedder,
        sources.vectors,
        keeping or live,
        live,
        plan.asked.seed,
        plan.scoping,
        sources.prepared,
    )


def play_of(plan: Plan, recording: Recording, tools: Tools) -> Play:
    """What the loop needs to replay one conversation."""
    return Play(
        recording, plan.memories_of(recording), plan.recall_points_of(recording), tools, plan.source, plan.faults
    )


def prepare(plan: Plan, recordings: Sequence[Recording], sources: Sources, announce: Announce) -> int:
    """Embed and tokenise every text that the recordings need; return how many texts were embedded."""
    texts = [text for recording in recordings for text in texts_of(plan, recording)]
    try:
        if sources.stored and recordings:
            _require_agreement(plan, recordings[0], sources.stored, sources.vectors)
        embedded = 0
        for role in roles_of(sources.embedder):
            wanted = [text for recording in recordings for text in _embedded_of(plan, recording)[role]]
            embedded += sources.vectors.prepare(list(dict.fromkeys(wanted)), announce, role)
        for words in sources.words.values():
            words.prepare(texts)
    except CannotWrite as error:
        raise CannotWrite(f"{error}; LAB_CACHE_DIR names another folder for the cache") from error
    return embedded


def texts_of(plan: Plan, recording: Recording) -> list[str]:
    """Everything that is searched, or searched for, in one conversation."""
    return _kept_of(plan, recording) + _asked_of(plan, recording)


def _asked_of(plan: Plan, recording: Recording) -> list[str]:
    return [point.text for point in plan.recall_points_of(recording)]


def _kept_of(plan: Plan, recording: Recording) -> list[str]:
    """What is searched: the memories, and the turns where systems capture, which mostly keep what was said."""
    turns = recording.turns if plan.source == "captured" else ()
    return [memory.index_text for memory in recording.memories] + [
        turn.index_text or turn.said or turn.text for turn in turns
    ]


def _embedded_of(plan: Plan, recording: Recording) -> dict[Role, list[str]]:
    """The texts of a conversation as they are embedded, each once, by role.

    Under ``document`` alone where both roles have the same vectors. Documents are searched with the whole prompt.
    """
    stored = plan.vectors
    known = {one.index_text for one in recording.memories if stored is not None and one.key in stored}
    kept = [text for text in _kept_of(plan, recording) if text not in known]
    queries = _asked_of(plan, recording)
    limits = dict.fromkeys(one.clamp for one in plan.retrievals()) or {Clamp(): None}
    whole = queries if any(info.inputs for info in plan.infos) else []

    def clamped(texts: Sequence[str]) -> list[str]:
        return [embedded_text(text, limit) for limit in limits for text in texts]

    if len(roles_of(plan.embedder)) == 1:
        return {DOCUMENT: list(dict.fromkeys([*clamped([*kept, *queries]), *whole]))}
    return {
        DOCUMENT: list(dict.fromkeys(clamped(kept))),
        QUERY: list(dict.fromkeys([*clamped(queries), *whole])),
    }


def _require_agreement(plan: Plan, recording: Recording, stored: StoredVectors, vectors: VectorsOf) -> None:
    """Refuse stored vectors that the embedder did not make: queries would be compared with another model's.

    It must have their dimension, and a cosine of :data:`lab.embedding.vectors.AGREE` on the first :data:`AGREEING`
    stored texts by key, each text once, rows without an embedding left out.
    """
    import numpy as np

    texts = {memory.key: memory.index_text for memory in recording.memories if memory.key in stored}
    by_text: dict[str, str] = {}
    for key in sorted(texts):
        by_text.setdefault(texts[key], key)
    chosen = list(by_text.items())[:AGREEING]
    limits = next((one.clamp for one in plan.retrievals()), Clamp())
    asked = [embedded_text(text, limits) for text, _ in chosen]
    vectors.prepare(asked)
    name = plan.embedder.identity()["model"]
    remedy = "name the embedder that made them with --embedder, or replay without --vectors stored"
    if vectors.dimension != stored.dimension:
        raise UnusableInput(
            f"{stored.where}: its vectors have {stored.dimension} numbers, and those of {name} {vectors.dimension}; "
            f"{remedy}"
        )
    kept = stored.of([key for _, key in chosen])
    cosines = (kept * vectors.of(asked)).sum(axis=1) / np.linalg.norm(kept, axis=1)
    differing = int((~(cosines >= AGREE)).sum())
    if differing:
        raise UnusableInput(
            f"{stored.where}: {differing} of {len(chosen)} stored vectors are not those of {name} (least cosine "
            f"{cosines.min():.3f}, expected {AGREE}); {remedy}"
        )


class HandedVectors:
    """The vectors of some texts. Another text's come from the cache of wherever it is asked for.

    That is what recall itself writes: the text of a digest is known only when it is made.
    """

    def __init__(self, embedder: Embedder, texts: Mapping[Role, Sequence[str]], source: VectorsOf) -> None:
        """``texts`` by role; a role that is missing has the vectors of ``document``."""
        import numpy as np

        self._embedder = embedder
        self._rows: dict[Role, dict[str, int]] = {}
        parts: list[np.ndarray] = []
        count = 0
        for role, some in texts.items():
            self._rows[role] = {text: row for row, text in enumerate(some, count)}
            count += len(some)
            if some:
                parts.append(source.of(some, role))
        self._matrix = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
        self._source: VectorsOf | None = source

    def __getstate__(self) -> dict[str, Any]:
        """What travels: the vectors, and not the cache that they came from."""
        return {**self.__dict__, "_source": None}

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return self._matrix.shape[1] or self._others().dimension

    def prepare(self, texts: Sequence[str], announce: Announce | None = None, role: Role = DOCUMENT) -> int:
        """Make ready what was not handed over; return how many texts were embedded for it."""
        known = self._known(role)
        others = [text for text in texts if text not in known]
        return self._others().prepare(others, announce, role) if others else 0

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """float32 ``[len(texts), dimension]``."""
        import numpy as np

        known = self._known(role)
        rows = [known.get(text, -1) for text in texts]
        others = [text for text, row in zip(texts, rows, strict=True) if row < 0]
        found: np.ndarray = (
            self._matrix[rows] if len(self._matrix) else np.empty((len(texts), self.dimension), np.float32)
        )
        if others:
            found[[row < 0 for row in rows]] = self._others().of(others, role)
        return found

    def _known(self, role: Role) -> dict[str, int]:
        return self._rows[role if role in self._rows else DOCUMENT]

    def _others(self) -> VectorsOf:
        if self._source is None:
            self._source = Vectors(self._embedder)
        return self._source


class HandedWords:
    """The words of some texts. Another text's come from the cache of wherever it is asked for."""

    def __init__(self, settings: TextSettings, texts: Sequence[str], source: Words) -> None:
        self._settings = settings
        self._words = dict(zip(texts, source.of(texts), strict=True))
        self._source: Words | None = source

    def __getstate__(self) -> dict[str, Any]:
        """What travels: the words, and not the cache that they came from."""
        return {**self.__dict__, "_source": None}

    def prepare(self, texts: Sequence[str]) -> int:
        """Make ready what was not handed over; return how many texts were new."""
        others = [text for text in texts if text not in self._words]
        return self._others().prepare(others) if others else 0

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Words of each text, in its order."""
        return [self._words[text] if text in self._words else self._others().of([text])[0] for text in texts]

    def _others(self) -> Words:
        if self._source is None:
            self._source = words_under(self._settings)
        return self._source


@dataclass(frozen=True, slots=True)
class Handed:
    """The sources of one conversation, in a form that can be sent anywhere."""

    embedder: Embedder
    vectors: HandedVectors
    words: dict[TextSettings, HandedWords]
    prepared: dict[str, bytes]
    stored: StoredVectors | None = None

    def open(self) -> Sources:
        """The sources, ready to be asked."""
        return Sources(self.embedder, self.vectors, dict(self.words), self.prepared, self.stored)


def hand(plan: Plan, recording: Recording, sources: Sources, *, texts: bool = True) -> Handed:
    """What one conversation needs of the sources, all of them prepared. Without ``texts``, what arms prepared alone."""
    own = list(dict.fromkeys(texts_of(plan, recording))) if texts else []
    return Handed(
        sources.embedder,
        HandedVectors(sources.embedder, _embedded_of(plan, recording) if texts else {DOCUMENT: []}, sources.vectors),
        {settings: HandedWords(settings, own, words) for settings, words in sources.words.items()},
        sources.prepared,
        sources.stored if texts else None,
    )
