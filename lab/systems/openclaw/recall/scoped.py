"""One selection over a primary scope and its fallbacks (spec 3.4): each scope is selected from afresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount


class ScopedSelection(NamedTuple):
    """What all scopes gave together, and the receipt of the fallback."""

    selection: Selection
    fallback: dict[str, Any]


def select_in_scopes(
    plan: Sequence[tuple[str | None, str]],
    limit: int,
    choose: Callable[[str | None, int], Selection],
    policy: ScopePolicy,
    *,
    allow_fallback: bool = True,
    suppressed: str | None = None,
) -> ScopedSelection:
    """Run ``choose(scope, places left)`` scope by scope until the places are filled.

    Quotas hold in full in every scope, so they are not what is left of them. ``suppressed`` is why fallbacks are not
    allowed, where they are not.
    """
    picked: list[Picked] = []
    counts: list[TierCount] = []
    rejected: list[str] = []
    consulted: list[str] = []
    used: list[str] = []
    quota: Quota | None = None
    from_primary = 0
    for scope, origin in plan:
        if len(picked) >= limit:
            break
        found = choose(scope, max(1, limit - len(picked)))
        seen = {one.candidate.id for one in picked}
        added = [one for one in found.picked if one.candidate.id not in seen]
        picked += added
        rejected += found.rejected
        if found.quota is not None:
            wildcards = found.quota.wildcard_used + (quota.wildcard_used if quota else 0)
            quota = found.quota._replace(wildcard_used=wildcards)
        if origin == "primary":
            from_primary = len(picked)
            counts += found.tier_counts
            continue
        counts += [count._replace(tier=f"{scope}:{count.tier}") for count in found.tier_counts]
        consulted.append(str(scope))
        if added:
            used.append(str(scope))
    configured = policy.enabled and bool(policy.fallback_scopes)
    fallback = {
        "eligible": configured and allow_fallback,
        "consulted": bool(consulted),
        "consultedScopes": consulted,
        "usedScopes": used,
        "contributed": max(0, len(picked) - from_primary),
        "suppressedReason": _suppressed(policy, allow_fallback=allow_fallback, reason=suppressed),
    }
    return ScopedSelection(Selection(picked, counts, rejected, quota), fallback)


def _suppressed(policy: ScopePolicy, *, allow_fallback: bool, reason: str | None) -> str | None:
    if not policy.enabled:
        return "disabled"
    if not policy.fallback_scopes:
        return "no_fallback_scopes"
    return None if allow_fallback else (reason or "disabled")
