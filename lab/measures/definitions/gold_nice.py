"""GoldNice@k: whether relevant memories labelled nice_to_have are injected.

Unlike NicePresence, it is not 1 by construction under tier_quota_v1.
"""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.inputs import Floats, Judged, where_any
from lab.measures.model import SEED_000, YES, InjectedMeasure


def gold_nice(nice: Judged, k: int) -> Floats:
    """Return 1 where a memory of ``nice`` is among the first k, else 0; NaN where there is none."""
    return where_any(nice.gold, success(nice, k))


MEASURE = InjectedMeasure(
    name="GoldNice",
    values=lambda probes, k: gold_nice(probes.nice, k),
    better="higher",
    range=YES,
    source=SEED_000,
    definition="A relevant memory labelled nice_to_have is injected among the first k; null where none is visible.",
    sentence=(
        "a relevant nice_to_have memory is injected at {candidate:.0%} of the probes that have one, "
        "against {baseline:.0%}"
    ),
    order=100,
)
