"""Find the last recall receipts of a log, to print them."""

from __future__ import annotations

from collections import deque
from typing import Any

from lab.canary.check import check_recall
from lab.canary.damage import Damaged
from lab.canary.lines import opened
from lab.canary.log_line import payload, read_line
from lab.errors import UnusableInput

RECEIPT = "autoRecall.receipt"


def last_receipts(log: str, count: int) -> list[tuple[int, dict[str, Any]]]:
    """Return the last ``count`` valid recall receipts of a log with their line numbers, in the order of the log.

    Damaged lines are passed over; ``lab receipts audit`` lists them. Raises :class:`UnusableInput` if the log cannot be
    read or has no valid receipt.
    """
    receipts: deque[tuple[int, dict[str, Any]]] = deque(maxlen=count)
    damaged = 0
    with opened(log) as lines:
        for number, line in lines:
            try:
                entry = read_line(line or b"")
                if entry.name == RECEIPT:
                    receipt = payload(entry)
                    check_recall(receipt)
                    receipts.append((number, receipt))
            except Damaged:
                damaged += 1
    if not receipts:
        why = f"; {damaged} damaged lines, which lab receipts audit lists" if damaged else ""
        raise UnusableInput(f"{log}: has no valid recall receipt{why}. Are receipts enabled (receipts.enabled)?")
    return list(receipts)
