"""EchoShare: the share of captured memories that repeat what the system itself injected."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure
from lab.runs.receipts import Written


def echo_share(written: Written) -> float:
    """Return the share of the created memories whose text is in the block injected at their turn; NaN without any."""
    return written.echoes / written.created if written.created else math.nan


MEASURE = WritesMeasure(
    name="EchoShare",
    values=echo_share,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the created memories whose text (at least 20 characters) is in the block injected at their turn."
    ),
    order=40,
)
