"""The tiers of automatic recall, in the order in which they are searched (E-13)."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from lab.recordings.model import MUST, NICE, UNKNOWN


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
