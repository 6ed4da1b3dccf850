"""Select from a primary scope and its fallbacks (E-16), one independent selection per scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection, TierCount


class ScopedSelection(NamedTuple):
    """The joined selection of all scopes, and the receipt of the fallback."""

    selection: Selection
    fallback: dict[str, Any]


def select_in_scopes(
    plan: Sequence[tuple[str | None, str]],
    limit: int,
    choose: Callable[[str | None, int], Selection],
    policy: ScopePolicy,
    barred: str | None = None,
) -> ScopedSelection:
    """Call ``choose(scope, remaining slots)`` scope by scope until the slots are filled.

    ``choose`` decides whether quotas hold in each scope or over all of them. ``barred`` is the reason why fallbacks are
    suppressed, if they are.
    """
    selection = Selection([], [], [])
    consulted: list[str] = []
    used: list[str] = []
    from_primary = 0
    for scope, origin in plan:
        if len(selection.picked) >= limit:
            break
        count = len(selection.picked)
        selection = joined(selection, choose(scope, max(1, limit - count)), "" if origin == "primary" else f"{scope}:")
        if origin == "primary":
            from_primary = len(selection.picked)
            continue
        consulted.append(str(scope))
        if len(selection.picked) > count:
            used.append(str(scope))
    contributed = max(0, len(selection.picked) - from_primary)
    return ScopedSelection(selection, fallback_receipt(policy, barred, consulted, used, contributed))


def fallback_receipt(
    policy: ScopePolicy,
    barred: str | None = None,
    consulted: Sequence[str] = (),
    used: Sequence[str] = (),
    contributed: int = 0,
) -> dict[str, Any]:
    """Return the receipt of the fallback: which scopes were consulted, and which of them contributed."""
    suppressed = "disabled" if not policy.enabled else barred if policy.fallback_scopes else "no_fallback_scopes"
    return {
        "eligible": suppressed is None,
        "consulted": bool(consulted),
        "consultedScopes": list(consulted),
        "usedScopes": list(used),
        "contributed": contributed,
        "suppressedReason": suppressed,
    }


def joined(selection: Selection, other: Selection, prefix: str) -> Selection:
    """Return a selection extended by that of another scope, whose tiers get a ``prefix``."""
    seen = {pick.candidate.id for pick in selection.picked}
    added: list[Picked] = [pick for pick in other.picked if pick.candidate.id not in seen]
    counts: list[TierCount] = [count._replace(tier=f"{prefix}{count.tier}") for count in other.tier_counts]
    quota: Quota | None = selection.quota
    if other.quota is not None:
        quota = other.quota._replace(wildcard_used=other.quota.wildcard_used + (quota.wildcard_used if quota else 0))
    return Selection(
        selection.picked + added, selection.tier_counts + counts, selection.rejected + other.rejected, quota
    )
