"""How many judgements turn a difference: bounds equal to trying all, and never wrong where all cannot be tried."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest

from lab.compare.fragility import EXACT, Conclusion, Label, fragility
from lab.compare.statistics import clustered, sign_flips, t_quantile


class Made(NamedTuple):
    """A probe: what both arms recall, and the judgements."""

    candidate: set[int]
    baseline: set[int]
    relevant: set[int]
    judged: set[int]

    def difference(self, turned: Sequence[int] = ()) -> float:
        right = self.relevant ^ set(turned)
        return float(bool(self.candidate & right)) - float(bool(self.baseline & right)) if right else 0.0


def made(seed: int) -> tuple[list[Made], list[int]]:
    """Six to eight conversations of one to three probes, in which the candidate finds more."""
    drawn = random.Random(seed)
    probes, clusters = [], []
    for cluster in range(drawn.choice([6, 7, 8])):
        for _ in range(drawn.choice([1, 2, 3])):
            candidate, baseline = set(drawn.sample(range(4), 2)), set(drawn.sample(range(3, 6), 1))
            relevant = {drawn.choice(sorted(candidate))} | {one for one in range(6) if drawn.random() < 0.1}
            probes.append(Made(candidate, baseline, relevant, relevant | {drawn.randrange(6)}))
            clusters.append(cluster)
    return probes, clusters


def is_shown(differences: Sequence[float], clusters: Sequence[int]) -> bool:
    """Whether the candidate is shown to be above the baseline, by the rule of every comparison."""
    groups: dict[int, list[float]] = {}
    for value, cluster in zip(differences, clusters, strict=True):
        groups.setdefault(cluster, []).append(value)
    low = clustered({str(name): values for name, values in groups.items()}).low
    return low is not None and low > 0 and sign_flips([[math.fsum(one) for one in groups.values()]])[0] <= 0.05


def is_no_worse(differences: Sequence[float], clusters: Sequence[int]) -> bool:
    """Whether a guard with a margin of .1 passes, by its rule: the one-sided 95 % interval, and no test."""
    groups: dict[str, list[float]] = {}
    for value, cluster in zip(differences, clusters, strict=True):
        groups.setdefault(str(cluster), []).append(value)
    found = clustered(groups)
    assert found.standard_error is not None
    return found.mean - t_quantile(0.95, len(groups) - 1) * found.standard_error >= -MARGIN


MARGIN = 0.1
GUARD = Conclusion(0.05, or_equal=True, p_level=None)


def after(probes: Sequence[Made], labels: Sequence[Label], chosen: Sequence[int]) -> list[float]:
    turned: dict[int, list[int]] = {}
    for one in chosen:
        turned.setdefault(labels[one].probe, []).append(int(labels[one].memory))
    return [probe.difference(turned.get(at, ())) for at, probe in enumerate(probes)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sets", "conclusion", "holds", "shift"), [(200, None, is_shown, 0.0), (80, GUARD, is_no_worse, MARGIN)]
)
def test_bounds_equal_brute_force_on_made_sets(
    sets: int, conclusion: Conclusion | None, holds: Callable[..., bool], shift: float
) -> None:
    small = large = 0
    for seed in range(2000):
        probes, clusters = made(seed)
        own = [probe.difference() for probe in probes]
        labels = [Label(at, str(one), "") for at, probe in enumerate(probes) for one in sorted(probe.judged)]
        found = fragility(
            [value + shift for value in own],
            clusters,
            labels,
            lambda asked, probes=probes, labels=labels: [  # type: ignore[misc]  # a lambda with defaults
                probes[at].difference([int(labels[one].memory) for one in some]) + shift for at, some in asked
            ],
            largest=1.0,
            conclusion=conclusion,
        )
        assert (found is not None) == holds(own, clusters)
        if found is None:
            continue
        fewest = next(
            (
                size
                for size in range(1, EXACT + 1)
                for chosen in combinations(range(len(labels)), size)
                if not holds(after(probes, labels, chosen), clusters)
            ),
            None,
        )
        if fewest is not None:
            assert (found.least, found.most) == (fewest, fewest)
            small += 1
        else:
            assert found.least > EXACT
            large += 1
        if found.most is not None:
            # What is named turns it, and no more is named.
            assert not holds(after(probes, labels, [labels.index(one) for one in found.named]), clusters)
            assert len(found.named) == found.most >= found.least
        if small + large == sets:
            break
    assert small + large == sets
    assert min(small, large) > 5


def test_a_difference_that_is_not_shown_cannot_turn() -> None:
    assert fragility([1.0, 0.0] * 4, [0, 0, 1, 1, 2, 2, 3, 3], [], lambda asked: [], largest=1.0) is None
    assert fragility([0.0] * 8, list(range(8)), [], lambda asked: [], largest=1.0) is None


def test_without_labels_nothing_turns() -> None:
    found = fragility([1.0] * 8, list(range(8)), [], lambda asked: [], largest=1.0)
    assert found is not None
    assert found.most is None


def test_draws_turn_what_their_labels_turn() -> None:
    probes, clusters = next(one for one in map(made, range(99)) if is_shown([p.difference() for p in one[0]], one[1]))
    labels = [Label(at, str(one), "") for at, probe in enumerate(probes) for one in sorted(probe.judged)]
    random = np.random.default_rng(3)
    drawn = [np.flatnonzero(random.random(len(labels)) < share) for share in (0.0, 0.1, 0.3, 0.6) for _ in range(20)]
    found = fragility(
        [probe.difference() for probe in probes],
        clusters,
        labels,
        lambda asked: [probes[at].difference([int(labels[one].memory) for one in some]) for at, some in asked],
        largest=1.0,
        drawn=drawn,
    )
    assert found is not None
    assert list(found.drawn) == [not is_shown(after(probes, labels, one.tolist()), clusters) for one in drawn]
    assert not any(found.drawn[:20])
    assert any(found.drawn)
