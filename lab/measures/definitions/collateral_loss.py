"""CollateralLoss@k: whether a correction pushes out what was right."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.model import ITSELF, YES, InjectedMeasure

MEASURE = InjectedMeasure(
    name="CollateralLoss",
    values=lambda probes, k: 1.0 - success(probes.injected, k),
    better="lower",
    range=YES,
    source=ITSELF,
    family="collateral",
    missing=None,
    definition=(
        "No relevant memory is injected among the first k where a probe asks for another fact about a thing of which "
        "one fact was corrected."
    ),
    order=150,
)
