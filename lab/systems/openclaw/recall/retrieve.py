"""Search the tiers of one turn: both lanes, fused; each tier is searched once and shared between arms (E-7).

Rows that may not be selected are excluded inside the search (E-66): it goes deeper until each lane has as many other
rows as it would have returned, so that excluded rows take no other row's place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lab.retrieval.contract import Candidate, Filter, Hit, Lanes, Row, View, cosine_of
from lab.retrieval.fusion import RRF, Fusion, fuse
from lab.retrieval.silence import Silence
from lab.retrieval.stage_timer import StageTimer
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import Lane, best_listed, most_listed
from lab.systems.openclaw.recall.working_set import PREFIX
from lab.systems.openclaw.select.outcome import TierPlan, recall_plans


class Searched(NamedTuple):
    """One tier in one scope: lanes, fused candidates, the nanoseconds that both took, and the excluded hits.

    ``excluded`` counts the different rows that a lane returned and that may not be selected.
    """

    lanes: Lanes
    fused: list[Candidate]
    nanoseconds: int = 0
    excluded: int = 0


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
# A search that meets excluded rows goes deeper by this factor at a time, to this depth at most (E-66).
DEEPER, DEEPEST = 4, 6_000
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

    def fused(self, plan: TierPlan, scope: str | None, floor: float = 0.0) -> list[Candidate]:
        """Return the candidates of one tier in one scope (None: any), best first; ``floor`` as in :meth:`admitted`."""
        where = Filter(scope, plan.labels)
        result = self.admitted(where, lambda _: False, floor) if floor else self.searched(where)
        self.record(where, result)
        return result.fused

    def record(self, where: Filter, result: Searched) -> None:
        """Count a search in the receipt."""
        self.filters.append(where)
        self.results.append(result)

    def searched(self, where: Filter) -> Searched:
        """Return the lanes and candidates under a filter, searched once for all arms."""
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

        return self.timer.share(("tier", key), find)

    def admitted(self, where: Filter, is_excluded: Callable[[Row], bool], floor: float = 0.0) -> Searched:
        """Return what a search returns that never meets the excluded rows (E-66).

        Each lane is searched deeper until it has ``limit`` rows that are not excluded, or no more rows. ``floor``: hits
        of the vector lane with a lower cosine are left out unless the text lane returned them. The result depends on
        the store's order alone, not on how deep the search went.
        """
        found, limit, rows = self.searched(where), self.limit, self._rows
        known: dict[int, bool] = {}

        def passing(hits: Sequence[Hit]) -> list[Hit]:
            for hit in hits:
                if hit[0] not in known:
                    known[hit[0]] = is_excluded(rows[hit[0]])
            return [hit for hit in hits if not known[hit[0]]]

        def wants_more(kept: Sequence[Hit], hits: Sequence[Hit]) -> bool:
            return len(kept) < limit and len(hits) >= depth

        lanes, depth = found.lanes, limit
        fts, vec = passing(lanes.fts), passing(lanes.vec)
        while depth < DEEPEST and (wants_more(fts, lanes.fts) or wants_more(vec, lanes.vec)):
            depth = min(DEEPEST, depth * DEEPER)
            lanes = self.timer.search(self._view, where, depth)
            fts, vec = passing(lanes.fts), passing(lanes.vec)
        fts, vec = fts[:limit], vec[:limit]
        excluded = sum(known.values())
        if floor > 0.0:
            worded = {hit.row for hit in fts}
            near = [hit for hit in vec if hit.row in worded or cosine_of(hit.distance) >= floor]
            excluded += len(vec) - len(near)
            vec = near
        if not excluded:
            return found
        admitted = Lanes(fts, vec, found.lanes.nanoseconds)
        return Searched(admitted, fuse(admitted, rows, limit, self.fusion), found.nanoseconds, excluded)

    def must_first(self, scope: str | None, slots: int) -> list[str]:
        """Return the ids of the memories that ``tier_first_v1`` would inject first: must candidates, best first (E-14).

        Stored Working Sets among the first ``slots`` candidates are left out. Receipts do not count this search.
        """
        candidates = self.searched(Filter(scope, recall_plans()[0].labels)).fused[:slots]
        return [candidate.id for candidate in candidates if not candidate.id.startswith(PREFIX)]

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
