"""UptakeDelay@k: how long it takes until a correction wins."""

from __future__ import annotations

from lab.measures.definitions.net_benefit import right_and_wrong
from lab.measures.inputs import Floats, Probes, groups_of
from lab.measures.model import COUNT, ITSELF, InjectedMeasure


def uptake_delay(probes: Probes, k: int) -> Floats:
    """Return the delay of each correction at its first probe, NaN at all others."""
    import numpy as np

    right, wrong = right_and_wrong(probes, k)
    won = right > wrong
    delays = np.full(len(won), np.nan)
    for about in groups_of(probes.corrections):
        if len(about) > 1:
            wins = about[won[about]]
            delays[about[0]] = probes.points[wins[0] if len(wins) else about[-1]] - probes.points[about[0]]
    return delays


MEASURE = InjectedMeasure(
    name="UptakeDelay",
    values=uptake_delay,
    better="lower",
    range=COUNT,
    source=ITSELF,
    missing=None,
    across=True,
    definition=(
        "Recall points from the first probe about a correction to the first at which it wins: it stands in the prompt, "
        "and nothing misleading does. If it never wins, those to its last probe; null with one probe."
    ),
    order=127,
)
