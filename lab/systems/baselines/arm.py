"""Baseline arms without tiers, including the lower and upper bound of every chart. They ignore labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.retrieval.contract import Candidate, Filter, Lanes, Row, cosine_of
from lab.retrieval.retrievers import QueryContext, Retrieval
from lab.retrieval.stage_timer import StageTimer
from lab.systems.contract import ArmInfo, Ask, Detail, Explained, MemorySystem, Recall, Retriever, Status
from lab.systems.kit import Kit
from lab.systems.openclaw.config.resolve import describe, resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.finish import finish
from lab.systems.openclaw.recall.receipt import LaneHit
from lab.systems.openclaw.recall.stages import SILENT
from lab.systems.openclaw.select.outcome import Picked, Selection
from lab.systems.rerank.rerank import rerank
from lab.systems.rerank.settings import checked, refuse
from lab.systems.spec import LIVE, ArmSpec

# Minimum search depth of each lane.
LANE_DEPTH = 50
_TIER = {MUST: "must", NICE: "nice", IGNORE: "ignore", UNKNOWN: "unknown"}


class Question(NamedTuple):
    """The input of a baseline: the query, the store, the length of the ranking, and the arm's seed.

    ``timer`` times the searches, ``config`` holds their settings.
    """

    ask: Ask
    context: QueryContext
    depth: int
    seed: int
    timer: StageTimer
    config: EngineConfig

    def lanes(self) -> Lanes:
        """Search both lanes in the query's scope, as deep as the ranking and at least :data:`LANE_DEPTH`."""
        return self.timer.search(self.context.view, Filter(self.ask.scope), max(LANE_DEPTH, self.depth))

    @property
    def pool(self) -> list[Row]:
        """The memories in the query's scope."""
        scope = self.ask.scope
        return [row for row in self.context.present if scope is None or row.scope == scope]


class Ranking(NamedTuple):
    """Memories, best first, and the raw lanes if they were searched."""

    ranked: Sequence[tuple[Row, Candidate]]
    lanes: Lanes = Lanes([], [])


