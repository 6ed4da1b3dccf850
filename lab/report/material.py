"""What a report draws, read out of a run's receipts and timings once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.columns import codes_of, lists_of, numbers_of
from lab.latency.quantiles import Quantile, quantile
from lab.report.style import TIERS
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

TIER_OF = {"must_remember": "must", "nice_to_have": "nice", "unknown": "unknown", "ignore": "ignore"}
# Parts of a conversation in which its recall turns are counted.
PARTS = 10
MILLION = 1e6


class Places(NamedTuple):
    """What filled the injected places.

    ``overall`` and ``by_part`` are shares of each tier by arm, ``by_part`` from the first recall turns to the last;
    ``turns`` is how many recall turns each conversation has.
    """

    overall: dict[str, dict[str, float]]
    by_part: dict[str, list[dict[str, float]]]
    turns: dict[str, int]


class Timeline(NamedTuple):
    """The keys that each arm injected, recall turn by recall turn, and the tier of each key."""

    conversation: str
    turns: dict[str, list[list[str]]]
    tiers: dict[str, str]


class Stage(NamedTuple):
    """Milliseconds of a stage of an arm's warm turns; a quantile is None where n is too small for it."""

    arm: str
    stage: str
    n: int
    mean: float
    p50: Quantile | None
    p95: Quantile | None
    p99: Quantile | None


def places(run: RunDirectory) -> Places:
    """Count the tiers of everything that was injected at recall turns."""
    import numpy as np

    tiers = list(TIERS)
    counts = {arm: np.zeros((PARTS, len(tiers)), np.int64) for arm in run.arms}
    turns = {}
    for conversation in run.conversations:
        table = read_table(
            run.receipts(conversation), ("arm", "recalls", "injected", "item_label"), ("arm", "item_label")
        )
        recalls, injected = numbers_of(table["recalls"]), numbers_of(table["injected"])
        arms, names = codes_of(table["arm"])
        labels, begins = lists_of(table["item_label"])
        codes, known = codes_of(labels)
        # What carries no label, a document for instance, is unknown.
        tier = np.array([tiers.index(TIER_OF.get(one or "", "unknown")) for one in known])[codes]
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
    return Places(
        {arm: _shares(found.sum(axis=0)) for arm, found in counts.items()},
        {arm: [_shares(part) for part in found] for arm, found in counts.items()},
        turns,
    )


def timeline(run: RunDirectory, conversation: str, arms: Sequence[str]) -> Timeline:
    """What some arms injected in one conversation."""
    columns = ("arm", "recalls", "injected", "item_key", "item_label")
    rows = read_table(run.receipts(conversation), columns).to_pylist()
    return Timeline(
        conversation,
        {
            arm: [row["item_key"][: row["injected"]] for row in rows if row["arm"] == arm and row["recalls"]]
            for arm in arms
        },
        {
            key: TIER_OF.get(label, "unknown")
            for row in rows
            for key, label in zip(row["item_key"], row["item_label"], strict=True)
        },
    )


def stages(run: RunDirectory) -> list[Stage]:
    """The timings of a run by arm and stage, ``total`` last; nothing where a run has none."""
    import numpy as np

    found: dict[tuple[str, str], list[NDArray[np.float64]]] = {}
    for arm, stage, spent in _timings(run):
        found.setdefault((arm, stage), []).append(spent)
    by_arm: dict[str, dict[str, NDArray[np.float64]]] = {}
    for (arm, stage), some in found.items():
        by_arm.setdefault(arm, {})[stage] = np.concatenate(some)
    told = []
    for arm in (one for one in run.arms if one in by_arm):
        own = by_arm[arm]
        if "total" not in own and len({len(values) for values in own.values()}) == 1:
            own = own | {"total": np.sum(list(own.values()), axis=0)}
        for stage in sorted(own, key=lambda one: (one == "total", one)):
            ms = (own[stage] / MILLION).tolist()
            told.append(
                Stage(arm, stage, len(ms), sum(ms) / len(ms), *(quantile(ms, share) for share in (0.5, 0.95, 0.99)))
            )
    return told


def _timings(run: RunDirectory) -> Iterator[tuple[str, str, NDArray[np.float64]]]:
    """Nanoseconds of the warm turns of each conversation, by arm and stage, in the order of the turns."""
    import numpy as np

    for conversation in run.conversations:
        path = run.latency(conversation)
        if not path.is_file():
            continue
        table = read_table(path, ("arm", "stage", "ns", "cold"), ("arm", "stage"))
        (arms, names), (parts, known) = codes_of(table["arm"]), codes_of(table["stage"])
        spent = numbers_of(table["ns"]).astype(np.float64)
        warm = ~numbers_of(table["cold"]).astype(bool)
        for number, arm in enumerate(names[:-1]):
            for part, stage in enumerate(known[:-1]):
                chosen = spent[(arms == number) & (parts == part) & warm]
                if len(chosen) and arm and stage:
                    yield arm, stage, chosen


def _shares(counts: Numbers) -> dict[str, float]:
    total = int(counts.sum())
    return {tier: int(count) / total if total else 0.0 for tier, count in zip(TIERS, counts.tolist(), strict=True)}


def busiest(turns: Mapping[str, int], most: int) -> list[str]:
    """The conversations with the most recall turns."""
    return [one for one in sorted(turns, key=lambda name: (-turns[name], name)) if turns[one]][:most]
