"""Conversations replayed in memory: arms by name, the tools that they are opened with, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.golden.model import Probe
from lab.recordings.model import Recording
from lab.replay.loop import Answered, Play, RecallCall, Source, TurnWrites, replay
from lab.replay.plan import make_plan
from lab.replay.receipts import Listed, listed
from lab.replay.sources import play_of, prepared_sources, tools_of
from lab.replay.timeline import RecallPoint, recall_points
from lab.retrieval.retrievers import Retrieval, StoreRetriever, make_store
from lab.retrieval.tokens import words_under
from lab.runs.request import ReplayRequest
from lab.systems.contract import Arm, Recall
from lab.systems.kit import Kit, Tools
from lab.systems.registry import make_arm, parse_arms
from lab.systems.spec import ArmSpec

OPERATORS = Path(__file__).resolve().parents[1] / "datasets" / "operators"
Make = Callable[[Retrieval], StoreRetriever]


def arms_named(*names: str, **options: Any) -> list[Any]:
    """Arms as the command line names them; ``options`` are fields of :class:`lab.systems.spec.ArmSpec`."""
    return [make_arm(replace(spec, **({"max_items": 6} | options))) for spec in parse_arms(names)]


def tools_for(texts: Sequence[str] = (), *, store: str = "exact", scoping: str = "open") -> Tools:
    """Tools with everything that is said embedded by hashing and split into words, in the cache of the test."""
    embedder = HashingEmbedder()
    vectors = Vectors(embedder)
    vectors.prepare(list(dict.fromkeys([*texts, *(text.strip() for text in texts)])))

    def live(retrieval: Retrieval) -> StoreRetriever:
        words = words_under(retrieval.text)
        words.prepare(texts)
        return StoreRetriever(make_store(store, embedder.dimension, retrieval.text), vectors, words, retrieval.clamp)

    return Tools("c", embedder, vectors, live, live, scoping=scoping)


def kit_for(arm: Arm, *texts: str, captures: bool = False) -> Kit:
    """A kit of its own for one arm."""
    return Kit(tools_for(texts), arm.name, captures=captures)


def play(
    recording: Recording,
    probes: Sequence[Probe] = (),
    *,
    recall_turns: str = "all",
    happening: Sequence[RecallPoint] | None = None,
    store: str = "exact",
    scoping: str = "open",
    source: Source = "given",
    make: Callable[[Make], Make] = lambda live: live,
) -> Play:
    """A recording ready for the loop, its memories as they are; ``make`` changes how retrievers are made."""
    asked = list(recall_points(recording, probes, recall_turns) if happening is None else happening)
    said = [one.text for one in asked] + [one.index_text for one in recording.memories]
    said += [turn.index_text or turn.said or turn.text for turn in recording.turns]
    tools = tools_for(said, store=store, scoping=scoping)
    tools.cached, tools.live = make(tools.live), make(tools.live)
    return Play(recording, recording.memories, asked, tools, source)


def played(
    recording: Recording,
    arms: Sequence[Arm],
    probes: Sequence[Probe] = (),
    *,
    on_writes: Callable[[TurnWrites], None] = lambda _: None,
    on_recall: Callable[[RecallCall], None] = lambda _: None,
    **options: Any,
) -> list[Answered]:
    """Every answer of every arm; ``options`` are those of :func:`play`."""
    return list(replay(play(recording, probes, **options), arms, on_writes, on_recall))


def shipped_answers(system: str, lab: dict[str, Any], **more: Any) -> list[Answered]:
    """Replay one shipped conversation with a configuration of the lab's own keys, and ``more`` of the engine's."""
    arm = make_arm(ArmSpec(system, system, {"lab": lab} | more))
    request = ReplayRequest(str(OPERATORS / "harbor-release.jsonl"), "lab", (system,), embedder="hashing", hard_rules=2)
    plan = make_plan(request, made={system: arm})
    sources = prepared_sources(plan)
    recording = plan.recordings[0]
    return list(replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms, infos=plan.infos))


def keys_of(answer: Answered) -> list[str]:
    """The keys of the items that an arm returned."""
    return [item.id for item in answer.recall.items]


def as_listed(recall: Recall) -> tuple[Listed, ...]:
    """Items of memories that were given, as receipts list them."""
    return tuple(
        Listed(item.id, str(own), item.tier, label, scope, item.score, fts_rank, vec_rank, decision)
        for item in recall.items
        for own, label, scope, fts_rank, vec_rank, decision in (item.signals,)
    )


def listed_in(row: Mapping[str, Any]) -> tuple[Listed, ...]:
    """The items of a row of receipts."""
    return tuple(listed(row, rank) for rank in range(len(row["item_key"])))
