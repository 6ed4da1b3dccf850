"""Why one memory has its place in one turn, or lost it: the turn is recalled once more and every step is kept.

Nothing of this is stored in a run. A recall is a function of its inputs, so the turn that is recalled here is the
turn that was.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from lab.errors import UnusableInput
from lab.recordings.model import LABELS, Memory, Recording
from lab.replay.loop import Answered, replay, request_of
from lab.replay.moments import Moment, moments
from lab.replay.plan import Plan, plan_of
from lab.replay.sources import open_sources, prepare
from lab.retrieval.contract import Filter
from lab.retrieval.faults import Faults
from lab.retrieval.retrievers import StoreRetriever
from lab.retrieval.row import Row
from lab.runs.directory import RunDirectory
from lab.systems.contract import NO_FAULTS, Recall, Request, Selector
from lab.systems.openclaw.arms import FlowRecall
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.todo import is_stale
from lab.systems.openclaw.recall.turn import Memories, Turn
from lab.systems.openclaw.select.tiers import recall_plans

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
    """One turn of one arm.

    ``places`` speaks of every row that matters: injected, runner-up or gold. ``turn`` is what the flow's stages left;
    None for an arm that is selection alone.
    """

    moment: Moment
    arm: Selector
    recall: Recall
    rows: dict[str, Row]
    places: dict[str, Place]
    runners_up: tuple[str, ...]
    reasons: dict[str, str]
    visible: dict[str, int]
    tiers: Tiers
    faults: Faults = NO_FAULTS
    turn: Turn | None = None

    def final_score(self, key: str) -> float:
        """A memory's final score where the flow scored it, else its fused one."""
        return _final_score(self.turn, self.rows[key], self.places.get(key))


def explain(run: RunDirectory, key: str, arm_name: str, plan: Plan | None = None) -> Explanation:
    """Explain the recall of ``arm_name`` at a turn or probe; ``plan`` is what the run was asked to do, if at hand.

    Raises :class:`UnusableInput` where there is none, or the recording has changed.
    """
    plan = plan or plan_of(run)
    arm = next((one for one in plan.arms if one.name == arm_name), None)
    if arm is None:
        raise UnusableInput(f"{run.path}: has no arm {arm_name!r}; it has: {', '.join(run.arms)}")
    recording, moment = _find(plan, key)
    sources = open_sources(plan)
    prepare(plan, [recording], sources, lambda _: None)
    rows = plan.rows_of(recording)
    kept: list[Memories] = []

    class Keeping:
        """Keeps the last view: the explanation asks it further."""

        def __init__(self, retriever: StoreRetriever) -> None:
            self.observe, self.forget, self.expect = retriever.observe, retriever.forget, retriever.expect
            self._retriever = retriever

        def retrieve(self, request: Request) -> Memories:
            kept[:] = [self._retriever.retrieve(request)]
            return kept[0]

        def close(self) -> None:
            """Stay open."""

    happening = list(moments(recording, plan.probes(recording), plan.recall_turns))
    if not isinstance(arm, FlowRecall):
        happening = [moment]
    before = happening[: happening.index(moment) + 1]
    # The exact store answers as LanceDB does and is here at once.
    answers = replay(
        recording,
        rows,
        before,
        [arm],
        lambda retrieval: Keeping(sources.retriever(retrieval, "exact")),
        scoping=plan.scoping,
        faults=plan.faults,
    )
    (answered,) = deque(answers, maxlen=1)
    request = request_of(moment, plan.scoping, plan.faults)
    return _tell(recording, rows, answered, kept[0], request)


def _find(plan: Plan, key: str) -> tuple[Recording, Moment]:
    # A key begins with its conversation: that one is looked through before all the others are.
    for recording in (one for one in plan.recordings if key.startswith(one.conversation)):
        known = {moment.key: moment for moment in plan.moments_of(recording)}
        if key in known:
            return recording, known[key]
    alike: list[str] = []
    others: list[str] = []
    for recording in plan.recordings:
        known = {moment.key: moment for moment in plan.moments_of(recording)}
        if key in known:
            return recording, known[key]
        alike += [other for other in known if key and other.startswith(key)]
        others += list(known)[:1]
    raise UnusableInput(
        f"no recall happened at {key!r}; there was one for instance at {', '.join((alike or others)[:3])}"
    )


