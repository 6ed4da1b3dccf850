"""HarmAlone@k: whether a misleading memory stands in the prompt and nothing that corrects it."""

from __future__ import annotations

from lab.measures.definitions.net_benefit import right_and_wrong
from lab.measures.inputs import Floats, Probes, where_any
from lab.measures.model import ITSELF, YES, InjectedMeasure


def harm_alone(probes: Probes, k: int) -> Floats:
    """Return the value of each probe."""
    right, wrong = right_and_wrong(probes, k)
    return where_any(probes.misleading.gold, wrong * (1.0 - right))


MEASURE = InjectedMeasure(
    name="HarmAlone",
    values=harm_alone,
    better="lower",
    range=YES,
    source=ITSELF,
    probes="all",
    definition=(
        "A memory judged misleading stands in the prompt (injected among the first k, or a line of the Working Set) "
        "and no relevant one does; null where none is judged misleading. For corrections: the old value alone."
    ),
    sentence="a misleading memory stands alone at {candidate:.0%} of the probes that have one, against {baseline:.0%}",
    order=125,
)
