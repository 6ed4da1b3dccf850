"""CaptureR: the share of what should be kept that was captured."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure
from lab.runs.receipts import Written


def capture_recall(written: Written) -> float:
    """Return the share of the candidates to keep that were captured; NaN without any."""
    return written.found / written.candidates if written.candidates else math.nan


MEASURE = WritesMeasure(
    name="CaptureR",
    values=capture_recall,
    better="higher",
    range=SHARE,
    source=ITSELF,
    definition=("Share of the candidates judged worth keeping to which a captured memory is aligned."),
    order=51,
)
