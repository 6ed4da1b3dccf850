"""CaptureR: the share of what should be kept that was captured."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure

MEASURE = WritesMeasure(
    name="CaptureR",
    values=lambda written: written.found / written.candidates if written.candidates else math.nan,
    better="higher",
    range=SHARE,
    source=ITSELF,
    definition=("Share of the candidates judged worth keeping to which a captured memory is aligned."),
    order=51,
)
