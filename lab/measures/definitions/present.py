"""Present@k: whether a relevant memory reached the prompt in any form."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.model import SEED_000, YES, InjectedMeasure

MEASURE = InjectedMeasure(
    name="Present",
    values=lambda probes, k: ((success(probes.injected, k) > 0) | probes.pinned.gains.any(axis=1)).astype(float),
    better="higher",
    range=YES,
    source=SEED_000,
    definition="A relevant memory is in the prompt: injected among the first k, or a line of the Working Set.",
    order=110,
)
