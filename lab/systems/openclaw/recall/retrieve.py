"""Search the tiers of one turn: both lanes, fused; each tier is searched once and shared between arms (E-7)."""

from __future__ import annotations

import time
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lab.retrieval.contract import Filter, Hit, Lanes, View
from lab.retrieval.fusion import RRF, Fusion, fuse
from lab.retrieval.row import Candidate, Row
from lab.retrieval.silence import Silence
from lab.retrieval.stage_timer import StageTimer
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import Lane, best_listed, most_listed
from lab.systems.openclaw.select.tiers import TierPlan


class Searched(NamedTuple):
    """One tier in one scope: raw lanes, fused candidates, and the nanoseconds that both took."""

    lanes: Lanes
    fused: list[Candidate]
    nanoseconds: int = 0


@dataclass(frozen=True)
class Pool:
    """All memories of a scope, whatever their labels: both lanes to :data:`POOL_DEPTH`."""

    lanes: Lanes
    rows: Sequence[Row]
    fusion: Fusion

    @cached_property
    def fts(self) -> dict[str, int]:
        """The rank in the text lane, by id."""
        return {self.rows[hit.row].id: rank for rank, hit in enumerate(self.lanes.fts, 1)}

    @cached_property
    def vec(self) -> dict[str, tuple[int, float]]:
        """The rank and the distance in the vector lane, by id."""
        return {self.rows[hit.row].id: (rank, hit.distance) for rank, hit in enumerate(self.lanes.vec, 1)}

    @cached_property
    def scores(self) -> dict[str, float]:
        """The fused score by id, best first."""
        depth = len(self.lanes.fts) + len(self.lanes.vec)
        return {hit.id: hit.score for hit in fuse(self.lanes, self.rows, depth, self.fusion)}


# The depth to which the pool is ranked; memories beyond it do not count as near.
POOL_DEPTH = 50
Shared = MutableMapping[tuple[Filter, int, Fusion], Searched]


class Tiers:
    """The tiers of one turn. ``shared`` caches results, so that arms with equal settings search once.

    ``filters`` are the filters in the order of the searches, ``results`` their results. ``timer`` times searching and
    fusing.
    """

    def __init__(
        self,
        view: View,
        rows: Sequence[Row],
        limit: int,
        shared: Shared,
        timer: StageTimer | None = None,
        fusion: Fusion = RRF,
    ) -> None:
        self.filters: list[Filter] = []
        self.results: list[Searched] = []
        self.limit, self.fusion = limit, fusion
        self.timer = timer or StageTimer()
        self._view, self._rows, self._shared = view, rows, shared
        self._pools: dict[str | None, Pool] = {}

    def fused(self, plan: TierPlan, scope: str | None) -> list[Candidate]:
        """Return the candidates of one tier in one scope (None: any), best first."""
        where = Filter(scope, plan.labels)
        key = where, self.limit, self.fusion

        def find() -> Searched:
            result = self._shared.get(key)
            if result is None:
                lanes = self._view.search(where, self.limit)
                started = time.perf_counter_ns()
                fused = fuse(lanes, self._rows, self.limit, self.fusion)
                spent = lanes.nanoseconds + time.perf_counter_ns() - started
                result = self._shared[key] = Searched(lanes, fused, spent)
            return result

        result = self.timer.share(("tier", key), find)
        self.filters.append(where)
        self.results.append(result)
        return result.fused

    def pool(self, scope: str | None) -> Pool:
        """Search both lanes over every memory of a scope, whatever its label.

        Receipts do not count this search.
        """
        pool = self._pools.get(scope)
        if pool is None:
            lanes = self.timer.search(self._view, Filter(scope), POOL_DEPTH)
            pool = self._pools[scope] = Pool(lanes, self._rows, self.fusion)
        return pool

    def silent(self, scope: str | None, silence: Silence) -> bool:
        """Return whether recall keeps silent in a scope; receipts do not count the search."""
        return silence.threshold > 0 and silence.applies(self.pool(scope).lanes)

    def unrecorded(self) -> Tiers:
        """Return the same tiers for further searches that receipts do not count."""
        return Tiers(self._view, self._rows, self.limit, self._shared, self.timer, self.fusion)

    def lane_summaries(self, settings: ReceiptSettings) -> tuple[Lane, Lane]:
        """Return the receipt's summaries of both lanes, over all searches of the recall."""
        listed = most_listed(settings)
        fts, vec = [result.lanes.fts for result in self.results], [result.lanes.vec for result in self.results]
        return self._lane_summary(fts, listed), self._lane_summary(vec, listed)

    def _lane_summary(self, lanes: Sequence[Sequence[Hit]], listed: int) -> Lane:
        rows, hits = self._rows, [hit for lane in lanes for hit in lane]
        ids = {rows[hit[0]].id for hit in hits}
        best = hits
        # Rounding is expensive and changes a score by at most half a millionth, so hits clearly worse than the last
        # listed one are skipped. Repeated ids count once and empty ids not at all, so those cases take all hits.
        if len(ids) == len(hits) > listed and "" not in ids:
            floor = sorted([hit[1] for hit in hits], reverse=True)[listed - 1] - 2e-6
            best = [hit for hit in hits if hit[1] >= floor]
        return Lane(ids, best_listed([(rows[row].id, score, distance) for row, score, distance in best], listed))
