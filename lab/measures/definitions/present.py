"""Present@k: whether a relevant memory reached the prompt in any form."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.inputs import Floats, Probes
from lab.measures.model import SEED_000, YES, InjectedMeasure


def present(probes: Probes, k: int) -> Floats:
    """Return 1 where a relevant memory is among the first k injected ones or in the Working Set, else 0."""
    return ((success(probes.injected, k) > 0) | probes.pinned.gains.any(axis=1)).astype(float)


MEASURE = InjectedMeasure(
    name="Present",
    values=present,
    better="higher",
    range=YES,
    source=SEED_000,
    definition="A relevant memory is in the prompt: injected among the first k, or a line of the Working Set.",
    order=110,
)
