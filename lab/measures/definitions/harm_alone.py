"""HarmAlone@k: whether a misleading memory stands in the prompt and nothing that corrects it."""

from __future__ import annotations

from lab.measures.definitions.success import success
from lab.measures.inputs import where_any
from lab.measures.model import ITSELF, YES, InjectedMeasure

MEASURE = InjectedMeasure(
    name="HarmAlone",
    values=lambda probes, k: where_any(
        probes.misleading.gold, success(probes.misleading, k) * (1.0 - success(probes.injected, k))
    ),
    better="lower",
    range=YES,
    source=ITSELF,
    probes="all",
    definition=(
        "A memory judged misleading is injected among the first k, and no relevant one; null where none is judged "
        "misleading. For corrections: the old value alone."
    ),
    sentence="a misleading memory stands alone at {candidate:.0%} of the probes that have one, against {baseline:.0%}",
    order=125,
)
