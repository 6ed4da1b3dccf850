"""How much of what each arm returned was judged: the figure beside every hit.

An unjudged memory counts as not relevant, so an arm that returns more unjudged memories may look worse than it
is, and two arms whose shares differ are not measured alike (Buckley and Voorhees 2004 on incomplete judgements).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lab.base.formatting import number
from lab.runs.scores import Scores

# Two arms whose Judged@k differ by more than this are not measured alike.
MOST_APART = 0.05
ROUNDING = 1e-9


def judged_means(scores: Scores, cutoff: int) -> dict[str, float]:
    """Return the mean of Judged@cutoff by arm, for the arms that have values and inject anything at all."""
    means = {}
    for arm in scores.arms:
        of_arm = scores.of_arm(arm)
        items = of_arm.get("InjectedItems")
        values = of_arm[name].value if (name := f"Judged@{cutoff}") in of_arm else []
        if values and (items is None or any(items.value)):
            means[arm] = math.fsum(values) / len(values)
    return means


def apart(shares: Mapping[str, float], cutoff: int) -> str | None:
    """Return a warning if Judged@cutoff of some arms differ by more than :data:`MOST_APART`; else None."""
    if len(shares) < 2 or max(shares.values()) - min(shares.values()) <= MOST_APART + ROUNDING:
        return None
    listed = ", ".join(f"{arm} {number(share)}" for arm, share in shares.items())
    return (
        f"the arms are not judged alike: Judged@{cutoff} is {listed}, and a memory that was not judged counts as not "
        "relevant; judge what they return, as lab golden pool lists it, before you trust a difference in hits"
    )


def as_json(shares: Mapping[str, float], cutoff: int) -> dict[str, Any]:
    """Return plain values for JSON."""
    return {"k": cutoff, "shares": dict(shares), "apart": apart(shares, cutoff)}
