"""WrongScope: the share of the injected memories that belong to another scope."""

from __future__ import annotations

from lab.measures.inputs import share
from lab.measures.model import SEED_001, SHARE, TurnMeasure

MEASURE = TurnMeasure(
    name="WrongScope",
    values=lambda turns: share(turns.foreign, turns.injected),
    better="lower",
    range=SHARE,
    source=SEED_001,
    definition="Share of the injected memories of another scope than the turn's; a global one belongs to all scopes.",
    sentence="{candidate:.0%} of the injected items belong to another scope, against {baseline:.0%}",
    order=80,
)
