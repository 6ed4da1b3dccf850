"""Run a plan into a run directory: embed once, replay conversation by conversation, keep what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.embedding.cache import cache_folder
from lab.embedding.embedder import embedder_key
from lab.embedding.vectors import Vectors
from lab.engine.docs.lane import DocsLane, open_docs
from lab.engine.settings import DocsSettings
from lab.engine.store.tokens import TextSettings, Words, words_under
from lab.errors import LabError
from lab.files import digest, dump_json, write_whole
from lab.processes import helpers
from lab.recordings.model import Recording
from lab.replay.candidates import all_kept, kept_retrievers
from lab.replay.labels import tell_labels
from lab.replay.loop import replay
from lab.replay.moments import moments
from lab.replay.plan import Asked, Plan, make_plan
from lab.replay.receipts import latency_table, receipts_table
from lab.replay.run_directory import RunDirectory, create_or_resume
from lab.replay.tables import write_table
from lab.systems.contract import Retrieval
from lab.systems.retrievers import StoreRetriever, embedded_text, make_store

if TYPE_CHECKING:
    import numpy as np

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a replay went. Conversations whose receipts were there already are skipped."""

    run: RunDirectory
    done: tuple[str, ...]
    skipped: tuple[str, ...]
    failures: tuple[dict[str, str], ...]
    embedded: int


def run_replay(asked: Asked, out: Path, *, jobs: int = 1, announce: Announce = lambda _: None) -> Outcome:
    """Replay what was asked into ``out``.

    A conversation that fails is written to failures.jsonl and the others go on.
    """
    plan = make_plan(asked)
    run = create_or_resume(out, asdict(asked), plan.resolved(), plan.comparable())
    write_gold(plan, run)
    told = tell_labels(plan.labels, asked.labels, (plan.labels_of(recording) for recording in plan.recordings))
    if told:
        announce(told)
    for note in plan.library.golden.notes:
        announce(note)
    skipped = tuple(run.done())
    waiting = [recording for recording in plan.recordings if recording.conversation not in skipped]
    sources = open_sources(plan)
    for lane in sources.docs.values():
        announce(told_documents(lane))
    embedded = prepare(plan, [one for one in waiting if not all_kept(plan, one)], sources, announce)
    done: list[str] = []
    failures: list[dict[str, str]] = []
    for conversation, problem in _each(plan, run, waiting, sources, jobs):
        if problem is None:
            done.append(conversation)
            announce(f"{conversation}: done ({len(skipped) + len(done)} of {len(plan.recordings)})")
        else:
            failures.append({"conversation": conversation, "phase": "replay", "reason": problem})
            announce(f"{conversation}: failed: {problem}")
    run.write_failures(failures)
    status = "complete" if len(run.done()) == len(plan.recordings) else "incomplete"
    if waiting or run.manifest["status"] != status:
        run.write_manifest(status)
    return Outcome(run, tuple(done), skipped, tuple(failures), embedded)


def write_gold(plan: Plan, run: RunDirectory) -> None:
    """Write the judgements that the run is scored with, keys alone.

    So a run can be scored where its recording is not.
    """
    path = run.path / "golden.jsonl"
    if path.exists():
        return
    lines = []
    for recording in plan.recordings:
        labels = plan.labels_of(recording)
        born = {memory.key: memory.visible_from for memory in recording.memories}
        for moment in moments(recording, plan.probes(recording), "none"):
            probe = moment.probe
            if probe is None:
                continue
            relevant = [
                {
                    "memory": one.memory,
                    "grade": one.grade,
                    "label": labels[one.memory],
                    "visible": born[one.memory] <= moment.seq,
                }
                for one in probe.relevant
            ]
            lines.append(
                {
                    "probe": probe.id,
                    "conversation": probe.conversation,
                    "relevant": relevant,
                    "forbidden": [one.memory for one in probe.forbidden],
                    "slices": probe.slices,
                }
            )
    write_whole(path, b"".join(dump_json(line, indent=None) for line in lines))


@dataclass(frozen=True, slots=True)
class Sources:
    """Vectors and words of texts, and documents: what a conversation is replayed with."""

    vectors: Vectors
    words: dict[TextSettings, Words]
    docs: dict[DocsSettings, DocsLane]

    def retriever(self, retrieval: Retrieval, store: str) -> StoreRetriever:
        """An empty store of the kind ``store``, ready to be fed and asked."""
        return StoreRetriever(
            make_store(store, self.vectors.embedder.dimension, retrieval.text),
            self.vectors,
            self.words[retrieval.text],
            retrieval.clamp,
            self.docs[retrieval.docs] if retrieval.docs else None,
            writes=retrieval.owner is not None,
        )


