"""Forbidden@k: whether a misleading memory was injected."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.inputs import where_any
from lab.measures.model import ITSELF, YES, InjectedMeasure

MEASURE = InjectedMeasure(
    name="Forbidden",
    values=lambda probes, k: where_any(probes.misleading.gold, success(probes.misleading, k)),
    better="lower",
    range=YES,
    source=ITSELF,
    definition="A memory judged misleading is injected among the first k; null where none is judged misleading.",
    probes="all",
    sentence="a misleading memory is injected at {candidate:.0%} of the probes that have one, against {baseline:.0%}",
    order=120,
)