def _tell(
    recording: Recording, rows: list[Row], answered: Answered, memories: Memories, request: Request
) -> Explanation:
    moment, arm, recall = answered.moment, answered.arm, answered.recall
    turn = arm.turn if isinstance(arm, FlowRecall) else None
    scope = turn.filter_scope if turn else request.scope
    by_key = {row.key: row for row in rows}
    keys = {row.id: row.key for row in memories.rows}
    tiers = Tiers(memories.view, memories.rows, arm.config.auto_recall.search_limit, {})
    places: dict[str, Place] = {}
    for plan in recall_plans():
        whole = memories.view.search(Filter(scope, plan.labels), len(memories.rows))
        fts = {memories.rows[hit.row].key: rank for rank, hit in enumerate(whole.fts, 1)}
        vec = {memories.rows[hit.row].key: rank for rank, hit in enumerate(whole.vec, 1)}
        fused = {keys[one.id]: (rank, one.score) for rank, one in enumerate(tiers.fused(plan, scope), 1)}
        # The digest that the plugin keeps among the memories is none of the recording's.
        for key in (one for one in {**fts, **vec} if one in by_key):
            rank, score = fused.get(key, (None, None))
            places[key] = Place(plan.tier, rank, score, fts.get(key), vec.get(key))
    injected = {item.key for item in recall.items[: recall.injected]}
    if recall.receipt.get("tiersSearched"):
        ranked = sorted(
            ((_final_score(turn, by_key[key], place), key) for key, place in places.items() if place.score is not None),
            key=lambda pair: (-pair[0], by_key[pair[1]].id),
        )
        # What the digest says is there already, and what the budget dropped had been taken.
        taken = [*turn.digested, *turn.excluded, *(one.candidate.id for one in turn.final)] if turn else []
        there = injected | {keys[one] for one in taken}
        next_keys = [key for _, key in ranked if key not in there][:RUNNERS_UP]
    else:
        next_keys = [item.key for item in recall.items[recall.injected : recall.injected + RUNNERS_UP]]
    gold = moment.probe.grades if moment.probe else {}
    known = {memory.key: memory for memory in recording.memories}
    reasons = {
        key: _unseen(known[key], moment.seq)
        or _reason(by_key[key], places.get(key), scope, recall, arm, request.faults)
        for key in gold
        if key not in injected
    }
    reachable = [row for row in memories.present if row.key in by_key and (scope is None or row.scope == scope)]
    visible = {label: sum(row.importance_label == label for row in reachable) for label in LABELS}
    return Explanation(
        moment, arm, recall, by_key, places, tuple(next_keys), reasons, visible, tiers, request.faults, turn
    )


def _final_score(turn: Turn | None, row: Row, place: Place | None) -> float:
    if turn and row.id in turn.factors:
        return turn.factors[row.id].product
    return (place.score if place else None) or 0.0


def _unseen(memory: Memory, seq: int) -> str | None:
    """Why a memory was not there at a moment; None if it was."""
    if memory.visible_from > seq:
        return "it did not exist yet"
    return "it had been forgotten" if memory.is_forgotten_at(seq) else None


def _reason(
    row: Row,
    place: Place | None,
    scope: str | None,
    recall: Recall,
    arm: Selector,
    faults: Faults,
) -> str:
    """Why a gold memory was not injected, in a sentence."""
    turn = arm.turn if isinstance(arm, FlowRecall) else None
    if turn is not None:
        said = _in_the_flow(turn, row)
        if said:
            return said
    if scope is not None and row.scope != scope:
        return f"it is of scope {row.scope}, the turn of {scope}"
    ranked = next((rank for rank, item in enumerate(recall.items, 1) if item.key == row.key), None)
    if ranked is not None:
        return f"ranked {ranked}, beyond the {recall.injected} that are injected"
    searched = [count.tier for count in turn.selection.tier_counts] if turn else recall.receipt["tiersSearched"]
    if not searched:
        return f"not among the first {arm.depth} of this arm"
    if place is None and faults:
        return f"no lane found it, under the faults of this turn: {', '.join(sorted(faults))}"
    if place is None or (place.tier == "unknown" and not arm.config.auto_recall.include_unknown_fallback):
        return f"its label is {row.importance_label}, which no tier of this arm holds"
    lanes = f"text rank {place.fts or 'none'}, vector rank {place.vec or 'none'} in its tier"
    if place.tier not in searched:
        return f"tier {place.tier} was not searched: {searched[-1]} had filled all places; {lanes}"
    if place.fused is None:
        return f"not among the {arm.config.auto_recall.search_limit} candidates of tier {place.tier}; {lanes}"
    taken = sum(item.tier == place.tier for item in recall.items[: recall.injected])
    where = f"candidate {place.fused} of tier {place.tier} ({place.score:.4f})"
    quota = arm.config.auto_recall.quota
    cap = {"must": quota.must_max, "unknown": quota.unknown_max}.get(place.tier or "")
    if recall.receipt.get("quota") and arm.config.auto_recall.strict_caps and cap is not None and taken >= cap:
        return f"{where}, but the cap of {cap} for that tier was full; {lanes}"
    wildcard = [item.score for item in recall.items[: recall.injected] if item.decision == "wildcard"]
    beyond = f", wildcards to scores from {min(wildcard):.4f}" if wildcard else ""
    return f"{where}: {taken} places went to that tier{beyond}; {lanes}"


def _in_the_flow(turn: Turn, row: Row) -> str | None:
    """What a stage of the flow did to a memory before or after selection, in a sentence; None if nothing."""
    if turn.skip_reason:
        return f"the prompt was passed over: {turn.skip_reason}"
    if row.id in turn.digested:
        cut = turn.config.working_set.max_item_chars
        whole = row.id in turn.carried
        return (
            "it is in the Working Set, which speaks for it"
            if whole
            else (f"the Working Set holds its first {cut} characters, and so it is no item of its own")
        )
    if any(one.candidate.id == row.id for one in turn.final):
        cut = turn.packed is not None and any(slot.id == row.id for slot in turn.packed.kept)
        return f"it was selected, and the budget {'cut the block within it' if cut else 'dropped it'}"
    if turn.excluded.get(row.id):
        return f"it says what the Working Set says already (same {turn.excluded[row.id]})"
    stale = row.category == "todo" and is_stale(row.created_at, turn.prompt.now_ms, turn.config.todo_stale_ttl_days)
    if stale:
        return f"it is a TODO older than {turn.config.todo_stale_ttl_days} days"
    factors = turn.factors.get(row.id)
    if factors and factors.repeat < 1.0:
        return f"it was injected lately: its score was multiplied by {factors.repeat:.3f}"
    return None
