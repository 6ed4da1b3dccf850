"""What a selection policy returns."""

from __future__ import annotations

from typing import NamedTuple

from lab.retrieval.collation import id_order
from lab.retrieval.row import Candidate


class TierCount(NamedTuple):
    """How many candidates a tier had and how many of them were selected."""

    tier: str
    labels: tuple[str, ...]
    candidates: int
    selected: int


class Picked(NamedTuple):
    """A selected candidate with the tier it came from and the step that took it."""

    candidate: Candidate
    tier: str
    decision: str


class Quota(NamedTuple):
    """The quotas that held, and how many places the wildcard filled (E-15, step 8)."""

    must_max: int
    nice_min: int
    unknown_max: int
    wildcard_used: int = 0


class Selection(NamedTuple):
    """A selection in injection order. ``quota`` is None for policies without quotas."""

    picked: list[Picked]
    tier_counts: list[TierCount]
    rejected: list[str]
    quota: Quota | None = None


def by_rank(one: Candidate) -> tuple[float, float, str]:
    """The key that orders hits against each other: best score first, then newest, then the order of ids."""
    return -one.score, -one.created_at, id_order(one.id)
