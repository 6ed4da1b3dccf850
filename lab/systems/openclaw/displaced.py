"""The must_remember memories that a selection displaced: those that must-first would have injected in its place."""

from __future__ import annotations

from collections.abc import Mapping

from lab.retrieval.row import Row
from lab.systems.contract import Recall
from lab.systems.openclaw.recall.retrieve import Tiers


def displaced(tiers: Tiers, scope: str | None, slots: int, recall: Recall, rows: Mapping[str, Row]) -> tuple[str, ...]:
    """Return the keys of the first ``slots`` candidates of the must tier that a recall neither injected nor pinned.

    These are the candidates that ``tier_first_v1`` would have injected in the turn's scope (E-14).
    """
    present = {item.id for item in recall.items[: recall.injected]}.union(recall.pinned)
    keys = (rows[identity].key for identity in tiers.must_first(scope, slots))
    return tuple(key for key in keys if key not in present)
