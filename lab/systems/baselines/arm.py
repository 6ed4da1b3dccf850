"""Untiered retrieval, and the floor and the ceiling of every chart: arms that look at no label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.retrieval.contract import Filter, Lanes
from lab.retrieval.query_context import QueryContext, Retrieval
from lab.retrieval.row import Candidate, Row
from lab.retrieval.stage_timer import StageTimer
from lab.systems.contract import ArmInfo, Ask, Detail, Explained, MemorySystem, Recall, Retriever
from lab.systems.kit import Kit
from lab.systems.openclaw.config.resolve import describe, resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.finish import finish
from lab.systems.openclaw.recall.receipt import LaneHit
from lab.systems.openclaw.select.outcome import Picked, Selection
from lab.systems.spec import ArmSpec

# How deep each lane is searched at least.
LANE_DEPTH = 50
_TIER = {MUST: "must", NICE: "nice", IGNORE: "ignore", UNKNOWN: "unknown"}


class Question(NamedTuple):
    """What a baseline ranks by: the question, what was found, how many places its ranking has, and its seed.

    Searches are booked in ``booking``.
    """

    ask: Ask
    found: QueryContext
    depth: int
    seed: int
    timer: StageTimer

    def lanes(self) -> Lanes:
        """Both lanes over the question's scope, as deep as the ranking and :data:`LANE_DEPTH` at least."""
        return self.timer.search(self.found.view, Filter(self.ask.scope), max(LANE_DEPTH, self.depth))

    @property
    def pool(self) -> list[Row]:
        """The memories in the question's scope."""
        scope = self.ask.scope
        return [row for row in self.found.present if scope is None or row.scope == scope]


class Ranking(NamedTuple):
    """Memories, best first, and the raw lanes where they were searched."""

    ranked: Sequence[tuple[Row, Candidate]]
    lanes: Lanes = Lanes([], [])


Rank = Callable[[Question], Ranking]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A way to rank: what it is called, and what it needs besides."""

    name: str
    rank: Rank
    needs_gold: bool = False
    draws: bool = False


@dataclass(frozen=True, slots=True)
class BaselineArm:
    """An arm without tiers. It keeps a ranking of ``depth`` items and injects the first ``max_items`` of them."""

    name: str
    baseline: Baseline
    config: EngineConfig
    depth: int
    seed: int

    def describe(self) -> ArmInfo:
        """Name and configuration; the seed is the random arm's alone."""
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
        """How it searches, if it does."""
        return Retrieval(self.config.text, self.config.embedding)

    @property
    def shares(self) -> bool:
        """Whether others may share its candidates."""
        return True

    def open(self, kit: Kit) -> BaselineSystem:
        """It has no past."""
        return BaselineSystem(self, kit)


def factory(baseline: Baseline) -> Callable[[ArmSpec], BaselineArm]:
    """What makes the arms of a baseline. Of a configuration it reads how texts are searched, and ``maxItems``."""

    def make(spec: ArmSpec) -> BaselineArm:
        config = resolve(spec.config, spec.profile, max_items=spec.max_items, where=spec.where)
        return BaselineArm(spec.name, baseline, config, spec.depth, spec.seed)

    return make


class BaselineSystem(MemorySystem):
    """A baseline over the memories from outside."""

    def __init__(self, arm: BaselineArm, kit: Kit) -> None:
        self.arm = arm
        self.retrieval_key = arm.retrieval if arm.shares else None
        # What was found last, where nobody else searches it.
        self.found: QueryContext | None = None
        self._kit = kit

    def open_retriever(self) -> Retriever:
        """A search of the memories from outside."""
        assert self.retrieval_key is not None  # noqa: S101 - asked of those that share
        return self._kit.retriever(self.retrieval_key)

    def select(self, ask: Ask, found: QueryContext) -> Recall:
        """Rank what is there in the question's scope."""
        arm, timer = self.arm, StageTimer()
        ranked, lanes = timer.stage(
            "select", lambda: arm.baseline.rank(Question(ask, found, arm.depth, arm.seed, timer))
        )
        picked = [Picked(candidate, _TIER[row.importance_label], "ranked") for row, candidate in ranked]

        def raw_hits() -> tuple[list[LaneHit], list[LaneHit]]:
            raw = [
                [LaneHit(found.rows[row].id, score, distance) for row, score, distance in lane] for lane in lanes[:2]
            ]
            return raw[0], raw[1]

        selection = Selection(picked, [], [])
        return finish(arm.baseline.name, ask, selection, raw_hits, found, arm.config.max_items, timer)

    def explain(
        self, ask: Ask, found: QueryContext | None, recall: Recall, wanted: Sequence[str], detail: Detail
    ) -> Explained:
        """A place in the ranking, or none."""
        places = {item.id: rank for rank, item in enumerate(recall.items, 1)}
        there = found or self.found
        scopes = {row.key: row.scope for row in there.rows} if there else {}

        def reason(key: str) -> str:
            if ask.scope is not None and scopes.get(key, ask.scope) != ask.scope:
                return f"it is of scope {scopes[key]}, the turn of {ask.scope}"
            if key in places:
                return f"ranked {places[key]}, beyond the {recall.injected} that are injected"
            return f"not among the first {self.arm.depth} of this arm"

        reasons = {key: reason(key) for key in wanted if not 0 < places.get(key, 0) <= recall.injected}
        beyond = tuple(item.id for item in recall.items[recall.injected : recall.injected + 3])
        return Explained(f"profile {self.arm.config.profile}", reasons=reasons, runners_up=beyond)


def by_score(rows: Sequence[tuple[float, Row]], depth: int) -> Ranking:
    """Rows that were scored without a search, best first; equal scores in the order of ids."""
    ordered = sorted(rows, key=lambda pair: (-pair[0], pair[1].id))[:depth]
    return Ranking([(row, Candidate(row.id, score, row.created_at)) for score, row in ordered])
