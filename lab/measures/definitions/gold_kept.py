"""GoldKept: the share of what probes need that was captured."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure

MEASURE = WritesMeasure(
    name="GoldKept",
    values=lambda written: written.gold_found / written.gold if written.gold else math.nan,
    better="higher",
    range=SHARE,
    source=ITSELF,
    definition=("Share of the memories that are relevant to a probe to which a captured memory is aligned."),
    order=54,
)
