"""SensitiveLeak@k: whether a private fact of another scope reaches the prompt."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.model import ITSELF, YES, InjectedMeasure

MEASURE = InjectedMeasure(
    name="SensitiveLeak",
    values=lambda probes, k: success(probes.misleading, k),
    better="lower",
    range=YES,
    source=ITSELF,
    family="sensitive_scope",
    definition="A private memory of another scope, which lies near the topic, is injected among the first k.",
    sentence="a private memory of another scope is injected at {candidate:.0%} of the probes, against {baseline:.0%}",
    order=154,
)
