"""How alike two lists of memories are: overlap, and Kendall's tau-b."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import pairwise


def overlap(one: Sequence[Hashable], other: Sequence[Hashable]) -> float:
    """Return the number of common memories divided by the length of the longer list; 1 if both are empty."""
    longest = max(len(one), len(other))
    return len({*one} & {*other}) / longest if longest else 1.0


def tau_b(one: Sequence[int], other: Sequence[int]) -> float | None:
    """Return Kendall's tau-b of the ranks of the same memories in two lists, from -1 (reversed) to 1 (equal).

    Equal ranks are ties (Kendall, The treatment of ties in ranking problems, Biometrika 33, 1945). None if there are
    fewer than two memories, or all are tied in one list.
    """
    if len(one) < 2:
        return None
    from scipy.stats import kendalltau

    if len({*one}) == 1 or len({*other}) == 1:
        return None
    value = float(kendalltau(one, other, variant="b").statistic)
    return None if math.isnan(value) else round(value, 12)


def ranks(scores: Sequence[tuple[Hashable, float | None]]) -> list[int]:
    """Return the rank of each entry of a list, given its tier and score.

    Consecutive entries of one tier with equal scores are tied, and have one rank.
    """
    if not scores:
        return []
    found = [0]
    for (tier, score), (next_tier, next_score) in pairwise(scores):
        tied = tier == next_tier and score is not None and score == next_score
        found.append(found[-1] + (not tied))
    return found
