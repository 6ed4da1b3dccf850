"""Unescaped: markup that reaches the prompt. A safety check: expected to be 0."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, share
from lab.measures.model import ITSELF, SHARE, TurnMeasure


def unescaped(turns: Turns) -> Floats:
    """Return the share of injected memories with unescaped markup; NaN for an empty selection."""
    return share(turns.unescaped, turns.injected)


MEASURE = TurnMeasure(
    name="Unescaped",
    values=unescaped,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition="Share of the injected memories whose markup (< > &) is not escaped in the block. Expected: 0.",
    order=130,
)
