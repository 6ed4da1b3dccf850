"""Vectorised selection policies: at one recall point, ``c`` configurations choose from ``n`` candidates in one step.

A policy may have such a function (:data:`lab.systems.openclaw.select.policies.MANY`). The policy itself defines the
rule; property tests compare every selection with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

TIERS = ("must", "nice", "unknown")


class Knobs(NamedTuple):
    """The settings that differ within a group, one entry per configuration.

    ``quotas`` int64 ``[c, 3]``: maximum of must, minimum of nice, maximum of unknown. ``strict`` bool and ``windows``
    int64 ``[c]``. ``factors`` float64 ``[c, max window + 1]``: the score factor after each number of injections.
    """

    quotas: np.ndarray
    strict: np.ndarray
    windows: np.ndarray
    factors: np.ndarray


class Offered(NamedTuple):
    """The candidates of a recall point, best first for each configuration, and the number of ``slots``.

    ``tiers`` int8 ``[c, n]`` (indices into :data:`TIERS`), ``members`` bool ``[c, n]`` by tier, ``rank`` int64
    ``[c, n]``: rank within the tier, from 0. ``sizes``: number of candidates by tier. ``recent`` bool ``[c, n]``:
    whether a candidate may take the slot of an unknown one.
    """

    knobs: Knobs
    slots: int
    sizes: Sequence[int]
    tiers: np.ndarray
    members: Sequence[np.ndarray]
    rank: np.ndarray
    recent: np.ndarray


# Returns the slot of every candidate, int64 ``[c, n]``; numbers from ``slots`` on mean not selected.
Arrange = Callable[[Offered], "np.ndarray"]


def tier_first_slots(offered: Offered) -> np.ndarray:
    """Return the slots under tier_first_v1: tier after tier."""
    import numpy as np

    must, nice, _ = offered.sizes
    slot: np.ndarray = np.asarray([0, must, must + nice])[offered.tiers] + offered.rank
    return slot


def tier_quota_slots(offered: Offered) -> np.ndarray:
    """Return the slots under tier_quota_v1: the blocks must, nice, unknown, then wildcards."""
    import numpy as np

    knobs, slots, sizes, tiers, members, rank, recent = offered
    must_max, nice_min, unknown_max = knobs.quotas.T
    nice = np.minimum(np.minimum(nice_min, slots), sizes[1])
    must = np.minimum(np.minimum(must_max, np.maximum(0, slots - nice)), sizes[0])
    unknown = np.minimum(np.minimum(unknown_max, np.maximum(0, slots - nice - must)), sizes[2])
    every = np.arange(len(must))[:, None]
    targets = np.stack([must, nice, unknown], axis=1)
    taken = rank < targets[every, tiers]
    third, ahead = np.zeros_like(taken), rank
    caps_left = must_max - must, unknown_max - unknown
    if recent.any():
        # The slots of unknown memories go to the best that are unknown or recent.
        first = taken & ~members[2]
        open_to = members[2] | (recent & ~first & (members[1] | (members[0] & ~knobs.strict[:, None])))
        ahead = counted([open_to])
        room = np.minimum(unknown_max, np.maximum(0, slots - nice - must))
        third = open_to & (ahead < room[:, None])
        taken, unknown = first | third, third.sum(1)
        caps_left = must_max - must - (third & members[0]).sum(1), unknown_max - (third & members[2]).sum(1)
    # What the quota left of each cap; nice has no cap.
    free = np.stack([caps_left[0], np.full_like(nice, len(rank[0])), caps_left[1]], axis=1)
    rest = ~taken
    preceding = counted([rest & member for member in members])
    within = rest & ((preceding < free[every, tiers]) | ~knobs.strict[:, None])
    over = rest & ~within
    wildcard = np.where(within, np.cumsum(within, axis=1), within.sum(1, keepdims=True) + np.cumsum(over, axis=1)) - 1
    starts = np.stack([np.zeros_like(must), must, must + nice], axis=1)
    block = np.where(third, (must + nice)[:, None] + ahead, starts[every, tiers] + rank)
    slot: np.ndarray = np.where(taken, block, (must + nice + unknown)[:, None] + wildcard)
    return slot


def counted(members: Sequence[np.ndarray]) -> np.ndarray:
    """Return how many members of the same set precede each member, int64 ``[c, n]``; 0 for members of no set."""
    import numpy as np

    counts = np.zeros(members[0].shape, np.int64)
    for member in members:
        counts += np.where(member, np.cumsum(member, axis=1) - 1, 0)
    return counts
