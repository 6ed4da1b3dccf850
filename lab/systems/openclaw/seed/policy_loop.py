"""The seeds' policy tiers (seed 001; E-17): must and nice first, then unknown, then ignore, while slots remain.

The public plugin contains this loop but never calls it. Seed 001 requires the loop's tier name in receipts.
"""

from __future__ import annotations

from lab.recordings.model import IGNORE, UNKNOWN
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount
from lab.systems.openclaw.select.policies import Search
from lab.systems.openclaw.select.tier_quota import tier_quota_v1
from lab.systems.openclaw.select.tiers import TierPlan, recall_plans

IGNORE_PLAN = TierPlan("ignore", (IGNORE,))
WIDER = (TierPlan("unknown", (UNKNOWN,)), IGNORE_PLAN)
BASE = "must+nice"


def policy_loop_v0(limit: int, quota: Quota, search: Search, *, strict_caps: bool) -> Selection:
    """Select must and nice with quotas; extend to unknown, then to ignore, only while slots remain."""
    first = tier_quota_v1(recall_plans(unknown_fallback=False), limit, quota, search, strict_caps=strict_caps)
    picked, counts = list(first.picked), list(first.tier_counts)
    seen = {pick.candidate.id for pick in picked}
    for plan in WIDER:
        if len(picked) >= limit:
            break
        counts.append(_fill(picked, seen, limit, plan, search))
    return Selection(picked, counts, first.rejected, first.quota)


def ignore_fill(limit: int, search: Search) -> Selection:
    """Select the best memories labelled ignore, for a recall that would otherwise be empty (seed 001)."""
    picked = list[Picked]()
    count = _fill(picked, set(), limit, IGNORE_PLAN, search)
    return Selection(picked, [count], ["budget_cap"] if len(picked) >= limit else [])


def _fill(picked: list[Picked], seen: set[str], limit: int, plan: TierPlan, search: Search) -> TierCount:
    """Append the best candidates of a tier while slots remain."""
    candidates, before = search(plan), len(picked)
    for candidate in candidates:
        if len(picked) < limit and candidate.id not in seen:
            seen.add(candidate.id)
            picked.append(Picked(candidate, plan.tier, f"{plan.tier}_fill"))
    return TierCount(plan.tier, plan.labels, len(candidates), len(picked) - before)


def policy_tier(selection: Selection) -> str:
    """Return the tiers that the loop used: ``must+nice``, ``must+nice+unknown`` or ``must+nice+unknown+ignore``."""
    used = {pick.tier for pick in selection.picked}
    if "ignore" in used:
        return f"{BASE}+unknown+ignore"
    return f"{BASE}+unknown" if "unknown" in used else BASE
