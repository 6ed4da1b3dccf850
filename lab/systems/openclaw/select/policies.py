"""The registry of selection policies by name. All callers look policies up here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lab.base.errors import UnusableInput
from lab.retrieval.row import Candidate
from lab.systems.openclaw.many.selection import Arrange, tier_first_slots, tier_quota_slots
from lab.systems.openclaw.select.outcome import Selection
from lab.systems.openclaw.select.tier_first import tier_first_v1
from lab.systems.openclaw.select.tier_quota import tier_quota_v1
from lab.systems.openclaw.select.tiers import TierPlan

if TYPE_CHECKING:
    from lab.systems.openclaw.config.settings import AutoRecall

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
        raise UnusableInput(f"unknown selection policy {name!r}; known: {', '.join(POLICIES)}") from None


def many_of(name: str) -> Arrange | None:
    """Return the vectorised version of a policy; None if it has none. Raise as :func:`policy_named`."""
    return MANY.get(policy_named(name))
