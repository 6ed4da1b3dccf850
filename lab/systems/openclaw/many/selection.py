"""The selection policies over arrays: one moment, ``c`` configurations that choose among ``n`` candidates in one step.

A policy may bring such a function (:data:`lab.systems.openclaw.select.policies.MANY`). Its rule is that of the policy
itself, which stays the truth: generated tests hold every selection against the policy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

TIERS = ("must", "nice", "unknown")


class Knobs(NamedTuple):
    """What differs within a group, an entry a configuration.

    ``quotas`` int64 ``[c, 3]``: must at most, nice at least, unknown at most. ``strict`` bool and ``windows`` int64
    ``[c]``; ``factors`` float64 ``[c, most window + 1]``: what a score is multiplied by after so many injections.
    """

    quotas: np.ndarray
    strict: np.ndarray
    windows: np.ndarray
    factors: np.ndarray


class Offered(NamedTuple):
    """The candidates of a moment, best first for each configuration, and how many ``places`` there are for them.

    ``tiers`` int8 ``[c, n]`` (places in :data:`TIERS`), ``members`` bool ``[c, n]`` by tier, ``rank`` int64 ``[c, n]``:
    the place among the candidates of the tier. ``sizes``: candidates by tier.
    """

    knobs: Knobs
    places: int
    sizes: Sequence[int]
    tiers: np.ndarray
    members: Sequence[np.ndarray]
    rank: np.ndarray


# int64 ``[c, n]``: the place of injection of every candidate; one from ``places`` on is none.
Arrange = Callable[[Offered], "np.ndarray"]


def tier_first_slots(offered: Offered) -> np.ndarray:
    """Places under tier_first_v1: tier after tier."""
    import numpy as np

    must, nice, _ = offered.sizes
    found: np.ndarray = np.asarray([0, must, must + nice])[offered.tiers] + offered.rank
    return found


def tier_quota_slots(offered: Offered) -> np.ndarray:
    """Places under tier_quota_v1: the blocks must, nice, unknown, then wildcards."""
    import numpy as np

    knobs, places, sizes, tiers, members, rank = offered
    must_max, nice_min, unknown_max = knobs.quotas.T
    nice = np.minimum(np.minimum(nice_min, places), sizes[1])
    must = np.minimum(np.minimum(must_max, np.maximum(0, places - nice)), sizes[0])
    unknown = np.minimum(np.minimum(unknown_max, np.maximum(0, places - nice - must)), sizes[2])
    every = np.arange(len(must))[:, None]
    targets = np.stack([must, nice, unknown], axis=1)
    taken = rank < targets[every, tiers]
    # Places of a cap that the quota left free; nice has no cap.
    free = np.stack([must_max - must, np.full_like(nice, len(rank[0])), unknown_max - unknown], axis=1)
    rest = ~taken
    behind = counted([rest & one for one in members])
    within = rest & ((behind < free[every, tiers]) | ~knobs.strict[:, None])
    over = rest & ~within
    wildcard = np.where(within, np.cumsum(within, axis=1), within.sum(1, keepdims=True) + np.cumsum(over, axis=1)) - 1
    starts = np.stack([np.zeros_like(must), must, must + nice], axis=1)
    place: np.ndarray = np.where(taken, starts[every, tiers] + rank, (must + nice + unknown)[:, None] + wildcard)
    return place


def counted(members: Sequence[np.ndarray]) -> np.ndarray:
    """How many members of its own set stand before each member, int64 ``[c, n]``; 0 for what is in no set."""
    import numpy as np

    found = np.zeros(members[0].shape, np.int64)
    for one in members:
        found += np.where(one, np.cumsum(one, axis=1) - 1, 0)
    return found
