"""What arms that capture stored: a table by arm, and the growth of their stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

from lab.base.formatting import number
from lab.report.sections import Table
from lab.runs.directory import RunDirectory
from lab.runs.receipts import Written, read_writes
from lab.runs.tables import read_table

HEADERS = ("arm", "stored", "per turn", "kept of what should be", "leaks", "echoes", "duplicates", "held at the end")


class Growth(NamedTuple):
    """The mean number of memories that an arm holds after each turn of the longest conversation."""

    arm: str
    held: list[float]


def capture_table(run: RunDirectory) -> Table | None:
    """Return what every arm stored, over all conversations; None if no arm captures. It counts and shows no texts."""
    totals: dict[str, Counter[str]] = {}
    for conversation in run.conversations:
        for arm, written in read_writes(run, conversation).items():
            totals.setdefault(arm, Counter()).update(_counts(written))
    if not totals:
        return None
    return Table("What was stored", HEADERS, [_row(arm, total) for arm, total in totals.items()])


def _counts(written: Written) -> dict[str, int]:
    return {name: int(getattr(written, name)) for name in Written.__dataclass_fields__}


def _row(arm: str, total: Mapping[str, int]) -> list[str]:
    candidates = total["candidates"]
    kept = f"{total['found']} of {candidates} ({total['found'] / candidates:.0%})" if candidates else "–"
    return [
        arm,
        f"{total['created']:,}",
        number(total["created"] / total["turns"] if total["turns"] else 0.0),
        kept,
        *(str(total[name]) for name in ("leaks", "echoes", "repeats", "held")),
    ]


def growth(run: RunDirectory) -> list[Growth]:
    """Return how the store of every arm that captures grows, turn by turn; empty if no arm captures.

    After its last turn, a conversation counts with what it holds then, so that the line falls only where memories were
    deleted.
    """
    changes: dict[str, list[Counter[int]]] = {info.name: [] for info in run.manifest.resolved.arms if info.writes}
    longest = 0
    for conversation in run.conversations:
        path = run.writes(conversation)
        if run.name_of(path) not in run.digests:
            continue
        table = read_table(run.check(path), ("arm", "seq", "what", "derived"))
        longest = max(longest, int((table.schema.metadata or {}).get(b"turns", b"0")))
        steps = {arm: Counter[int]() for arm in changes}
        for row in table.to_pylist():
            if row["arm"] in steps and not row["derived"]:
                steps[row["arm"]][row["seq"]] += {"created": 1, "deleted": -1}.get(row["what"], 0)
        for arm, of_arm in steps.items():
            changes[arm].append(of_arm)
    return [
        Growth(arm, list(accumulate(sum(steps[turn] for steps in parts) / len(parts) for turn in range(longest))))
        for arm, parts in changes.items()
        if parts and longest
    ]
