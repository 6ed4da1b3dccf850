"""The figures of a league: one row for each set, arm and budget (LG-13).

Means over several sets give each the same weight (LG-15). The conversation is the unit, as in
:mod:`lab.compare.statistics`; the sets are strata, so conversations vary within their set only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from lab.compare.comparable import equal_in
from lab.compare.statistics import LEAST_CLUSTERS, Estimate, clustered, detectable, t_quantile
from lab.measures.score import score_and_write
from lab.runs.directory import RunDirectory
from lab.runs.scores import Values, read_gold
from lab.runs.tables import read_table
from lab.systems.budget import CLIPPED

Groups = Mapping[str, Sequence[float]]


def stratified(strata: Sequence[Groups]) -> Estimate:
    """Return the mean of the means of the strata; each maps a conversation to its values.

    The variance is the sum of the clustered variances of the strata, divided by the square of their number, with t of
    as many degrees of freedom as there are conversations beyond one in each stratum. There is no interval with fewer
    than :data:`LEAST_CLUSTERS` conversations in all, or if a stratum has only one conversation.
    """
    if len(strata) == 1:
        return clustered(strata[0])
    estimates = [clustered(groups) for groups in strata]
    mean = math.fsum(estimate.mean for estimate in estimates) / len(estimates)
    errors = [estimate.standard_error for estimate in estimates]
    known = [error for error in errors if error is not None]
    clusters = sum(map(len, strata))
    if len(known) < len(errors):
        return Estimate(mean, None, None, None, None, None)
    error = math.sqrt(math.fsum(single**2 for single in known)) / len(strata)
    if clusters < LEAST_CLUSTERS:
        return Estimate(mean, None, None, error, None, None)
    half = t_quantile(0.975, clusters - len(strata)) * error
    return Estimate(mean, mean - half, mean + half, error, None, detectable(error, clusters))


def weighted_sums(strata: Sequence[Groups]) -> list[float]:
    """Return what each conversation adds to the mean of the means, for a sign-flip test of it."""
    return [
        math.fsum(values) / sum(map(len, groups.values())) / len(strata)
        for groups in strata
        for values in groups.values()
    ]


# Short names of the measures; ``{k}`` is the number of items that the arm may inject, so every measure counts all that
# it did inject.
MEASURES = {
    "hit": "Success@{k}",
    "CleanHit": "CleanHit@{k}",
    "nDCG": "nDCG@{k}",
    "Present": "Present@{k}",
    "RepeatRate": "RepeatRate",
    "FalseRecall": "FalseRecall",
    "StaleRecall": "StaleRecall",
    "StoreGrowth": "StoreGrowth",
}
# Whether the whole text of a relevant memory is in the prompt; only the arms under a budget have it.
WHOLE = "whole"
# Those with an interval, and a statement on who wins, the headline first.
DECISIVE = (WHOLE, "hit", "CleanHit", "Present")
BOUNDED = (*DECISIVE, "nDCG")
# Of the probes: estimated tokens and items in the prompt.
TOKENS, ITEMS = "tokens", "items"
COLUMNS = (WHOLE, *MEASURES, TOKENS, ITEMS)
# The name of all sets together, each with the same weight.
OVERALL = "all sets"


class Cell(NamedTuple):
    """A mean over ``n`` probes, turns or conversations, with its 95 % interval, if there is one."""

    mean: float
    n: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """An arm on a set at a budget (None: as configured). ``cells`` lacks measures without a value."""

    set: str
    arm: str
    budget: int | None
    conversations: int
    cells: Mapping[str, Cell]

    def mean(self, measure: str) -> float | None:
        """Return the mean of a measure, or None."""
        cell = self.cells.get(measure)
        return cell.mean if cell else None

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        cells = {
            name: {key: value for key, value in cell._asdict().items() if value is not None}
            for name, cell in self.cells.items()
        }
        return {
            "set": self.set,
            "arm": self.arm,
            "budget": self.budget,
            "conversations": self.conversations,
            "measures": cells,
        }


class Measured(NamedTuple):
    """A row, and the values behind its means, by measure; conversations that are equal have one name."""

    row: Row
    values: Mapping[str, Values]


def measured(set_name: str, name: str, run: RunDirectory, budgets: Mapping[str, int | None]) -> Iterator[Measured]:
    """Yield the figures of the arms of one run; ``budgets`` are by the name of the arm, ``name`` is the system's."""
    scores = score_and_write(run)
    equal = equal_in(run)
    sizes = _sizes(run)
    wholes = _wholes(run, [arm for arm, budget in budgets.items() if budget is not None])
    for arm, budget in budgets.items():
        of_arm = scores.of_arm(arm)
        k = run.max_items[arm]
        values_of: dict[str, Values] = {}
        if arm in wholes:
            values_of[WHOLE] = _joined(wholes[arm], equal)
        for short, spelt in MEASURES.items():
            values = of_arm.get(spelt.format(k=k))
            if values is not None and values.at:
                values_of[short] = _joined(values, equal)
        cells = {short: _cell(values, bounded=short in BOUNDED) for short, values in values_of.items()}
        tokens, items = sizes.get(arm, ([], []))
        for column, numbers in ((TOKENS, tokens), (ITEMS, items)):
            if numbers:
                cells[column] = Cell(math.fsum(numbers) / len(numbers), len(numbers))
        conversations = len({equal.get(name, name) for name in run.conversations})
        yield Measured(Row(set_name, name, budget, conversations, cells), MappingProxyType(values_of))


