"""tier_quota_v1 (E-15): all tiers are asked; quotas fill most places and the best of the rest fills the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from lab.retrieval.row import Candidate
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount, by_rank
from lab.systems.openclaw.select.tiers import TierPlan

CAPPED = ("must", "unknown")
_SCORE = attrgetter("score")


def tier_quota_v1(
    plans: Sequence[TierPlan],
    limit: int,
    quota: Quota,
    search: Callable[[TierPlan], Sequence[Candidate]],
    *,
    strict_caps: bool,
) -> Selection:
    """Select with quotas.

    Nice is reserved first, then must up to its maximum, then unknown up to its own; what is left goes to a wildcard
    pool of every candidate not yet taken: fused score, then newest, then id, then tier name. The result keeps the
    blocks must, nice, unknown, wildcard.

    ``strict_caps`` is the reading of seed 000 ("mustMax is a cap, not a target"): the wildcard takes a must or an
    unknown beyond its maximum only where no other candidate is left. Without it the maxima bind the first pass alone,
    as in the public plugin.
    """
    # Of two plans with one tier's name the quotas see the last and the wildcard both; a tier without a name is none.
    plans = [plan for plan in plans if plan.tier]
    found = [(plan.tier, list(search(plan))) for plan in plans]
    buckets = dict(found)
    size = {tier: len(bucket) for tier, bucket in buckets.items()}
    nice = min(quota.nice_min, limit, size.get("nice", 0))
    must = min(quota.must_max, max(0, limit - nice), size.get("must", 0))
    unknown = min(quota.unknown_max, max(0, limit - nice - must), size.get("unknown", 0))

    picked: list[Picked] = []
    seen: set[str] = set()
    for tier, target in (("must", must), ("nice", nice), ("unknown", unknown)):
        for candidate in buckets.get(tier, ()):
            if target <= 0 or len(picked) >= limit:
                break
            if candidate.id not in seen:
                seen.add(candidate.id)
                picked.append(Picked(candidate, tier, f"{tier}_quota"))
                target -= 1

    wildcards = _wildcards(found, seen, limit - len(picked), picked, quota if strict_caps else None)
    picked.extend(wildcards)
    tiers = [one.tier for one in picked]
    counts = [TierCount(plan.tier, plan.labels, size[plan.tier], tiers.count(plan.tier)) for plan in plans]
    rejected = [plan.miss_reason for plan in plans if plan.miss_reason and not size[plan.tier]]
    if len(picked) >= limit:
        rejected.append("budget_cap")
    return Selection(picked, counts, rejected, quota._replace(wildcard_used=len(wildcards)))


def _wildcards(
    found: Sequence[tuple[str, list[Candidate]]],
    seen: set[str],
    places: int,
    picked: list[Picked],
    caps: Quota | None,
) -> list[Picked]:
    """The best ``places`` candidates not yet taken.

    Under ``caps`` those over their tier's maximum come after all others.
    """
    if places <= 0:
        return []
    pool = sorted(
        (by_rank(one), tier, place, one) for place, (tier, one) in enumerate(_contenders(found, seen, places))
    )
    room = {}
    if caps:
        taken = {tier: sum(one.tier == tier for one in picked) for tier in CAPPED}
        room = {"must": caps.must_max - taken["must"], "unknown": caps.unknown_max - taken["unknown"]}
    within: list[Picked] = []
    over: list[Picked] = []
    for *_, tier, _, candidate in pool:
        if candidate.id in seen:
            continue
        seen.add(candidate.id)
        free = room.get(tier, 1)
        (within if free > 0 else over).append(Picked(candidate, tier, "wildcard"))
        if tier in room:
            room[tier] -= 1
    return (within + over)[:places]


def _contenders(
    found: Sequence[tuple[str, list[Candidate]]], seen: set[str], places: int
) -> list[tuple[str, Candidate]]:
    """The candidates that could fill ``places``: of each bucket the best not yet taken, and all that tie with the last.

    Sorting the whole pool would find the same, and most of it has no chance. An id that stands in the buckets more
    than once takes one place, so there are as many more contenders.
    """
    repeated = sum(len(bucket) for _, bucket in found) - len({one.id for _, bucket in found for one in bucket})
    contenders = []
    for tier, bucket in found:
        left, last = places + repeated, 0.0
        for one in sorted(bucket, key=_SCORE, reverse=True):
            if one.id in seen:
                continue
            if left <= 0 and one.score < last:
                break
            left, last = left - 1, one.score
            contenders.append((tier, one))
    return contenders
