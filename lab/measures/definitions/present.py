"""Present: whether a relevant memory reached the prompt in any form."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.conversation import Probes
from lab.measures.model import SEED_000, YES, ProbeMeasure


def present(probes: Probes) -> Floats:
    """Return 1 where a relevant memory was injected or in the Working Set, else 0."""
    return (probes.injected.gains.any(axis=1) | probes.pinned.gains.any(axis=1)).astype(float)


MEASURE = ProbeMeasure(
    name="Present",
    values=present,
    better="higher",
    range=YES,
    source=SEED_000,
    definition="A relevant memory is in the prompt, as an item or as a line of the Working Set.",
    order=110,
)
