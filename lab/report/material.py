"""The data for a report's figures, read once from a run's receipts, timings and writes, and the entry of a figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.columns import codes_of, lists_of, numbers, numbers_of
from lab.base.formatting import counted, number
from lab.compare.paired import Comparison
from lab.measures.latency import Stage
from lab.recordings.model import TIER_OF, UNKNOWN
from lab.report.charts import TIERS, Chart
from lab.report.sections import Table
from lab.runs.directory import RunDirectory
from lab.runs.receipts import Written, read_writes
from lab.runs.tables import read_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

# A conversation's recall turns are divided into this many equal parts.
PARTS = 10


class TierShares(NamedTuple):
    """The tiers of the injected memories.

    ``overall`` and ``by_part`` are shares of each tier by arm, ``by_part`` from the first recall turns to the last;
    ``turns`` counts the recall turns of each conversation.
    """

    overall: dict[str, dict[str, float]]
    by_part: dict[str, list[dict[str, float]]]
    turns: dict[str, int]


class Timeline(NamedTuple):
    """The keys that each arm injected, recall turn by recall turn, and the tier of each key by arm.

    Two arms that capture may give the same key to different memories.
    """

    conversation: str
    turns: dict[str, list[list[str]]]
    tiers: dict[str, dict[str, str]]


def tier_shares(run: RunDirectory) -> TierShares:
    """Count the tiers of everything that was injected at recall turns."""
    import numpy as np

    tiers = list(TIERS)
    counts = {arm: np.zeros((PARTS, len(tiers)), np.int64) for arm in run.arms}
    turns = {}
    for conversation in run.conversations:
        columns = ("arm", "is_recall_turn", "injected", "item_label")
        table = run.read_receipts(conversation, columns, ("arm", "item_label"))
        recalls, injected = numbers_of(table["is_recall_turn"]), numbers_of(table["injected"])
        arms, names = codes_of(table["arm"])
        labels, begins = lists_of(table["item_label"])
        codes, known = codes_of(labels)
        # An item without a label, such as a document, counts as unknown.
        tier = np.array([tiers.index(TIER_OF.get(label or "", TIER_OF[UNKNOWN])) for label in known])[codes]
        most = 0
        for code, arm in enumerate(names[:-1]):
            rows = np.flatnonzero((arms == code) & recalls.astype(bool))
            most = max(most, len(rows))
            if not len(rows) or arm not in counts:
                continue
            part = np.arange(len(rows)) * PARTS // len(rows)
            sizes = injected[rows].astype(np.int64)
            at = np.arange(sizes.sum()) + np.repeat(begins[rows] - np.cumsum(sizes) + sizes, sizes)
            np.add.at(counts[arm], (np.repeat(part, sizes), tier[at]), 1)
        turns[conversation] = most
    return TierShares(
        {arm: _shares(parts.sum(axis=0)) for arm, parts in counts.items()},
        {arm: [_shares(part) for part in parts] for arm, parts in counts.items()},
        turns,
    )


def receipt_rows(
    run: RunDirectory, conversation: str, columns: Sequence[str], arms: Collection[str]
) -> list[dict[str, Any]]:
    """Return some columns of the receipts of some arms in a conversation; ``columns`` has ``arm``."""
    table = run.read_receipts(conversation, columns)
    chosen = [place for place, arm in enumerate(table["arm"].to_pylist()) if arm in arms]
    rows: list[dict[str, Any]] = table.take(numbers(chosen, "int64")).to_pylist()
    return rows


def timeline(run: RunDirectory, conversation: str, arms: Sequence[str]) -> Timeline:
    """Return what some arms injected in one conversation."""
    columns = ("arm", "is_recall_turn", "injected", "item_key", "item_label")
    rows = receipt_rows(run, conversation, columns, arms)
    return Timeline(
        conversation,
        {
            arm: [row["item_key"][: row["injected"]] for row in rows if row["arm"] == arm and row["is_recall_turn"]]
            for arm in arms
        },
        {
            arm: {
                key: TIER_OF.get(label, TIER_OF[UNKNOWN])
                for row in rows
                if row["arm"] == arm
                for key, label in zip(row["item_key"], row["item_label"], strict=True)
            }
            for arm in arms
        },
    )


def _shares(counts: Numbers) -> dict[str, float]:
    total = int(counts.sum())
    return {tier: int(count) / total if total else 0.0 for tier, count in zip(TIERS, counts.tolist(), strict=True)}


def busiest(turns: Mapping[str, int], most: int) -> list[str]:
    """Return the conversations with the most recall turns."""
    return [name for name in sorted(turns, key=lambda name: (-turns[name], name)) if turns[name]][:most]


class Material(NamedTuple):
    """The data of a run that figures and tables share."""

    shares: TierShares
    stages: list[Stage]


@dataclass(frozen=True, slots=True)
class ReportData:
    """The data of a report: a run, its means (``summary``), and the comparison of two arms, if it has two."""

    run: RunDirectory
    summary: dict[str, Any]
    comparison: Comparison | None
    material: Material

    @property
    def measures(self) -> dict[str, dict[str, float | None]]:
        """The mean of each measure by arm."""
        return {arm: means["measures"] for arm, means in self.summary["arms"].items()}

    @property
    def pair(self) -> list[str]:
        """The compared arms, or the only arm."""
        return [self.comparison.baseline, self.comparison.candidate] if self.comparison else self.run.arms[:1]

    @property
    def source(self) -> str:
        """The source line of a figure: run, recordings, labels, haystack, model."""
        return source_of(self.run)


def source_of(run: RunDirectory) -> str:
    """Return the source line of a figure: run, recordings, labels, haystack, model."""
    resolved = run.manifest.resolved
    return (
        f"recall lab, run {run.manifest.run_key[:12]}: {resolved.format} recordings, "
        f"{counted(len(run.conversations), 'conversation')}, labels {run.labels}, "
        f"{run.haystack}, {resolved.embedder_model}"
    )


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A figure of the report.

    ``section`` is a key of ``lab.report.build.SECTIONS``; the figure has the ``heading`` there, if any. ``draw``
    returns the charts: none if the run has no data for one. The first is saved as ``name``, the next as ``name-2``.
    ``repeatable`` is False if equal runs have different figures, as with timings; ``report.md`` omits them.
    """

    name: str
    section: str
    heading: str
    caption: str
    draw: Callable[[ReportData], Sequence[Chart]]
    repeatable: bool = True


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
