"""CaptureP: the share of captured memories that should be kept."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure
from lab.runs.receipts import Written


def capture_precision(written: Written) -> float:
    """Return the share of the judged created memories that should be kept; NaN without any."""
    return written.kept / written.judged if written.judged else math.nan


MEASURE = WritesMeasure(
    name="CaptureP",
    values=capture_precision,
    better="higher",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the created memories that should be kept, among those that are aligned to a judged candidate."
    ),
    order=50,
)
