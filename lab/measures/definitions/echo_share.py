"""EchoShare: the share of captured memories that repeat what the system itself injected."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure

MEASURE = WritesMeasure(
    name="EchoShare",
    values=lambda written: written.echoes / written.created if written.created else math.nan,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the created memories whose text (at least 20 characters) is in the block injected at their turn."
    ),
    order=40,
)
