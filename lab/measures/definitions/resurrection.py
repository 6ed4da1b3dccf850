"""Resurrection@k: whether what was corrected comes back after the correction had won."""

from __future__ import annotations

from lab.measures.definitions.net_benefit import right_and_wrong
from lab.measures.inputs import Floats, Probes, groups_of
from lab.measures.model import ITSELF, YES, InjectedMeasure


def resurrection(probes: Probes, k: int) -> Floats:
    """Return whether a misleading memory is injected, at probes of a correction that has won before; else NaN."""
    import numpy as np

    right, wrong = right_and_wrong(probes, k)
    won = right > wrong
    found = np.full(len(won), np.nan)
    for about in groups_of(probes.corrections):
        later = about[np.cumsum(won[about]) - won[about] > 0]
        found[later] = wrong[later]
    return found


MEASURE = InjectedMeasure(
    name="Resurrection",
    values=resurrection,
    better="lower",
    range=YES,
    source=ITSELF,
    missing=None,
    across=True,
    definition=(
        "At probes about a correction that has won before: a memory judged misleading stands in the prompt; null "
        "elsewhere. Each arm has its own probes; two arms are compared at those of both."
    ),
    order=128,
)
