"""WrongScope: the share of the injected memories that belong to another scope."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, share
from lab.measures.model import SEED_001, SHARE, TurnMeasure


def wrong_scope(turns: Turns) -> Floats:
    """Return the share of injected memories of another scope; NaN for an empty selection."""
    return share(turns.foreign, turns.injected)


MEASURE = TurnMeasure(
    name="WrongScope",
    values=wrong_scope,
    better="lower",
    range=SHARE,
    source=SEED_001,
    definition="Share of the injected memories of another scope than the turn's; a global one belongs to all scopes.",
    sentence="{candidate:.0%} of the injected items belong to another scope, against {baseline:.0%}",
    order=80,
)
