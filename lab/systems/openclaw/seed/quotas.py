"""Quotas over all scopes of a turn (E-16): a fallback scope gets what the scopes before it left of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.recall.scoped import ScopedSelection, select_in_scopes
from lab.systems.openclaw.select.outcome import Picked, Quota, Selection
from lab.systems.openclaw.select.tier_quota import CAPPED

FULL = "budget_cap"
Scopes = Sequence[tuple[str | None, str]]


class _Over(NamedTuple):
    """A candidate beyond the cap of its tier, with its scope and the name of its tier in the receipt."""

    pick: Picked
    scope: str | None
    tier: str
    fallback: bool


def select_over_scopes(
    scopes: Scopes,
    limit: int,
    choose: Callable[[str | None, int, Quota], Selection],
    quota: Quota,
    policy: ScopePolicy,
    barred: str | None = None,
    *,
    strict_caps: bool,
) -> ScopedSelection:
    """Call ``choose(scope, remaining slots, remaining quota)`` scope by scope until the slots are filled.

    With ``strict_caps``, candidates beyond a cap are taken only if no scope has another candidate.
    """
    left, over = quota, list[_Over]()
    origins = dict(scopes)

    def in_scope(scope: str | None, slots: int) -> Selection:
        nonlocal left
        selection = choose(scope, slots, left)
        if strict_caps:
            fallback = origins[scope] != "primary"
            selection, beyond = _within(selection, left)
            over.extend(
                _Over(pick, scope, f"{scope}:{pick.tier}" if fallback else pick.tier, fallback) for pick in beyond
            )
        left = _rest(left, selection)
        return selection

    scoped = select_in_scopes(scopes, limit, in_scope, policy, barred)
    return _filled(scoped, limit, over, quota)


def _within(selection: Selection, left: Quota) -> tuple[Selection, list[Picked]]:
    """Split a selection into what the caps allow and the candidates beyond them."""
    room = dict(zip(CAPPED, (left.must_max, left.unknown_max), strict=True))
    kept, beyond = list[Picked](), list[Picked]()
    for pick in selection.picked:
        if room.get(pick.tier, 1) > 0:
            kept.append(pick)
            if pick.tier in room:
                room[pick.tier] -= 1
        else:
            beyond.append(pick)
    if not beyond:
        return selection, beyond
    gone = [pick.tier for pick in beyond]
    counts = [count._replace(selected=count.selected - gone.count(count.tier)) for count in selection.tier_counts]
    rejected = [reason for reason in selection.rejected if reason != FULL]
    quota = selection.quota and selection.quota._replace(
        wildcard_used=selection.quota.wildcard_used - _wildcards(beyond)
    )
    return Selection(kept, counts, rejected, quota), beyond


def _wildcards(picked: Sequence[Picked]) -> int:
    """Return how many picks are wildcards; the tier loop fills slots with picks that are not (E-17)."""
    return sum(pick.decision == "wildcard" for pick in picked)


def _rest(left: Quota, selection: Selection) -> Quota:
    """Return what a selection leaves of the quotas. A slot that a recent memory took counts as that of unknown."""
    tiers = [pick.tier for pick in selection.picked]
    recent = sum(pick.decision == "recent_quota" and pick.tier != "unknown" for pick in selection.picked)
    return left._replace(
        must_max=max(0, left.must_max - tiers.count("must")),
        nice_min=max(0, left.nice_min - tiers.count("nice")),
        unknown_max=max(0, left.unknown_max - tiers.count("unknown") - recent),
    )


def _filled(scoped: ScopedSelection, limit: int, over: Sequence[_Over], quota: Quota) -> ScopedSelection:
    """Fill the remaining slots with candidates beyond the caps, and report the configured quota."""
    selection, fallback = scoped
    seen = {pick.candidate.id for pick in selection.picked}
    added = [entry for entry in over if entry.pick.candidate.id not in seen][: max(0, limit - len(selection.picked))]
    tiers = [entry.tier for entry in added]
    picked = [*selection.picked, *(entry.pick for entry in added)]
    counts = [count._replace(selected=count.selected + tiers.count(count.tier)) for count in selection.tier_counts]
    rejected = [*selection.rejected, *([FULL] if added and len(picked) >= limit else ())]
    used = selection.quota.wildcard_used if selection.quota else 0
    from_fallbacks = [str(entry.scope) for entry in added if entry.fallback]
    fallback = fallback | {
        "contributed": fallback["contributed"] + len(from_fallbacks),
        "usedScopes": list(dict.fromkeys([*fallback["usedScopes"], *from_fallbacks])),
    }
    used += _wildcards([entry.pick for entry in added])
    applied = quota._replace(wildcard_used=used) if selection.quota else None
    return ScopedSelection(Selection(picked, counts, rejected, applied), fallback)
