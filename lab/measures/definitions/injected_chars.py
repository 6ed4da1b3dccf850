"""InjectedChars: how long the injected block is."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns
from lab.measures.model import COUNT, ITSELF, TurnMeasure


def injected_chars(turns: Turns) -> Floats:
    """Return the length of the injected block in UTF-16 units."""
    return turns.chars.astype(float)


MEASURE = TurnMeasure(
    name="InjectedChars",
    values=injected_chars,
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Length of the injected block, in UTF-16 units.",
    order=100,
)
