"""Why one memory has its place in one turn, or lost it: the turn is recalled once more and every step is kept.

Nothing of this is stored in a run. A recall is a function of its inputs, so the turn that is recalled here is the
turn that was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lab.engine.memory import LABELS, Row
from lab.engine.recall.tiers import recall_plans
from lab.engine.store.contract import Filter
from lab.errors import UnusableInput
from lab.recordings.model import Recording
from lab.replay.loop import replay, rows_of
from lab.replay.moments import Moment, moments
from lab.replay.plan import Asked, Plan, make_plan
from lab.replay.run import open_sources, prepare
from lab.replay.run_directory import RunDirectory
from lab.systems.contract import Candidates, Recall, Request, Selector
from lab.systems.engine import Tiers
from lab.systems.retrievers import StoreRetriever, make_store

RUNNERS_UP = 3


class Place(NamedTuple):
    """Where a row stood in its tier.

    Rank in the fused list (None: not a candidate), and ranks in the two lanes over the whole tier.
    """

    tier: str | None
    fused: int | None
    score: float | None
    fts: int | None
    vec: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One turn of one arm. ``places`` speaks of every row that matters: injected, runner-up or gold."""

    moment: Moment
    arm: Selector
    recall: Recall
    rows: dict[str, Row]
    places: dict[str, Place]
    runners_up: tuple[str, ...]
    reasons: dict[str, str]
    visible: dict[str, int]


def explain(run: RunDirectory, key: str, arm_name: str) -> Explanation:
    """Explain the recall of ``arm_name`` at a turn or probe.

    Raises :class:`UnusableInput` where there is none, or the recording has changed.
    """
    plan = make_plan(Asked.of_manifest(run.manifest["asked"]))
    if plan.run_key() != run.manifest["run_key"]:
        raise UnusableInput(
            f"{run.path}: its recording, golden set or configuration has changed since; run the replay again"
        )
    arm = next((one for one in plan.arms if one.name == arm_name), None)
    if arm is None:
        raise UnusableInput(f"{run.path}: has no arm {arm_name!r}; it has: {', '.join(run.arms)}")
    recording, moment = _find(plan, key)
    sources = open_sources(plan)
    prepare(plan, [recording], sources, lambda _: None)
    rows = rows_of(recording, plan.labels_of(recording))
    kept: list[Candidates] = []

    class Keeping(StoreRetriever):
        def retrieve(self, request: Request) -> Candidates:
            kept.append(super().retrieve(request))
            return kept[-1]

        def close(self) -> None:
            """Stay open: the explanation asks further."""

    def retriever(_: object) -> StoreRetriever:
        # The exact store answers as LanceDB does and is here at once.
        return Keeping(
            make_store("exact", plan.embedder.dimension, arm.retrieval), sources.vectors, sources.words[arm.retrieval]
        )

    scoped = plan.asked.scope == "recorded"
    answered = next(iter(replay(recording, rows, [moment], [arm], retriever, enforce_scope=scoped)))
    return _tell(recording, rows, moment, arm, answered.recall, kept[0], moment.scope if scoped else None)


def _find(plan: Plan, key: str) -> tuple[Recording, Moment]:
    alike: list[str] = []
    others: list[str] = []
    for recording in plan.recordings:
        known = {moment.key: moment for moment in moments(recording, plan.probes(recording), plan.recall_turns)}
        if key in known:
            return recording, known[key]
        alike += [other for other in known if key and other.startswith(key)]
        others += list(known)[:1]
    raise UnusableInput(
        f"no recall happened at {key!r}; there was one for instance at {', '.join((alike or others)[:3])}"
    )


def _tell(
    recording: Recording,
    rows: list[Row],
    moment: Moment,
    arm: Selector,
    recall: Recall,
    candidates: Candidates,
    scope: str | None,
) -> Explanation:
    by_key = {row.key: row for row in rows}
    tiers = Tiers(candidates, scope, arm.config.search_limit)
    places: dict[str, Place] = {}
    for plan in recall_plans():
        whole = candidates.view.search(Filter(scope, plan.labels), len(candidates.rows))
        fts = {candidates.rows[hit.row].key: rank for rank, hit in enumerate(whole.fts, 1)}
        vec = {candidates.rows[hit.row].key: rank for rank, hit in enumerate(whole.vec, 1)}
        keys = {row.id: row.key for row in candidates.rows}
        fused = {keys[one.id]: (rank, one.score) for rank, one in enumerate(tiers.fused(plan), 1)}
        for key in {**fts, **vec}:
            rank, score = fused.get(key, (None, None))
            places[key] = Place(plan.tier, rank, score, fts.get(key), vec.get(key))
    injected = {item.key for item in recall.items[: recall.injected]}
    if recall.receipt["tiersSearched"]:
        ranked = sorted(
            ((place.score, key) for key, place in places.items() if place.score is not None and key not in injected),
            key=lambda pair: (-pair[0], by_key[pair[1]].id),
        )
        next_keys = [key for _, key in ranked[:RUNNERS_UP]]
    else:
        next_keys = [item.key for item in recall.items[recall.injected : recall.injected + RUNNERS_UP]]
    gold = moment.probe.grades if moment.probe else {}
    born = {memory.key: memory.visible_from for memory in recording.memories}
    reasons = {
        key: _reason(by_key[key], places.get(key), born[key] > moment.seq, scope, recall, arm)
        for key in gold
        if key not in injected
    }
    reachable = [row for row in candidates.rows if scope is None or row.scope == scope]
    visible = {label: sum(row.importance_label == label for row in reachable) for label in LABELS}
    return Explanation(moment, arm, recall, by_key, places, tuple(next_keys), reasons, visible)


def _reason(row: Row, place: Place | None, unborn: bool, scope: str | None, recall: Recall, arm: Selector) -> str:
    """Why a gold memory was not injected, in a sentence."""
    if unborn:
        return "it did not exist yet"
    if scope is not None and row.scope != scope:
        return f"it is of scope {row.scope}, the turn of {scope}"
    ranked = next((rank for rank, item in enumerate(recall.items, 1) if item.key == row.key), None)
    if ranked is not None:
        return f"ranked {ranked}, beyond the {recall.injected} that are injected"
    searched = recall.receipt["tiersSearched"]
    if not searched:
        return f"not among the first {arm.depth} of this arm"
    if place is None or (place.tier == "unknown" and not arm.config.include_unknown_fallback):
        return f"its label is {row.importance_label}, which no tier of this arm holds"
    lanes = f"text rank {place.fts or 'none'}, vector rank {place.vec or 'none'} in its tier"
    if place.tier not in searched:
        return f"tier {place.tier} was not searched: {searched[-1]} had filled all places; {lanes}"
    if place.fused is None:
        return f"not among the {arm.config.search_limit} candidates of tier {place.tier}; {lanes}"
    taken = sum(item.tier == place.tier for item in recall.items[: recall.injected])
    where = f"candidate {place.fused} of tier {place.tier} ({place.score:.4f})"
    cap = {"must": arm.config.quota.must_max, "unknown": arm.config.quota.unknown_max}.get(place.tier or "")
    if recall.receipt.get("quota") and arm.config.strict_caps and cap is not None and taken >= cap:
        return f"{where}, but the cap of {cap} for that tier was full; {lanes}"
    wildcard = [item.score for item in recall.items[: recall.injected] if item.decision == "wildcard"]
    beyond = f", wildcards to scores from {min(wildcard):.4f}" if wildcard else ""
    return f"{where}: {taken} places went to that tier{beyond}; {lanes}"
