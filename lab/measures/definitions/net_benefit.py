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


def right_and_wrong(probes: Probes, k: int) -> tuple[Floats, Floats]:
    """Return 1 where a relevant memory stands in the prompt, and where a misleading one does, else 0.

    It does if it is among the first k that were injected, or a line of the Working Set.
    """
    import numpy as np

    right = np.maximum(success(probes.injected, k), probes.pinned.relevant.any(axis=1))
    return right, np.maximum(success(probes.misleading, k), probes.pinned_misleading.relevant.any(axis=1))


def net_benefit(probes: Probes, k: int) -> Floats:
    """Return the value of each probe: 1, 1 - :data:`BESIDE`, 0, or -1."""
    right, wrong = right_and_wrong(probes, k)
    return where_any(probes.misleading.gold, right - wrong * (1 - (1 - BESIDE) * right))


MEASURE = InjectedMeasure(
    name="NetBenefit",
    values=net_benefit,
    better="higher",
    range=SIGNED,
    source="Vickers and Elkin 2006",
    probes="all",
    definition=(
        "1 if a relevant memory is injected among the first k or a line of the Working Set, 0.5 if one judged "
        "misleading is, too, -1 if only that is, 0 if neither is; null where none is judged misleading."
    ),
    sentence=(
        "hits less harms are {candidate:+.2f} at the probes at which something can mislead, against {baseline:+.2f}"
    ),
    order=123,
)
