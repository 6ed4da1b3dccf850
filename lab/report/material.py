"""The data for a report's figures, read once from a run's receipts and timings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.base.columns import codes_of, lists_of, numbers_of
from lab.recordings.model import TIER_OF, UNKNOWN
from lab.report.charts import TIERS
from lab.runs.directory import RunDirectory

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
        for number, arm in enumerate(names[:-1]):
            rows = np.flatnonzero((arms == number) & recalls.astype(bool))
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


def timeline(run: RunDirectory, conversation: str, arms: Sequence[str]) -> Timeline:
    """Return what some arms injected in one conversation."""
    columns = ("arm", "is_recall_turn", "injected", "item_key", "item_label")
    rows = run.read_receipts(conversation, columns).to_pylist()
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
