"""Baseline arms without tiers, which ignore labels: a ranking function each (:data:`BASELINES`).

``vector`` and ``bm25`` search one lane, ``hybrid`` both, fused: the simplest competitive search. ``recency`` has the
newest memories, ``random`` random ones, ``none`` none, the baseline that every memory system must beat. ``oracle`` has
the relevant ones, an upper bound for every system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from lab.base.draw import draw
from lab.base.token_estimate import tokens
from lab.recordings.model import TIER_OF
from lab.retrieval.contract import Candidate, Filter, Lanes, Row, cosine_of
from lab.retrieval.fusion import fuse
from lab.retrieval.retrievers import QueryContext, Retrieval
from lab.retrieval.stage_timer import StageTimer
from lab.systems.contract import ArmInfo, Ask, Detail, Explained, MemorySystem, Recall, Retriever, Status
from lab.systems.kit import Kit
from lab.systems.openclaw.config.resolve import describe, refuse_rerank, resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.finish import finish
from lab.systems.openclaw.recall.block import escape
from lab.systems.openclaw.recall.receipt import LaneHit
from lab.systems.openclaw.recall.stages import SILENT
from lab.systems.openclaw.select.outcome import Picked, Selection
from lab.systems.rerank import checked, rerank
from lab.systems.spec import LIVE, ArmSpec

# Minimum search depth of each lane.
LANE_DEPTH = 50


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
    """A ranking function with its name, and what it claims (:class:`lab.systems.contract.Claims`).

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
    shares: ClassVar[bool] = True

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


def arm_of(baseline: Baseline, spec: ArmSpec) -> BaselineArm:
    """Make the arm of a baseline, which reads the search settings and ``maxItems``."""
    config = resolve(spec.config, spec.profile, max_items=spec.max_items, where=spec.where)
    if not baseline.reranks:
        refuse_rerank(config.rerank, spec.where, baseline.name)
    settings = checked(config.rerank, spec.where, allow_remote=spec.allow_remote, live=spec.answers == LIVE)
    return BaselineArm(spec.name, baseline, replace(config, rerank=settings), spec.depth, spec.seed, spec.answers)


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
            # As in the engine, a hit of the text lane is relevant.
            ranked = [(row, hit) for row, hit in ranked if hit.fts_rank is not None or cosine_of(hit.distance) >= floor]

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
        head = (_reranked(reranked),) if reranked else ()
        return Explained.of(f"profile {self.arm.config.profile}", reasons, runners_up=beyond, head=head)


def _reranked(receipt: Mapping[str, Any]) -> str:
    """Return the line about the reranker, from its part of a receipt."""
    if "reason" in receipt:
        return f"rerank: the order is that of the search ({receipt['reason']})"
    return f"rerank: {receipt['moved']} of the first {receipt['candidates']} have another rank"


def picked(ranked: Sequence[tuple[Row, Candidate]]) -> list[Picked]:
    """Return a ranking as the picks of a selection, each with the tier of its label."""
    return [Picked(candidate, TIER_OF[row.importance_label], "ranked") for row, candidate in ranked]


def by_score(rows: Sequence[tuple[float, Row]], depth: int) -> Ranking:
    """Rank rows that were scored without a search: best first, then by id."""
    ordered = sorted(rows, key=lambda pair: (-pair[0], pair[1].id))[:depth]
    return Ranking([(row, Candidate(row.id, score, row.created_at)) for score, row in ordered])


def unranked(_: Question) -> Ranking:
    """Return an empty ranking."""
    return Ranking([])


def by_words(question: Question) -> Ranking:
    """Rank by the text lane."""
    context, depth, lanes = question.context, question.depth, question.lanes()
    hits = [(rank, hit, context.rows[hit.row]) for rank, hit in enumerate(lanes.fts[:depth], 1)]
    return Ranking([(row, Candidate(row.id, hit.score, row.created_at, rank)) for rank, hit, row in hits], lanes)


def by_vectors(question: Question) -> Ranking:
    """Rank by the vector lane."""
    context, depth, lanes = question.context, question.depth, question.lanes()
    hits = [(rank, hit, context.rows[hit.row]) for rank, hit in enumerate(lanes.vec[:depth], 1)]
    return Ranking(
        [(row, Candidate(row.id, hit.score, row.created_at, None, rank, hit.distance)) for rank, hit, row in hits],
        lanes,
    )


