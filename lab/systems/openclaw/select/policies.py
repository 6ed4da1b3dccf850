"""The selection policies by name: whoever selects asks here, so a policy runs as itself or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lab.errors import UnusableInput
from lab.retrieval.row import Candidate
from lab.systems.openclaw.many.selection import Arrange, tier_first_slots, tier_quota_slots
from lab.systems.openclaw.select.outcome import Selection
from lab.systems.openclaw.select.tier_first import tier_first_v1
from lab.systems.openclaw.select.tier_quota import tier_quota_v1
from lab.systems.openclaw.select.tiers import TierPlan

if TYPE_CHECKING:
    from lab.systems.openclaw.config.settings import AutoRecall

Search = Callable[[TierPlan], Sequence[Candidate]]
# Tiers in order, how many places there are, the section ``autoRecall``, and what searches a tier.
Choose = Callable[[Sequence[TierPlan], int, "AutoRecall", Search], Selection]


def _tier_first(plans: Sequence[TierPlan], places: int, settings: AutoRecall, search: Search) -> Selection:
    return tier_first_v1(plans, places, search)


def _tier_quota(plans: Sequence[TierPlan], places: int, settings: AutoRecall, search: Search) -> Selection:
    return tier_quota_v1(plans, places, settings.quota, search, strict_caps=settings.strict_caps)


# A new selection policy is one file and one line here.
POLICIES: dict[str, Choose] = {
    "tier_first_v1": _tier_first,
    "tier_quota_v1": _tier_quota,
}
# The same rule over arrays, for a policy that brings it (lab/systems/openclaw/many). It belongs to the function, so
# that no other policy is ever run by it; one without it selects by itself wherever it runs.
MANY: dict[Choose, Arrange] = {_tier_first: tier_first_slots, _tier_quota: tier_quota_slots}


def policy_named(name: str) -> Choose:
    """The policy of that name; :class:`UnusableInput` that lists the names."""
    try:
        return POLICIES[name]
    except KeyError:
        raise UnusableInput(f"unknown selection policy {name!r}; known: {', '.join(POLICIES)}") from None


def many_of(name: str) -> Arrange | None:
    """The fast path of the policy of that name; None where it brings none. Raises as :func:`policy_named`."""
    return MANY.get(policy_named(name))
