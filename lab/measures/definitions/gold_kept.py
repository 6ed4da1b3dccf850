"""GoldKept: the share of what probes need that was captured."""

from __future__ import annotations

import math

from lab.measures.model import ITSELF, SHARE, WritesMeasure
from lab.runs.receipts import Written


def gold_kept(written: Written) -> float:
    """Return the share of the relevant memories with a captured memory; NaN without any."""
    return written.gold_found / written.gold if written.gold else math.nan


MEASURE = WritesMeasure(
    name="GoldKept",
    values=gold_kept,
    better="higher",
    range=SHARE,
    source=ITSELF,
    definition=("Share of the memories that are relevant to a probe to which a captured memory is aligned."),
    order=54,
)
