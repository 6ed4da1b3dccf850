"""Why a must_remember memory that came first in its tier was not injected (seed 000, phase 3; E-68)."""

from __future__ import annotations

from collections.abc import Set

from lab.systems.openclaw.seed.turn import SeedTurn


def not_injected(turn: SeedTurn, *, kept: Set[str]) -> dict[str, str]:
    """Return the reason for each of the first ``maxItems`` must candidates that is not among the ``kept`` ids.

    ``budget``: its slot was dropped. ``backbone_duplicate``: the Working Set holds its text. ``stale_todo``: it is too
    old. ``repeat``: it would have been selected without the repeat penalty. ``filtered``: a limit of age, relevance or
    trust excluded it. ``silent``: the search found nothing relevant enough. ``quota``: others took the slots, which
    cannot happen under ``tier_first_v1``.
    """
    dropped = {slot.id for slot in turn.slots}
    repeated = {*turn.additions.get("suppressedByRepeat", {}).get("ids", ())}

    def reason(identity: str) -> str:
        if identity in dropped:
            return "budget"
        if identity in turn.excluded:
            return "backbone_duplicate"
        if identity in turn.stale:
            return "stale_todo"
        if identity in repeated:
            return "repeat"
        if turn.silent:
            return "silent"
        return "quota" if identity in turn.factors else "filtered"

    first = turn.tiers.must_first(turn.filter_scope, turn.config.max_items)
    return {identity: reason(identity) for identity in first if identity not in kept}
