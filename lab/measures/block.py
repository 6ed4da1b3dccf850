"""What each injected block breaks and costs: memories of the future, twins, raw markup, stale ones, evictions, tokens.

A value an injection; NaN where there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lab.measures.columns import share

if TYPE_CHECKING:
    from lab.columns import Floats, Ints


def block_measures(told: Mapping[str, Floats], injected: Ints, pinned: Ints, foreign: Ints) -> dict[str, Floats]:
    """Every measure of the block, from what receipts tell of it.

    Future, Twins and Unescaped are promises: an engine that keeps its contract has 0 of each.
    """
    return {
        "Future": share(told["future"], injected + pinned),
        "Twins": share(told["twins"], injected),
        "Unescaped": share(told["raw"], injected),
        "StaleRecall": stale_recall(told["stale"], told["outdated"]),
        "AnyWrongScope": (foreign > 0).astype(float),
        "BudgetEvictions": told["evicted"].astype(float),
        "InjectedTokens": told["tokens"].astype(float),
    }


def stale_recall(stale: Floats, outdated: Floats) -> Floats:
    """StaleRecall: 1 if a superseded memory was injected before what supersedes it, or without.

    NaN where nothing was superseded yet.
    """
    import numpy as np

    return np.where(outdated > 0, stale > 0, np.nan)


def never_seen(n: int) -> float:
    """The 95 % upper bound of a rate of which nothing was seen in n independent draws, about 3/n.

    Source: Clopper and Pearson 1934.
    """
    return float(1 - 0.05 ** (1 / n))
