"""One selection over a primary scope and its fallbacks (E-16): each scope is selected from afresh."""

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
    barred: str | None = None,
) -> ScopedSelection:
    """Run ``choose(scope, places left)`` scope by scope until the places are filled.

    Quotas hold in full in every scope, so they are not what is left of them. ``barred`` is why fallbacks are not
    allowed, where they are not.
    """
    found = Selection([], [], [])
    consulted: list[str] = []
    used: list[str] = []
    from_primary = 0
    for scope, origin in plan:
        if len(found.picked) >= limit:
            break
        before = len(found.picked)
        found = _joined(found, choose(scope, max(1, limit - before)), "" if origin == "primary" else f"{scope}:")
        if origin == "primary":
            from_primary = len(found.picked)
            continue
        consulted.append(str(scope))
        if len(found.picked) > before:
            used.append(str(scope))
    contributed = max(0, len(found.picked) - from_primary)
    return ScopedSelection(found, fallback_receipt(policy, barred, consulted, used, contributed))


def fallback_receipt(
    policy: ScopePolicy,
    barred: str | None = None,
    consulted: Sequence[str] = (),
    used: Sequence[str] = (),
    contributed: int = 0,
) -> dict[str, Any]:
    """What a receipt says of the fallback: which scopes were consulted, and which of them gave something."""
    suppressed = "disabled" if not policy.enabled else barred if policy.fallback_scopes else "no_fallback_scopes"
    return {
        "eligible": suppressed is None,
        "consulted": bool(consulted),
        "consultedScopes": list(consulted),
        "usedScopes": list(used),
        "contributed": contributed,
        "suppressedReason": suppressed,
    }


def _joined(one: Selection, other: Selection, prefix: str) -> Selection:
    """A selection and what another scope adds to it, its tiers named with a ``prefix``."""
    seen = {taken.candidate.id for taken in one.picked}
    added: list[Picked] = [taken for taken in other.picked if taken.candidate.id not in seen]
    counts: list[TierCount] = [count._replace(tier=f"{prefix}{count.tier}") for count in other.tier_counts]
    quota: Quota | None = one.quota
    if other.quota is not None:
        quota = other.quota._replace(wildcard_used=other.quota.wildcard_used + (quota.wildcard_used if quota else 0))
    return Selection(one.picked + added, one.tier_counts + counts, one.rejected + other.rejected, quota)
