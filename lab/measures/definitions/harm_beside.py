"""HarmBeside@k: whether a misleading memory stands in the prompt beside what is right."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.inputs import where_any
from lab.measures.model import ITSELF, YES, InjectedMeasure

MEASURE = InjectedMeasure(
    name="HarmBeside",
    values=lambda probes, k: where_any(
        probes.misleading.gold, success(probes.misleading, k) * success(probes.injected, k)
    ),
    better="lower",
    range=YES,
    source=ITSELF,
    definition=(
        "A memory judged misleading and a relevant one are injected among the first k; null where none is judged "
        "misleading. For corrections: the old value beside the new. CleanHit is the new value alone."
    ),
    order=126,
)
