"""tier_first_v1 (E-14): must fills the slots first; a later tier is searched only while slots remain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.retrieval.row import Candidate
from lab.systems.openclaw.select.outcome import Picked, Selection, TierCount
from lab.systems.openclaw.select.tiers import TierPlan


def tier_first_v1(
    plans: Sequence[TierPlan], limit: int, search: Callable[[TierPlan], Sequence[Candidate]]
) -> Selection:
    """Select fused candidates tier by tier until ``limit``.

    ``budget_cap`` is reported even if the candidates exactly fill the limit.
    """
    picked: list[Picked] = []
    seen: set[str] = set()
    counts: list[TierCount] = []
    rejected: list[str] = []
    for plan in plans:
        candidates = search(plan)
        before = len(picked)
        for candidate in candidates:
            if len(picked) >= limit:
                break
            if candidate.id not in seen:
                seen.add(candidate.id)
                picked.append(Picked(candidate, plan.tier, f"{plan.tier}_first"))
        counts.append(TierCount(plan.tier, plan.labels, len(candidates), len(picked) - before))
        if not candidates and plan.miss_reason:
            rejected.append(plan.miss_reason)
        if len(picked) >= limit:
            rejected.append("budget_cap")
            break
    return Selection(picked, counts, rejected)
