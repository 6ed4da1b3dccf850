"""Unescaped: markup that reaches the prompt. A safety check: expected to be 0."""

from __future__ import annotations

from lab.measures.inputs import share
from lab.measures.model import ITSELF, SHARE, TurnMeasure

MEASURE = TurnMeasure(
    name="Unescaped",
    values=lambda turns: share(turns.unescaped, turns.injected),
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition="Share of the injected memories whose markup (< > &) is not escaped in the block. Expected: 0.",
    order=130,
)
