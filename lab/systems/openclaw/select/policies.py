"""The selection policies of the engine, and their registry by name. All callers look policies up here.

tier_first_v1 (E-14): must fills the slots first; a later tier is searched only while slots remain. tier_quota_v1
(E-15): all tiers are searched; quotas fill most slots, and the best remaining candidates fill the others. A policy may
have a vectorised form, in which ``c`` configurations choose from ``n`` candidates in one step (:data:`MANY`); property
tests compare its selections with those of the policy, which defines the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.retrieval.contract import Candidate
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount, TierPlan, by_rank, recall_plans

if TYPE_CHECKING:
    import numpy as np

    from lab.systems.openclaw.config.settings import AutoRecall


TIERS = ("must", "nice", "unknown")


class Knobs(NamedTuple):
    """The settings that differ within a group, one entry per configuration.

    ``quotas`` int64 ``[c, 3]``: maximum of must, minimum of nice, maximum of unknown. ``strict`` bool and ``windows``
    int64 ``[c]``. ``factors`` float64 ``[c, max window + 1]``: the score factor after each number of injections.
    """

    quotas: np.ndarray
    strict: np.ndarray
    windows: np.ndarray
    factors: np.ndarray


class Offered(NamedTuple):
    """The candidates of a recall point, best first for each configuration, and the number of ``slots``.

    ``tiers`` int8 ``[c, n]`` (indices into :data:`TIERS`), ``members`` bool ``[c, n]`` by tier, ``rank`` int64
    ``[c, n]``: rank within the tier, from 0. ``sizes``: number of candidates by tier, for all configurations or int64
    ``[c]``. ``recent`` bool ``[c, n]``: whether a candidate may take the slot of an unknown one.

    A configuration with fewer candidates than ``n`` ends with some that are members of no tier, with a rank beyond all
    slots; their slots have no meaning.
    """

    knobs: Knobs
    slots: int
    sizes: Sequence[int] | Sequence[np.ndarray]
    tiers: np.ndarray
    members: Sequence[np.ndarray]
    rank: np.ndarray
    recent: np.ndarray


# Returns the slot of every candidate, int64 ``[c, n]``; numbers from ``slots`` on mean not selected.
Arrange = Callable[[Offered], "np.ndarray"]


def tier_first_slots(offered: Offered) -> np.ndarray:
    """Return the slots under tier_first_v1: tier after tier."""
    import numpy as np

    must, nice, _ = (np.broadcast_to(size, len(offered.tiers)) for size in offered.sizes)
    starts = np.stack([np.zeros_like(must), must, must + nice], axis=1)
    slot: np.ndarray = np.take_along_axis(starts, offered.tiers.astype(np.intp), axis=1) + offered.rank
    return slot


def tier_quota_slots(offered: Offered) -> np.ndarray:
    """Return the slots under tier_quota_v1: the blocks must, nice, unknown, then wildcards."""
    import numpy as np

    knobs, slots, sizes, tiers, members, rank, recent = offered
    must_max, nice_min, unknown_max = knobs.quotas.T
    nice = np.minimum(np.minimum(nice_min, slots), sizes[1])
    must = np.minimum(np.minimum(must_max, np.maximum(0, slots - nice)), sizes[0])
    unknown = np.minimum(np.minimum(unknown_max, np.maximum(0, slots - nice - must)), sizes[2])
    every = np.arange(len(must))[:, None]
    targets = np.stack([must, nice, unknown], axis=1)
    taken = rank < targets[every, tiers]
    third, ahead = np.zeros_like(taken), rank
    caps_left = must_max - must, unknown_max - unknown
    if recent.any():
        # The slots of unknown memories go to the best that are unknown or recent.
        first = taken & ~members[2]
        open_to = members[2] | (recent & ~first & (members[1] | (members[0] & ~knobs.strict[:, None])))
        ahead = counted([open_to])
        room = np.minimum(unknown_max, np.maximum(0, slots - nice - must))
        third = open_to & (ahead < room[:, None])
        taken, unknown = first | third, third.sum(1)
        caps_left = must_max - must - (third & members[0]).sum(1), unknown_max - (third & members[2]).sum(1)
    # What the quota left of each cap; nice has no cap.
    free = np.stack([caps_left[0], np.full_like(nice, len(rank[0])), caps_left[1]], axis=1)
    rest = ~taken & (members[0] | members[1] | members[2])
    preceding = counted([rest & member for member in members])
    within = rest & ((preceding < free[every, tiers]) | ~knobs.strict[:, None])
    over = rest & ~within
    wildcard = np.where(within, np.cumsum(within, axis=1), within.sum(1, keepdims=True) + np.cumsum(over, axis=1)) - 1
    starts = np.stack([np.zeros_like(must), must, must + nice], axis=1)
    block = np.where(third, (must + nice)[:, None] + ahead, starts[every, tiers] + rank)
    slot: np.ndarray = np.where(taken, block, (must + nice + unknown)[:, None] + wildcard)
    return slot


def counted(members: Sequence[np.ndarray]) -> np.ndarray:
    """Return how many members of the same set precede each member, int64 ``[c, n]``; 0 for members of no set."""
    import numpy as np

    counts = np.zeros(members[0].shape, np.int64)
    for member in members:
        counts += np.where(member, np.cumsum(member, axis=1) - 1, 0)
    return counts


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
    """Select at most ``limit`` candidates with quotas for each tier.

    Slots are reserved for nice first, up to its minimum, then for must and for unknown, up to their maxima. Wildcards,
    the best candidates not yet selected from any tier, fill the remaining slots; they are ranked by fused score, then
    newest first, then by id and tier name. The result is ordered must, nice, unknown, wildcard.

    ``strict_caps`` follows seed 000 ("mustMax is a cap, not a target"): wildcards exceed the maximum of must or unknown
    only if no other candidate is left. Without it the maxima apply to the first pass only, as in the public plugin.

    With ``quota.recent_from``, the slots of unknown go to the best candidates that are unknown or recent (seed 000:
    "unknown/recent wildcard: up to 1").
    """
    # Unnamed tiers are ignored. If two plans have the same tier, the quotas use the last one, the wildcards both.
    plans = [plan for plan in plans if plan.tier]
    tiers = [(plan.tier, list(search(plan))) for plan in plans]
    buckets = dict(tiers)
    size = {tier: len(bucket) for tier, bucket in buckets.items()}
    picked: list[Picked] = []
    seen: set[str] = set()
    for tier, target in quota.reserved(size, limit).items():
        if tier == "unknown" and quota.recent_from < math.inf:
            picked += _unknown_or_recent(buckets, seen, limit - len(picked), quota, strict_caps=strict_caps)
            break
        for candidate in buckets.get(tier, ()):
            if target <= 0 or len(picked) >= limit:
                break
            if candidate.id not in seen:
                seen.add(candidate.id)
                picked.append(Picked(candidate, tier, f"{tier}_quota"))
                target -= 1

    wildcards = _wildcards(tiers, seen, limit - len(picked), picked, quota if strict_caps else None)
    picked.extend(wildcards)
    picked_tiers = [pick.tier for pick in picked]
    counts = [TierCount(plan.tier, plan.labels, size[plan.tier], picked_tiers.count(plan.tier)) for plan in plans]
    rejected = [plan.miss_reason for plan in plans if plan.miss_reason and not size[plan.tier]]
    if len(picked) >= limit:
        rejected.append("budget_cap")
    return Selection(picked, counts, rejected, quota._replace(wildcard_used=len(wildcards)))


def _unknown_or_recent(
    buckets: Mapping[str, Sequence[Candidate]], seen: set[str], slots: int, quota: Quota, *, strict_caps: bool
) -> list[Picked]:
    """Return the best candidates that are unknown or recent, for the slots of unknown ones.

    With ``strict_caps`` a recent must candidate takes none: the slots of must are taken, or there is no other.
    """
    room = min(quota.unknown_max, slots)
    if room <= 0:
        return []
    recent = ("nice",) if strict_caps else ("must", "nice")
    pool = sorted(
        (by_rank(candidate), tier, index, candidate)
        for tier in ("unknown", *recent)
        for index, candidate in enumerate(buckets.get(tier, ()))
        if tier == "unknown" or candidate.created_at >= quota.recent_from
    )
    picked: list[Picked] = []
    for *_, tier, _, candidate in pool:
        if len(picked) < room and candidate.id not in seen:
            seen.add(candidate.id)
            picked.append(Picked(candidate, tier, "unknown_quota" if tier == "unknown" else "recent_quota"))
    return picked


def _wildcards(
    tiers: Sequence[tuple[str, list[Candidate]]],
    seen: set[str],
    slots: int,
    picked: list[Picked],
    caps: Quota | None,
) -> list[Picked]:
    """Return the best ``slots`` candidates not yet selected.

    With ``caps``, candidates over their tier's maximum come after all others.
    """
    if slots <= 0:
        return []
    contenders = enumerate(_contenders(tiers, seen, slots))
    pool = sorted((by_rank(candidate), tier, index, candidate) for index, (tier, candidate) in contenders)
    room = {}
    if caps:
        taken = {tier: sum(pick.tier == tier for pick in picked) for tier in CAPPED}
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
    return (within + over)[:slots]


def _contenders(
    tiers: Sequence[tuple[str, list[Candidate]]], seen: set[str], slots: int
) -> list[tuple[str, Candidate]]:
    """Return the candidates that could fill ``slots``: the best of each bucket that are not yet selected.

    This is faster than sorting all candidates. Candidates that tie with the last one are included. An id that occurs in
    several buckets takes only one slot, so one more candidate is kept for each repetition.
    """
    repeated = sum(len(bucket) for _, bucket in tiers) - len({hit.id for _, bucket in tiers for hit in bucket})
    contenders = []
    for tier, bucket in tiers:
        left, last = slots + repeated, 0.0
        for hit in sorted(bucket, key=_SCORE, reverse=True):
            if hit.id in seen:
                continue
            if left <= 0 and hit.score < last:
                break
            left, last = left - 1, hit.score
            contenders.append((tier, hit))
    return contenders


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


Search = Callable[[TierPlan], Sequence[Candidate]]
# Arguments: the tiers in order, the number of slots, the section ``autoRecall``, the function that searches a tier.
Choose = Callable[[Sequence[TierPlan], int, "AutoRecall", Search], Selection]


def _tier_first(plans: Sequence[TierPlan], slots: int, settings: AutoRecall, search: Search) -> Selection:
    return tier_first_v1(plans, slots, search)


def _tier_quota(plans: Sequence[TierPlan], slots: int, settings: AutoRecall, search: Search) -> Selection:
    return tier_quota_v1(plans, slots, settings.quota, search, strict_caps=settings.strict_caps)


# A new selection policy is one file and one line here.
POLICIES: dict[str, Choose] = {
    "tier_first_v1": _tier_first,
    "tier_quota_v1": _tier_quota,
}
# Vectorised versions of policies (lab/systems/openclaw/many), keyed by function so that none is used for another
# policy. A policy without one runs one by one.
MANY: dict[Choose, Arrange] = {_tier_first: tier_first_slots, _tier_quota: tier_quota_slots}


def policy_named(name: str) -> Choose:
    """Return the policy of a name. Raise :class:`UnusableInput`, listing the names, if there is none."""
    try:
        return POLICIES[name]
    except KeyError:
        raise UnusableInput(f"unknown selection policy {name!r}; {choices(name, POLICIES)}") from None


def many_of(name: str) -> Arrange | None:
    """Return the vectorised version of a policy; None if it has none. Raise as :func:`policy_named`."""
    return MANY.get(policy_named(name))


def by_policy(settings: AutoRecall, slots: int, search: Search) -> Selection:
    """Run the configured selection policy in one scope (E-12)."""
    plans = recall_plans(unknown_fallback=settings.include_unknown_fallback)
    return policy_named(settings.selection_mode)(plans, slots, settings, search)
