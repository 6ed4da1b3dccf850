"""HarmBeside@k: whether a misleading memory stands in the prompt beside what is right."""

from __future__ import annotations

from lab.measures.definitions.net_benefit import right_and_wrong
from lab.measures.inputs import Floats, Probes, where_any
from lab.measures.model import ITSELF, YES, InjectedMeasure


def harm_beside(probes: Probes, k: int) -> Floats:
    """Return the value of each probe."""
    right, wrong = right_and_wrong(probes, k)
    return where_any(probes.misleading.gold, wrong * right)


MEASURE = InjectedMeasure(
    name="HarmBeside",
    values=harm_beside,
    better="lower",
    range=YES,
    source=ITSELF,
    definition=(
        "A memory judged misleading and a relevant one stand in the prompt (injected among the first k, or lines of "
        "the Working Set); null where none is judged misleading. For corrections: the old value beside the new."
    ),
    sentence=(
        "a misleading memory stands beside what is right at {candidate:.0%} of the probes that have one, against "
        "{baseline:.0%}"
    ),
    order=126,
)
