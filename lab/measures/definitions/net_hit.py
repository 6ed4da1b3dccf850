"""NetHit@k: hits minus harms.

The net benefit of Vickers and Elkin (2006) at a threshold of one half, where a harm weighs as much as a hit; the linear
utility of TREC's filtering tracks has the same form with other weights. Equal weights are the neutral choice: neither
the golden set nor the design documents say what a misleading memory costs. A probe with both counts 0, like silence.
CleanHit does not distinguish harm alone from silence; NetHit does, also at probes that have no relevant memory.
"""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.model import NET, InjectedMeasure

MEASURE = InjectedMeasure(
    name="NetHit",
    values=lambda probes, k: success(probes.injected, k) - success(probes.misleading, k),
    better="higher",
    range=NET,
    source="Vickers and Elkin 2006",
    probes="all",
    definition=(
        "1 if a relevant memory is injected among the first k, minus 1 if a memory judged misleading is: silence "
        "counts 0, harm alone -1. Every judged probe has a value, also one that needs no memory."
    ),
    order=124,
)
