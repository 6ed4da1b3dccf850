"""CaptureDuplicates: the share of captured memories that repeat an earlier one."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure

MEASURE = WritesMeasure(
    name="CaptureDuplicates",
    values=lambda written: written.repeats / written.created if written.created else math.nan,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition=("Share of the created memories that are near-duplicates (E-59) of one that the system stored before."),
    order=53,
)
