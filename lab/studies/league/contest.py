"""Who wins at a budget, and from whom the winner is not shown to differ (LG-16).

All pairs of arms are compared over the same probes, by conversation. The p-values of all pairs at one budget are one
family, because the winner is chosen by the same data; Holm's method corrects them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from lab.compare.fragility import Conclusion
from lab.compare.judgements import Arm, Reading, Turns, what_turns
from lab.compare.paired import by_conversation, pairs_of
from lab.compare.statistics import LEAST_CLUSTERS, LEVEL, Estimate, holm, is_shown, sign_flips, smallest_p
from lab.studies.league.table import MEASURES, Cell, Groups, Measured, stratified, weighted_sums

# Means over sets are sums in another order, so equal ones may differ by rounding.
_SAME = 1e-9


class Against(NamedTuple):
    """The winner minus another arm: the difference, its 95 % interval, and the p-value corrected for all pairs."""

    arm: str
    mean: float
    difference: float
    low: float | None
    high: float | None
    p_holm: float
    is_shown: bool


class Contest(NamedTuple):
    """The result at one budget on one set, or on all: the arm with the highest mean, and it against the others.

    ``pairs`` is the number of all pairs of arms, for which the p-values are corrected. ``turns`` says how many wrong
    judgements put the second arm level with the winner on a set, by hits; None on several sets.
    """

    set: str
    budget: int
    measure: str
    winner: str
    cell: Cell
    conversations: int
    against: tuple[Against, ...]
    pairs: int
    turns: Turns | None = None

    @property
    def tied(self) -> tuple[str, ...]:
        """The other arms with the same mean as the winner."""
        return tuple(one.arm for one in self.against if math.isclose(one.mean, self.cell.mean, abs_tol=_SAME))

    @property
    def below(self) -> tuple[Against, ...]:
        """The arms that are shown to be below the winner."""
        return tuple(other for other in self.against if other.is_shown)

    @property
    def alike(self) -> tuple[Against, ...]:
        """The arms from which the winner is not shown to differ."""
        return tuple(other for other in self.against if not other.is_shown)

    @property
    def least(self) -> int:
        """The fewest conversations with which a difference could be shown, corrected for so many pairs."""
        least = LEAST_CLUSTERS
        while smallest_p(least, self.pairs) > LEVEL:
            least += 1
        return least

    @property
    def is_testable(self) -> bool:
        """Whether there are enough conversations for any difference to be shown."""
        return self.conversations >= self.least

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = self._asdict()
        values["cell"] = self.cell._asdict()
        values["least"] = self.least
        values["turns"] = self.turns.as_json() if self.turns else None
        values["against"] = [other._asdict() for other in self.against]
        return values


def contest(
    set_name: str,
    budget: int,
    measure: str,
    cells: Mapping[str, Cell],
    parts: Mapping[str, Sequence[Measured]],
) -> Contest | None:
    """Compare all arms at a budget; ``cells`` are their means and ``parts`` their figures on each set, by arm.

    Return None if no arm has the measure. The arms are over the same sets; ties go to the first arm.
    """
    arms = [arm for arm in parts if arm in cells]
    if not arms:
        return None
    winner = max(arms, key=lambda arm: cells[arm].mean)
    couples = list(combinations(arms, 2))
    strata = [_differences(measure, parts[first], parts[second]) for first, second in couples]
    p_values = sign_flips([weighted_sums(groups) for groups in strata])
    names = [f"{number:06d}" for number in range(len(couples))]
    adjusted = holm(dict(zip(names, p_values, strict=True)))
    against: dict[str, Against] = {}
    for name, (first, second), groups in zip(names, couples, strata, strict=True):
        if winner not in (first, second):
            continue
        estimate = stratified(groups)
        if winner == first:
            # Differences are the second minus the first.
            estimate = _negative(estimate)
        loser = second if winner == first else first
        shown = is_shown(estimate, adjusted[name])
        low, high = estimate.low, estimate.high
        against[loser] = Against(loser, cells[loser].mean, estimate.mean, low, high, adjusted[name], shown)
    ordered = sorted(against.values(), key=lambda other: (-other.mean, arms.index(other.arm)))
    conversations = sum(part.row.conversations for part in parts[winner] if measure in part.values)
    return Contest(set_name, budget, measure, winner, cells[winner], conversations, tuple(ordered), len(couples))


def first_place(found: Contest, arms: Mapping[str, Arm]) -> Turns | None:
    """Return how many wrong judgements put the second arm level with the winner on a set; ``arms`` are by name.

    None for other measures than those of hits, and if the second is level already.
    """
    spelt = MEASURES.get(found.measure, "")
    if not found.against or not spelt.endswith("@{k}"):
        return None
    run, name, _ = arms[found.winner]
    other, second, _ = arms[found.against[0].arm]
    most = run.max_items[name]
    if other.max_items[second] != most:
        return None
    pair = Arm(run, name, 1.0), Arm(other, second, -1.0)
    # A mean above 0, whatever its interval.
    return what_turns(pair, spelt.format(k=most), Conclusion(0.5, False, None), Reading(), random=False)


def _differences(measure: str, firsts: Sequence[Measured], seconds: Sequence[Measured]) -> list[Groups]:
    """Return the differences of two arms by conversation, for each set: the second minus the first."""
    strata: list[Groups] = []
    for first, second in zip(firsts, seconds, strict=True):
        if measure not in first.values or measure not in second.values:
            continue
        name = MEASURES.get(measure, MEASURES["hit"]).format(k=1)
        pairs = pairs_of(name, first.values[measure], second.values[measure])
        if pairs.at:
            strata.append(by_conversation(pairs))
    return strata


def _negative(estimate: Estimate) -> Estimate:
    low, high = estimate.low, estimate.high
    return estimate._replace(
        # Not minus zero.
        mean=0.0 - estimate.mean,
        low=None if high is None else 0.0 - high,
        high=None if low is None else 0.0 - low,
    )
