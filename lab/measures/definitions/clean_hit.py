"""CleanHit@k: whether a relevant memory was injected and no misleading one."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.model import ITSELF, YES, InjectedMeasure

MEASURE = InjectedMeasure(
    name="CleanHit",
    values=lambda probes, k: success(probes.injected, k) * (1.0 - success(probes.misleading, k)),
    better="higher",
    range=YES,
    source=ITSELF,
    definition="A relevant memory is injected among the first k, and no memory judged misleading is.",
    sentence=(
        "a relevant memory and nothing misleading is injected at {candidate:.0%} of the probes, against {baseline:.0%}"
    ),
    order=122,
)
