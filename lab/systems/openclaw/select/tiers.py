"""The tiers of automatic recall, in the order in which they are asked (E-13)."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from lab.recordings.model import MUST, NICE, UNKNOWN


class TierPlan(NamedTuple):
    """A tier: which labels it holds, and what is noted when it returns nothing."""

    tier: str
    labels: tuple[str, ...]
    miss_reason: str | None = None


@cache
def recall_plans(*, unknown_fallback: bool = True) -> tuple[TierPlan, ...]:
    """must, nice and, if wanted, unknown.

    Rows labelled ``ignore`` are in no tier: automatic recall never reaches them.
    """
    plans = (TierPlan("must", (MUST,), "no_results_must"), TierPlan("nice", (NICE,), "no_results_nice"))
    return (*plans, TierPlan("unknown", (UNKNOWN,))) if unknown_fallback else plans