def open_sources(plan: Plan) -> Sources:
    """Open the caches that a plan reads."""
    vectors = Vectors(plan.embedder)
    asked = plan.retrievals()
    words = {settings: words_under(settings) for settings in dict.fromkeys(one.text for one in asked)}
    wanted = dict.fromkeys(one.docs for one in asked if one.docs)
    return Sources(vectors, words, {settings: _docs_lane(settings, vectors) for settings in wanted})


def told_documents(lane: DocsLane) -> str:
    """How many documents a lane may cite, or why none."""
    found = lane.index.last_ingest if lane.index else {}
    if found.get("skipReason"):
        return f"documents: none ({found['skipReason']}); docsColdLane.sourceRoots are paths from the current folder"
    missing = found.get("missingRoots") or ()
    absent = f"; no such source root: {', '.join(missing)}" if missing else ""
    return f"documents: {found.get('filesMatched', 0)} files{absent}"


def _docs_lane(settings: DocsSettings, vectors: Vectors) -> DocsLane:
    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors.prepare(texts)
        return vectors.of(texts)

    roots = digest([settings.source_roots, settings.source_globs, settings.max_chunk_chars])[:16]
    model = embedder_key(vectors.embedder)
    place = cache_folder() / "docs" / f"{model}-{roots}.sqlite"
    return DocsLane(settings, open_docs(settings, place, embed, model=model))


def prepare(plan: Plan, recordings: Sequence[Recording], sources: Sources, announce: Announce) -> int:
    """Embed and tokenise every text that the recordings need; return how many texts were embedded."""
    texts = [text for recording in recordings for text in texts_of(plan, recording)]
    limits = dict.fromkeys(one.clamp for one in plan.retrievals())
    clamped = list(dict.fromkeys(embedded_text(text, limit) for limit in limits for text in texts))
    embedded = sources.vectors.prepare(clamped, announce)
    for words in sources.words.values():
        words.prepare(texts)
    return embedded


def texts_of(plan: Plan, recording: Recording) -> list[str]:
    """Everything that is searched, or searched for, in one conversation."""
    asked = [moment.text for moment in plan.moments_of(recording)]
    return [memory.index_text for memory in recording.memories] + asked


def replay_conversation(plan: Plan, recording: Recording, run: RunDirectory, sources: Sources) -> None:
    """Replay one conversation and write its two files, receipts last: they are what says that it is done."""
    rows, happening = plan.rows_of(recording), plan.moments_of(recording)

    def make_live(retrieval: Retrieval) -> StoreRetriever:
        prepare(plan, [recording], sources, lambda _: None)
        return sources.retriever(retrieval, plan.asked.store)

    with kept_retrievers(plan, recording, rows, happening, make_live, sources.docs) as make_retriever:
        answers = list(
            replay(recording, rows, happening, plan.arms, make_retriever, scoping=plan.scoping, faults=plan.faults)
        )
    write_table(latency_table(answers), run.latency(recording.conversation))
    write_table(receipts_table(answers), run.receipts(recording.conversation))


def _each(
    plan: Plan, run: RunDirectory, waiting: list[Recording], sources: Sources, jobs: int
) -> Iterator[tuple[str, str | None]]:
    """Conversation and problem (None: it is done), in order."""
    if jobs <= 1 or len(waiting) <= 1:
        for recording in waiting:
            yield recording.conversation, _attempt(plan, recording, run, sources)
        return
    with helpers(min(jobs, len(waiting))) as pool:
        futures = [(one.conversation, pool.submit(_attempt, plan, one, run)) for one in waiting]
        for conversation, future in futures:
            try:
                yield conversation, future.result()
            except BrokenProcessPool:
                yield conversation, "its process was killed"


def _attempt(plan: Plan, recording: Recording, run: RunDirectory, sources: Sources | None = None) -> str | None:
    try:
        replay_conversation(plan, recording, run, sources or open_sources(plan))
    except LabError as error:
        return str(error)
    except Exception as error:  # a fault nobody foresaw ends its conversation, not the run
        return f"{type(error).__name__}: {error}"
    return None
