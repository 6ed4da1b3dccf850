"""CaptureJudged: the share of captured memories that were judged."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure

MEASURE = WritesMeasure(
    name="CaptureJudged",
    values=lambda written: written.judged / written.created if written.created else math.nan,
    better="neither",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the created memories that are aligned to a judged candidate; CaptureP says nothing of the others."
    ),
    order=52,
)
