"""What a selection policy is given, the tiers in the order in which they are searched (E-13), and its result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from lab.recordings.model import MUST, NICE, UNKNOWN
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Candidate


class TierCount(NamedTuple):
    """How many candidates a tier has and how many of them were selected."""

    tier: str
    labels: tuple[str, ...]
    candidates: int
    selected: int


class Picked(NamedTuple):
    """A selected candidate with its tier and the step that selected it."""

    candidate: Candidate
    tier: str
    decision: str


class Quota(NamedTuple):
    """The quotas applied, and how many slots the wildcards filled (E-15, step 8).

    ``recent_from``: candidates created since then, in epoch milliseconds, may also take the slots of unknown ones.
    """

    must_max: int
    nice_min: int
    unknown_max: int
    wildcard_used: int = 0
    recent_from: float = math.inf

    def reserved(self, sizes: Mapping[str, int], slots: int) -> dict[str, int]:
        """Return how many of ``slots`` each tier has for itself, given how many candidates there are (E-15, 1 to 3).

        Nice comes first, up to its minimum, then must and unknown, up to their maxima.
        """
        nice = min(self.nice_min, slots, sizes.get("nice", 0))
        must = min(self.must_max, max(0, slots - nice), sizes.get("must", 0))
        unknown = min(self.unknown_max, max(0, slots - nice - must), sizes.get("unknown", 0))
        return {"must": must, "nice": nice, "unknown": unknown}


class Selection(NamedTuple):
    """A selection in injection order. ``quota`` is None for policies without quotas."""

    picked: list[Picked]
    tier_counts: list[TierCount]
    rejected: list[str]
    quota: Quota | None = None


def by_rank(candidate: Candidate) -> tuple[float, float, str]:
    """Return the sort key of hits: best score first, then newest, then by id."""
    return -candidate.score, -candidate.created_at, id_order(candidate.id)


class TierPlan(NamedTuple):
    """A tier: its labels, and the reason reported if it returns nothing."""

    tier: str
    labels: tuple[str, ...]
    miss_reason: str | None = None


@cache
def recall_plans(*, unknown_fallback: bool = True) -> tuple[TierPlan, ...]:
    """Return the tiers must, nice and, with ``unknown_fallback``, unknown.

    Rows labelled ``ignore`` are in no tier, so automatic recall never returns them.
    """
    plans = (TierPlan("must", (MUST,), "no_results_must"), TierPlan("nice", (NICE,), "no_results_nice"))
    return (*plans, TierPlan("unknown", (UNKNOWN,))) if unknown_fallback else plans
