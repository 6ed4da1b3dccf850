"""EchoShare: how much of what a system captures is what it had injected itself."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure
from lab.runs.writes import Written


def echo_share(written: Written) -> float:
    """Return the share of the created memories that stood in the block injected at their turn; NaN without any."""
    return written.echoes / written.created if written.created else math.nan


MEASURE = WritesMeasure(
    name="EchoShare",
    values=echo_share,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the memories created whose text, of 20 characters or more, stood in the block injected at their turn."
    ),
    order=40,
)
