"""The seeds' policy tiers (seed 001; E-17): must and nice first, then unknown, then ignore, while places are left.

The public plugin has this loop and calls it nowhere. Its name for how far it went is what seed 001 wants in receipts.
"""

from __future__ import annotations

from lab.recordings.model import IGNORE, UNKNOWN
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount
from lab.systems.openclaw.select.policies import Search
from lab.systems.openclaw.select.tier_quota import tier_quota_v1
from lab.systems.openclaw.select.tiers import TierPlan, recall_plans

WIDER = (TierPlan("unknown", (UNKNOWN,)), TierPlan("ignore", (IGNORE,)))
BASE = "must+nice"


def policy_loop_v0(limit: int, quota: Quota, search: Search, *, strict_caps: bool) -> Selection:
    """Select must and nice with quotas; widen to unknown, then to ignore, only while places are left."""
    first = tier_quota_v1(recall_plans(unknown_fallback=False), limit, quota, search, strict_caps=strict_caps)
    picked, counts = list(first.picked), list(first.tier_counts)
    seen = {one.candidate.id for one in picked}
    for plan in WIDER:
        if len(picked) >= limit:
            break
        found = search(plan)
        before = len(picked)
        for candidate in found:
            if len(picked) < limit and candidate.id not in seen:
                seen.add(candidate.id)
                picked.append(Picked(candidate, plan.tier, f"{plan.tier}_fill"))
        counts.append(TierCount(plan.tier, plan.labels, len(found), len(picked) - before))
    return Selection(picked, counts, first.rejected, first.quota)


def policy_tier(selection: Selection) -> str:
    """How far the loop had to go: ``must+nice``, ``must+nice+unknown`` or ``must+nice+unknown+ignore``."""
    used = {one.tier for one in selection.picked}
    if "ignore" in used:
        return f"{BASE}+unknown+ignore"
    return f"{BASE}+unknown" if "unknown" in used else BASE
