"""CleanHit@k: whether a relevant memory was injected and no misleading one."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.inputs import Floats, Probes
from lab.measures.model import ITSELF, YES, InjectedMeasure


def clean_hit(probes: Probes, k: int) -> Floats:
    """Return 1 where a relevant memory and no misleading one is among the first k, else 0."""
    return success(probes.injected, k) * (1.0 - success(probes.misleading, k))


MEASURE = InjectedMeasure(
    name="CleanHit",
    values=clean_hit,
    better="higher",
    range=YES,
    source=ITSELF,
    definition="A relevant memory is injected among the first k, and no memory judged misleading is.",
    sentence=(
        "a relevant memory and nothing misleading is injected at {candidate:.0%} of the probes, against {baseline:.0%}"
    ),
    order=122,
)