Rank = Callable[[Question], Ranking]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A ranking function with its name, and what it claims (:class:`lab.systems.protocols.Claims`).

    ``draws``: it depends on the seed; ``is_empty``: it never ranks anything; ``reranks``: it searches, so that a
    reranker can be set (:mod:`lab.systems.rerank`).
    """

    name: str
    rank: Rank
    needs_gold: bool = False
    draws: bool = False
    is_empty: bool = False
    claims: tuple[str, ...] = ("relevant",)
    reranks: bool = False


@dataclass(frozen=True, slots=True)
class BaselineArm:
    """An arm without tiers. It returns a ranking of ``depth`` items and injects the first ``max_items`` of them.

    ``answers``: where those of its reranker come from, if it has one (:class:`lab.systems.spec.ArmSpec`).
    """

    name: str
    baseline: Baseline
    config: EngineConfig
    depth: int
    seed: int
    answers: str = LIVE

    def describe(self) -> ArmInfo:
        """Return name and configuration, and the seed if the baseline is random."""
        return ArmInfo(
            self.name,
            self.baseline.name,
            self.config.max_items,
            self.depth,
            describe(self.config),
            at_most=self.config.max_items,
            stateful=False,
            needs_gold=self.baseline.needs_gold,
            seed=self.seed if self.baseline.draws else None,
        )

    @property
    def retrieval(self) -> Retrieval:
        """The search settings."""
        return Retrieval(self.config.text, self.config.embedding)

    @property
    def shares(self) -> bool:
        """Whether other arms may share its candidates."""
        return True

    @property
    def claims(self) -> tuple[str, ...]:
        """What it is named for."""
        return self.baseline.claims

    def widened(self, items: int) -> BaselineArm:
        """Return the same arm with ``items`` ranks, all of them injected; no rule limits them."""
        recall = replace(self.config.auto_recall, max_items=items)
        return replace(self, config=replace(self.config, auto_recall=recall), depth=items)

    def open(self, kit: Kit) -> BaselineSystem:
        """Open the system, which has no state."""
        return BaselineSystem(self, kit)


def factory(baseline: Baseline) -> Callable[[ArmSpec], BaselineArm]:
    """Return the function that makes arms of a baseline. They read the search settings and ``maxItems``."""

    def make(spec: ArmSpec) -> BaselineArm:
        config = resolve(spec.config, spec.profile, max_items=spec.max_items, where=spec.where)
        if not baseline.reranks:
            refuse(config.rerank, spec.where, baseline.name)
        settings = checked(config.rerank, spec.where, allow_remote=spec.allow_remote, live=spec.answers == LIVE)
        return BaselineArm(spec.name, baseline, replace(config, rerank=settings), spec.depth, spec.seed, spec.answers)

    return make


class BaselineSystem(MemorySystem):
    """A baseline over the memories that the loop provides."""

    def __init__(self, arm: BaselineArm, kit: Kit) -> None:
        self.arm = arm
        self.retrieval_key = arm.retrieval if arm.shares else None
        # The last candidates, if the search is not shared.
        self.context: QueryContext | None = None
        self._kit = kit

    def open_retriever(self) -> Retriever:
        """Return a retriever over the memories that the loop provides."""
        assert self.retrieval_key is not None  # noqa: S101 - the loop calls this only for systems that share
        return self._kit.retriever(self.retrieval_key)

    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Rank the memories in the query's scope."""
        arm, timer = self.arm, StageTimer()
        ranked, lanes = timer.stage(
            "select", lambda: arm.baseline.rank(Question(ask, candidates, arm.depth, arm.seed, timer, arm.config))
        )
        searched, rejected = bool(lanes.fts or lanes.vec), list[str]()
        if searched and arm.config.silence.applies(lanes):
            ranked, rejected = [], [SILENT]
        elif floor := arm.config.phases.min_relevance * searched:
            ranked = [pair for pair in ranked if _is_relevant(pair[1], floor)]

        answer = rerank(ask.text, [row.text for row, _ in ranked], arm.config.rerank, arm=arm.name, answers=arm.answers)
        if answer.sent:
            timer.timings["rerank"] = answer.nanoseconds
            ranked = [ranked[at] for at in answer.order]

        def raw_hits() -> tuple[list[LaneHit], list[LaneHit]]:
            raw = [
                [LaneHit(candidates.rows[row].id, score, distance) for row, score, distance in lane]
                for lane in lanes[:2]
            ]
            return raw[0], raw[1]

        selection = Selection(picked(ranked), [], rejected)
        recall = finish(arm.baseline.name, ask, selection, raw_hits, candidates, arm.config.max_items, timer)
        if not answer.sent:
            return recall
        status: Status = "degraded" if answer.reason else recall.status
        return replace(recall, status=status, receipt={**recall.receipt, "rerank": answer.receipt()})

    def explain(
        self, ask: Ask, candidates: QueryContext | None, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Explain each memory by its rank, if it has one."""
        ranks = {item.id: rank for rank, item in enumerate(recall.items, 1)}
        context = candidates or self.context
        scopes = {row.key: row.scope for row in context.rows} if context else {}

        def reason(key: str) -> tuple[str, str]:
            if ask.scope is not None and scopes.get(key, ask.scope) != ask.scope:
                return "scope", f"its scope is {scopes[key]}; the scope of the turn is {ask.scope}"
            if self.arm.baseline.is_empty:
                return "nothing", "the arm injects nothing, whatever there is"
            if key in ranks:
                return "slot", f"ranked {ranks[key]}; only the first {recall.injected} are injected"
            if SILENT in recall.receipt.get("rejected", ()):
                return "silent", "the arm kept silent: the search found nothing relevant enough (lab.silence)"
            return "depth", f"not among the first {self.arm.depth} of this arm"

        reasons = {key: reason(key) for key in relevant if not 0 < ranks.get(key, 0) <= recall.injected}
        reranked = recall.receipt.get("rerank")
        beyond = tuple(item.id for item in recall.items[recall.injected : recall.injected + 3])
        return Explained(
            f"profile {self.arm.config.profile}",
            reasons={key: text for key, (_, text) in reasons.items()},
            causes={key: cause for key, (cause, _) in reasons.items()},
            runners_up=beyond,
            head=(_reranked(reranked),) if reranked else (),
        )


def _reranked(receipt: Mapping[str, Any]) -> str:
    """Return the line about the reranker, from its part of a receipt."""
    if "reason" in receipt:
        return f"rerank: the order is that of the search ({receipt['reason']})"
    return f"rerank: {receipt['moved']} of the first {receipt['candidates']} have another rank"


def picked(ranked: Sequence[tuple[Row, Candidate]]) -> list[Picked]:
    """Return a ranking as the picks of a selection, each with the tier of its label."""
    return [Picked(candidate, _TIER[row.importance_label], "ranked") for row, candidate in ranked]


def _is_relevant(candidate: Candidate, floor: float) -> bool:
    """Whether a hit is a text match or has a cosine of at least ``floor``, as in the engine."""
    return candidate.fts_rank is not None or cosine_of(candidate.distance) >= floor


def by_score(rows: Sequence[tuple[float, Row]], depth: int) -> Ranking:
    """Rank rows that were scored without a search: best first, then by id."""
    ordered = sorted(rows, key=lambda pair: (-pair[0], pair[1].id))[:depth]
    return Ranking([(row, Candidate(row.id, score, row.created_at)) for score, row in ordered])
