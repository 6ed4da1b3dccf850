"""CaptureDuplicates: the share of captured memories that repeat an earlier one."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure
from lab.runs.receipts import Written


def capture_duplicates(written: Written) -> float:
    """Return the share of the created memories that repeat one stored before; NaN without any."""
    return written.repeats / written.created if written.created else math.nan


MEASURE = WritesMeasure(
    name="CaptureDuplicates",
    values=capture_duplicates,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition=("Share of the created memories that are near-duplicates (E-59) of one that the system stored before."),
    order=53,
)
