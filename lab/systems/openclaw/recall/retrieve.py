"""Searching the tiers of one turn: both lanes, fused, each tier searched once whoever asks (E-7)."""

from __future__ import annotations

import time
from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

from lab.retrieval.booking import Booking
from lab.retrieval.contract import Filter, Hit, Lanes, View
from lab.retrieval.fusion import fuse
from lab.retrieval.row import Candidate, Row
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import Lane, best_listed, most_listed
from lab.systems.openclaw.select.tiers import TierPlan


class Searched(NamedTuple):
    """One tier in one scope: its raw lanes, the candidates fused from them, and the nanoseconds of both."""

    lanes: Lanes
    fused: list[Candidate]
    nanoseconds: int = 0


class Pool(NamedTuple):
    """Where memories stand among all of a scope, by id: rank in the text lane; rank and distance in the vector lane."""

    fts: dict[str, int]
    vec: dict[str, tuple[int, float]]


# How deep the whole pool is ranked: what is not among these is not near.
POOL_DEPTH = 50
Shared = MutableMapping[tuple[Filter, int], Searched]


class Tiers:
    """The tiers of one turn. ``shared`` keeps what was found, so that arms which look alike search once.

    ``asked`` are the filters in the order of asking, ``searched`` what they found. ``booking`` is where searching and
    fusing are booked.
    """

    def __init__(
        self, view: View, rows: Sequence[Row], limit: int, shared: Shared, booking: Booking | None = None
    ) -> None:
        self.asked: list[Filter] = []
        self.searched: list[Searched] = []
        self.limit = limit
        self.booking = booking or Booking()
        self._view, self._rows, self._shared = view, rows, shared
        self._pools: dict[str | None, Pool] = {}

    def fused(self, plan: TierPlan, scope: str | None) -> list[Candidate]:
        """Candidates of one tier in one scope (None: in any), best first."""
        where = Filter(scope, plan.labels)
        key = where, self.limit

        def find() -> Searched:
            found = self._shared.get(key)
            if found is None:
                lanes = self._view.search(where, self.limit)
                started = time.perf_counter_ns()
                fused = fuse(lanes, self._rows, self.limit)
                spent = lanes.nanoseconds + time.perf_counter_ns() - started
                found = self._shared[key] = Searched(lanes, fused, spent)
            return found

        found = self.booking.share(("tier", key), find)
        self.asked.append(where)
        self.searched.append(found)
        return found.fused

    def pool(self, scope: str | None) -> Pool:
        """Both lanes over every memory of a scope, whatever its label.

        Searched beside the tiers, so no receipt counts it.
        """
        found = self._pools.get(scope)
        if found is None:
            lanes = self.booking.search(self._view, Filter(scope), POOL_DEPTH)
            found = self._pools[scope] = Pool(
                {self._rows[hit.row].id: rank for rank, hit in enumerate(lanes.fts, 1)},
                {self._rows[hit.row].id: (rank, hit.distance) for rank, hit in enumerate(lanes.vec, 1)},
            )
        return found

    def unnoted(self) -> Tiers:
        """The same tiers for a second look, which no receipt should count."""
        return Tiers(self._view, self._rows, self.limit, self._shared, self.booking)

    def told(self, settings: ReceiptSettings) -> tuple[Lane, Lane]:
        """What a receipt says of both lanes: all their raw hits over the whole run."""
        listed = most_listed(settings)
        return self._told([one.lanes.fts for one in self.searched], listed), self._told(
            [one.lanes.vec for one in self.searched], listed
        )

    def _told(self, lanes: Sequence[Sequence[Hit]], listed: int) -> Lane:
        rows, hits = self._rows, [hit for lane in lanes for hit in lane]
        ids = {rows[hit[0]].id for hit in hits}
        best = hits
        # Rounding moves a score by half a millionth at most, and it is what costs: a hit that is clearly worse than
        # as many as are listed is spared it. An id that stands there twice takes one place, and none takes none.
        if len(ids) == len(hits) > listed and "" not in ids:
            floor = sorted([hit[1] for hit in hits], reverse=True)[listed - 1] - 2e-6
            best = [hit for hit in hits if hit[1] >= floor]
        return Lane(ids, best_listed([(rows[row].id, score, distance) for row, score, distance in best], listed))
