"""Replay the script of an admission, and count what the embedder is queried for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.embedding.embedder import DOCUMENT, Embedder, Role
from lab.embedding.vectors import Vectors
from lab.replay.admission_script import MEMORIES, script
from lab.replay.loop import Answered, Play, RecallCall, Source, TurnWrites, replay
from lab.retrieval.query_context import Retrieval
from lab.retrieval.retrievers import StoreRetriever, VectorsOf, make_store
from lab.retrieval.tokens import words_under
from lab.systems.contract import Arm, ArmInfo, Prepares
from lab.systems.kit import Tools, Workshop
from lab.systems.openclaw.capture.credentials import holds_secret
from lab.systems.protocols import Proves

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Ground:
    """What arms are admitted with: the embedder, the store, the source of memories and the seed of the run."""

    embedder: Embedder
    store: str = "exact"
    source: Source = "given"
    seed: int = 0


@dataclass(slots=True)
class _Asked:
    """How many texts the embedder was queried for."""

    texts: int = 0


class _CountedVectors:
    """Vectors that count the texts they are queried for."""

    def __init__(self, vectors: VectorsOf, asked: _Asked) -> None:
        self._vectors, self._asked = vectors, asked

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._vectors.dimension

    def prepare(
        self, texts: Sequence[str], announce: Callable[[str], None] | None = None, role: Role = DOCUMENT
    ) -> int:
        """Embed what is missing. It does not count: the lab itself prepares texts that a host may never query."""
        return self._vectors.prepare(texts, announce, role)

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Count and return the vectors."""
        self._asked.texts += len(texts)
        self._vectors.prepare(texts, None, role)
        return self._vectors.of(texts, role)


class _CountedEmbedder:
    """An embedder that counts the texts it embeds."""

    def __init__(self, embedder: Embedder, asked: _Asked) -> None:
        self._embedder, self._asked = embedder, asked

    def __getattr__(self, name: str) -> Any:
        """Return what the embedder has."""
        return getattr(self._embedder, name)

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Count and embed."""
        self._asked.texts += len(texts)
        return self._embedder.encode(texts, role)


@dataclass(slots=True)
class Seen:
    """What one replay of the script showed: answers, writes, texts embedded, and the counters of the system."""

    answers: list[Answered] = field(default_factory=list)
    wrote: list[TurnWrites] = field(default_factory=list)
    embedded: int = 0
    counters: Mapping[str, Any] = field(default_factory=dict)

    def at(self, seq: int) -> Answered | None:
        """Return the answer at a recall turn."""
        return next(
            (answer for answer in self.answers if answer.point.is_recall_turn and answer.point.seq == seq), None
        )

    def of_turns(self, *, scores: bool) -> list[Any]:
        """Return what must not depend on probes: answers at recall turns, and writes."""
        answers = [
            (
                answer.point.key,
                answer.recall.status,
                answer.recall.injected,
                answer.recall.context,
                [(item.text, round(item.score, 9) if scores else 0) for item in answer.recall.items],
            )
            for answer in self.answers
            if answer.point.is_recall_turn
        ]
        kinds = ("created", "updated")
        writes = [
            (entry.turn.key, [[row.text for row in getattr(entry.writes, kind)] for kind in kinds], entry.derived)
            for entry in self.wrote
        ]
        return [answers, writes]


def play_script(arm: Arm, info: ArmInfo, ground: Ground, *, probes: bool) -> Seen:
    """Replay the script through an arm; ``probes``: each question is also posed outside of the conversation."""
    asked = _Asked()
    vectors = _CountedVectors(Vectors(ground.embedder), asked)
    embedder: Any = _CountedEmbedder(ground.embedder, asked)

    def live(retrieval: Retrieval) -> StoreRetriever:
        words = words_under(retrieval.text, holds_secret)
        words.prepare([*MEMORIES, *(turn.text for turn in scripted.recording.turns)])
        scans = retrieval.text.lane == "scan"
        store = make_store(ground.store, vectors.dimension, retrieval.text)
        return StoreRetriever(store, vectors, words, retrieval.clamp, as_stored=scans)

    workshop = Workshop(ground.embedder, vectors)
    data = arm.prepare(workshop) if isinstance(arm, Prepares) else None
    prepared = {} if data is None else {info.name: data}
    scripted = script(probes=probes)
    tools = Tools(scripted.recording.conversation, embedder, vectors, live, live, ground.seed, prepared=prepared)
    play = Play(scripted.recording, scripted.recording.memories, scripted.points, tools, ground.source)
    seen = Seen()
    last = scripted.points[-1].key

    def on_recall(call: RecallCall) -> None:
        if call.ask.turn == last and isinstance(call.system, Proves):
            seen.counters = _counters(call.system)

    seen.answers = list(replay(play, [arm], seen.wrote.append, on_recall, [info]))
    seen.embedded = asked.texts
    return seen


def _counters(system: Proves) -> Mapping[str, Any]:
    try:
        counters = system.prove()
    except KeyboardInterrupt:
        raise
    except BaseException:  # a system may raise anything; without counters, it proves nothing by them
        return {}
    return counters if isinstance(counters, Mapping) else {}