def by_both(question: Question) -> Ranking:
    """Rank by fusion of the first :data:`LANE_DEPTH` hits of each lane, by reciprocal ranks unless configured."""
    rows, depth, lanes = question.context.rows, question.depth, question.lanes()
    both = Lanes(lanes.fts[:LANE_DEPTH], lanes.vec[:LANE_DEPTH])
    by_id = {rows[hit.row].id: rows[hit.row] for hits in both[:2] for hit in hits}
    fused = fuse(both, rows, depth, question.config.fusion)
    return Ranking([(by_id[candidate.id], candidate) for candidate in fused], lanes)


def by_age(question: Question) -> Ranking:
    """Rank by creation time, newest first, regardless of the query."""
    return by_score([(float(row.created_at), row) for row in question.pool], question.depth)


def by_chance(question: Question) -> Ranking:
    """Rank by a hash of seed, turn and memory: a random order, sampled anew at every turn."""
    turn, seed = question.ask.turn, question.seed
    return by_score([(draw(seed, f"{turn} {row.key}"), row) for row in question.pool], question.depth)


def by_grade(question: Question) -> Ranking:
    """Rank the relevant memories that exist at the time by their grade in the golden set."""
    grades = question.ask.grades
    return by_score([(float(grades[row.key]), row) for row in question.pool if row.key in grades], question.depth)


SEARCHED = ("relevant", "words", "meaning", "embedder")
BASELINES = {
    baseline.name: baseline
    for baseline in (
        Baseline("vector", by_vectors, claims=("relevant", "meaning", "embedder"), reranks=True),
        Baseline("bm25", by_words, claims=("relevant", "words"), reranks=True),
        Baseline("hybrid", by_both, claims=SEARCHED, reranks=True),
        Baseline("recency", by_age, claims=("newest",)),
        Baseline("none", unranked, is_empty=True, claims=("nothing",)),
        Baseline("random", by_chance, draws=True, claims=("something",)),
    )
}
ORACLE = Baseline("oracle", by_grade, needs_gold=True, claims=("gold",))


def make(spec: ArmSpec) -> BaselineArm:
    """Make the arm of :data:`BASELINES` that has the name of the system."""
    return arm_of(BASELINES[spec.system], spec)


@dataclass(frozen=True, slots=True)
class OracleArm(BaselineArm):
    """The oracle. ``tokens``: the most that it may inject (None: ``maxItems`` memories, however long)."""

    tokens: int | None = None

    def describe(self) -> ArmInfo:
        """Return the baseline's description; under a budget it has no largest number of items."""
        info = BaselineArm.describe(self)
        return info if self.tokens is None else replace(info, at_most=None)

    def with_tokens(self, tokens: int) -> OracleArm:
        """Return the arm with a budget: as many relevant memories as fit (HB-17)."""
        return replace(self, tokens=tokens)

    def open(self, kit: Kit) -> OracleSystem:
        """Open the system, which has no state."""
        return OracleSystem(self, kit)


class OracleSystem(BaselineSystem):
    """The relevant memories that the loop provides."""

    def __init__(self, arm: OracleArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        self._tokens = arm.tokens

    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Rank by grade; under a budget, take the shortest memories, which are the most that fit (HB-17)."""
        if self._tokens is None:
            return super().select(ask, candidates)
        arm, timer = self.arm, StageTimer()
        ranked = by_grade(Question(ask, candidates, len(candidates.rows), arm.seed, timer, arm.config)).ranked
        taken: dict[str, str] = {}
        for row, _ in sorted(ranked, key=lambda pair: (tokens(escape(pair[0].text)), pair[0].id)):
            taken[row.id] = escape(row.text)
            if tokens("\n".join(taken.values())) > self._tokens:
                del taken[row.id]
                break
        first = [pair for pair in ranked if pair[0].id in taken]
        rest = [pair for pair in ranked if pair[0].id not in taken]
        selection = Selection(picked([*first, *rest]), [], [])
        recall = finish("oracle", ask, selection, lambda: ([], []), candidates, len(first), timer)
        # Without a frame, so that no arm with a smaller one fits a memory that the oracle does not.
        return recall if ask.items_only else replace(recall, context="\n".join(taken[row.id] for row, _ in first))


def make_oracle(spec: ArmSpec) -> OracleArm:
    """Make the oracle, which reads what every baseline reads."""
    arm = arm_of(ORACLE, spec)
    return OracleArm(arm.name, arm.baseline, arm.config, arm.depth, arm.seed, arm.answers)
