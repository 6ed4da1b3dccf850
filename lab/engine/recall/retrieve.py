"""Searching the tiers of one turn: both lanes, fused, each tier searched once whoever asks (spec 2)."""

from __future__ import annotations

import time
from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

from lab.engine.memory import Candidate, Row
from lab.engine.recall.fuse import fuse
from lab.engine.recall.receipt import Found
from lab.engine.recall.tiers import TierPlan
from lab.engine.store.contract import Filter, Hit, Lanes, View


class Searched(NamedTuple):
    """One tier in one scope: its raw lanes, the candidates fused from them, and the lanes by id for receipts."""

    lanes: Lanes
    fused: list[Candidate]
    fts: list[Found]
    vec: list[Found]


class Pool(NamedTuple):
    """Where memories stand among all of a scope, by id: rank in the text lane; rank and distance in the vector lane."""

    fts: dict[str, int]
    vec: dict[str, tuple[int, float]]


# How deep the whole pool is ranked: what is not among these is not near.
POOL_DEPTH = 50
Shared = MutableMapping[tuple[Filter, int], Searched]


class Tiers:
    """The tiers of one turn. ``shared`` keeps what was found, so that arms which look alike search once.

    ``asked`` are the filters in the order of asking, ``searched`` what they found; ``waited`` is what searching took
    here, in nanoseconds, which is less where another arm had searched before.
    """

    def __init__(self, view: View, rows: Sequence[Row], limit: int, shared: Shared) -> None:
        self.asked: list[Filter] = []
        self.searched: list[Searched] = []
        self.waited = 0
        self.limit = limit
        self._view, self._rows, self._shared = view, rows, shared
        self._pools: dict[str | None, Pool] = {}

    def fused(self, plan: TierPlan, scope: str | None) -> list[Candidate]:
        """Candidates of one tier in one scope (None: in any), best first."""
        where = Filter(scope, plan.labels)
        found = self._shared.get((where, self.limit))
        if found is None:
            started = time.perf_counter_ns()
            lanes = self._view.search(where, self.limit)
            self.waited += time.perf_counter_ns() - started
            found = self._shared[where, self.limit] = Searched(
                lanes, fuse(lanes, self._rows, self.limit), self._by_id(lanes.fts), self._by_id(lanes.vec)
            )
        self.asked.append(where)
        self.searched.append(found)
        return found.fused

    def pool(self, scope: str | None) -> Pool:
        """Both lanes over every memory of a scope, whatever its label.

        Searched beside the tiers, so no receipt counts it.
        """
        found = self._pools.get(scope)
        if found is None:
            started = time.perf_counter_ns()
            lanes = self._view.search(Filter(scope), POOL_DEPTH)
            self.waited += time.perf_counter_ns() - started
            found = self._pools[scope] = Pool(
                {self._rows[hit.row].id: rank for rank, hit in enumerate(lanes.fts, 1)},
                {self._rows[hit.row].id: (rank, hit.distance) for rank, hit in enumerate(lanes.vec, 1)},
            )
        return found

    def unnoted(self) -> Tiers:
        """The same tiers for a second look, which no receipt should count."""
        return Tiers(self._view, self._rows, self.limit, self._shared)

    @property
    def nanoseconds(self) -> int:
        """What the searches cost, whoever waited for them."""
        return sum(one.lanes.nanoseconds for one in self.searched)

    def _by_id(self, hits: Sequence[Hit]) -> list[Found]:
        return [Found(self._rows[row].id, score, distance) for row, score, distance in hits]
