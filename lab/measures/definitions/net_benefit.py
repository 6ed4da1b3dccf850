"""NetBenefit@k: a hit, minus what a misleading memory costs alone or beside what is right.

The net benefit of Vickers and Elkin (2006), over the probes at which something can mislead, so that hits elsewhere buy
no harm. A misleading memory alone costs a whole hit: what follows from it is wrong. Beside a relevant memory, which
corrects it, it costs half: of the models that STALE tested (arXiv 2605.06527, 400 scenarios), the best answers 55 % of
the questions right where an older memory stands beside the newer one, and so fails at about half of them.
"""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.inputs import Floats, Probes, where_any
from lab.measures.model import SIGNED, InjectedMeasure

# What a misleading memory costs beside a relevant one, in hits.
BESIDE = 0.5


def net_benefit(probes: Probes, k: int) -> Floats:
    """Return the value of each probe: 1, 1 - :data:`BESIDE`, 0, or -1."""
    hit, harm = success(probes.injected, k), success(probes.misleading, k)
    return where_any(probes.misleading.gold, hit - harm * (1 - (1 - BESIDE) * hit))


MEASURE = InjectedMeasure(
    name="NetBenefit",
    values=net_benefit,
    better="higher",
    range=SIGNED,
    source="Vickers and Elkin 2006",
    probes="all",
    definition=(
        "1 if a relevant memory is injected among the first k, 0.5 if one judged misleading is, too, -1 if only that "
        "is, 0 if neither is; null where none is judged misleading."
    ),
    sentence=(
        "hits less harms are {candidate:+.2f} at the probes at which something can mislead, against {baseline:+.2f}"
    ),
    order=123,
)
