"""CaptureP: the share of captured memories that should be kept."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure

MEASURE = WritesMeasure(
    name="CaptureP",
    values=lambda written: written.kept / written.judged if written.judged else math.nan,
    better="higher",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the created memories that should be kept, among those that are aligned to a judged candidate."
    ),
    order=50,
)
