"""Explained: whether the receipt gives the reason of what was and was not injected."""

from __future__ import annotations

from lab.measures.columns import Floats, share
from lab.measures.conversation import Turns
from lab.measures.model import SEED_000, SHARE, TurnMeasure


def explained(turns: Turns) -> Floats:
    """Return the share of injected, pinned and displaced memories with a reason; NaN where there is none to give."""
    return share(turns.explained, turns.to_explain)


MEASURE = TurnMeasure(
    name="Explained",
    values=explained,
    better="higher",
    range=SHARE,
    source=SEED_000,
    definition=(
        "Share of the memories that are injected, pinned or displaced (must_remember ones that would be injected if "
        "must came first) that the receipt names with a reason, not only as a search hit; null without a receipt."
    ),
    missing=None,
    order=184,
)