def overall(name: str, budget: int | None, parts: Sequence[Measured]) -> Row:
    """Return the mean of an arm over its sets, each with the same weight; its intervals are stratified by set (LG-14).

    A measure counts on the sets that have it. ``n`` is the number of those sets.
    """
    cells: dict[str, Cell] = {}
    for column in COLUMNS:
        means = [cell.mean for part in parts if (cell := part.row.cells.get(column)) is not None]
        if not means:
            continue
        estimate = None
        if column in BOUNDED:
            estimate = stratified([by_conversation(part.values[column]) for part in parts if column in part.values])
        mean = math.fsum(means) / len(means)
        cells[column] = Cell(mean, len(means), *_bounds(estimate))
    return Row(OVERALL, name, budget, sum(part.row.conversations for part in parts), cells)


def by_conversation(values: Values) -> dict[str, list[float]]:
    """Return values by conversation."""
    groups: dict[str, list[float]] = {}
    for conversation, value in zip(values.conversation, values.value, strict=True):
        groups.setdefault(conversation, []).append(value)
    return groups


def _joined(values: Values, equal: Mapping[str, str]) -> Values:
    """Return values with one name for conversations that are equal."""
    return values._replace(conversation=[equal.get(name, name) for name in values.conversation])


def _cell(values: Values, *, bounded: bool) -> Cell:
    mean = math.fsum(values.value) / len(values.value)
    return Cell(mean, len(values.value), *_bounds(clustered(by_conversation(values)) if bounded else None))


def _bounds(estimate: Estimate | None) -> tuple[float | None, float | None]:
    """Return the ends of an interval of a share, which stays between 0 and 1."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return None, None
    return max(0.0, estimate.low), min(1.0, estimate.high)


def _sizes(run: RunDirectory) -> dict[str, tuple[list[int], list[int]]]:
    """Return the estimated tokens and the items injected at every probe, by arm."""
    sizes: dict[str, tuple[list[int], list[int]]] = {}
    for conversation in run.conversations:
        table = read_table(run.check(run.receipts(conversation)), ("arm", "probe", "tokens", "injected"))
        columns = (table[name].to_pylist() for name in ("arm", "probe", "tokens", "injected"))
        for arm, probe, tokens, injected in zip(*columns, strict=True):
            if probe is not None:
                of_arm = sizes.setdefault(arm, ([], []))
                of_arm[0].append(tokens)
                of_arm[1].append(injected)
    return sizes


def _wholes(run: RunDirectory, arms: Sequence[str]) -> dict[str, Values]:
    """Return by arm, for each probe with gold, whether a relevant memory is injected with its whole text.

    The receipts of arms under a budget list the items that are injected in part (:mod:`lab.systems.budget`).
    """
    gold = read_gold(run)
    wholes = {arm: Values([], [], []) for arm in arms}
    for conversation in run.conversations:
        path = run.check(run.receipts(conversation))
        table = read_table(path, ("arm", "probe", "injected", "item_key", "receipt"))
        for row in table.select(["arm", "probe", "injected", "item_key", "receipt"]).to_pylist():
            of_arm = wholes.get(row["arm"])
            grades = gold[row["probe"]].grades if row["probe"] in gold else {}
            if of_arm is None or not grades:
                continue
            clipped = json.loads(row["receipt"]).get(CLIPPED, ()) if f'"{CLIPPED}"' in row["receipt"] else ()
            keys = [key for rank, key in enumerate(row["item_key"][: row["injected"]]) if rank not in clipped]
            of_arm.at.append(row["probe"])
            of_arm.conversation.append(conversation)
            of_arm.value.append(float(any(grades.get(key, 0) > 0 for key in keys)))
    return {arm: values for arm, values in wholes.items() if values.at}
