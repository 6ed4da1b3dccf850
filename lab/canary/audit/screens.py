"""Find the last recall receipts of a log, to print them."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.canary.audit.check import check_recall
from lab.canary.audit.check_markers import CAPTURE, RECALL
from lab.canary.audit.damage import Damaged
from lab.canary.audit.lines import opened
from lab.canary.audit.log_line import payload, read_lines
from lab.canary.audit.pairs import Pairs
from lab.canary.audit.status import with_known_reasons


class LastReceipt(NamedTuple):
    """A recall receipt and its line; ``again`` is the line of the second receipt of the same turn, if there is one."""

    line: int
    receipt: dict[str, Any]
    again: int | None = None


def last_receipts(log: str, count: int) -> list[LastReceipt]:
    """Return the last ``count`` valid recall receipts of a log, in its order; the two of one turn count once.

    Damaged lines are passed over; ``lab canary audit`` lists them. Raises :class:`UnusableInput` if the log cannot be
    read or has no valid receipt.
    """
    receipts: deque[LastReceipt] = deque(maxlen=count)
    pairs = Pairs()
    damaged = 0
    with opened(log) as lines:
        for number, line in lines:
            try:
                entries = read_lines(line or b"")
            except Damaged:
                damaged += 1
                continue
            for entry in entries:
                try:
                    if entry.name == RECALL:
                        receipt = payload(entry)
                        check_recall(with_known_reasons(receipt))
                        if pairs.is_second(entry, receipt["injectedCount"]) and receipts:
                            receipts[-1] = receipts[-1]._replace(again=number)
                        else:
                            receipts.append(LastReceipt(number, receipt))
                    elif entry.name == CAPTURE:
                        pairs.end_turn(entry)
                except Damaged:
                    damaged += 1
    if not receipts:
        why = f"; {counted(damaged, 'damaged line')}, which lab canary audit lists" if damaged else ""
        raise UnusableInput(f"{log}: has no valid recall receipt{why}. Are receipts enabled (receipts.enabled)?")
    return list(receipts)
