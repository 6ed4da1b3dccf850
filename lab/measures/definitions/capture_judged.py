"""CaptureJudged: the share of captured memories that were judged."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure
from lab.runs.receipts import Written


def capture_judged(written: Written) -> float:
    """Return the share of the created memories that are aligned to a judged candidate; NaN without any."""
    return written.judged / written.created if written.created else math.nan


MEASURE = WritesMeasure(
    name="CaptureJudged",
    values=capture_judged,
    better="neither",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the created memories that are aligned to a judged candidate; CaptureP says nothing of the others."
    ),
    order=52,
)
