"""How many judgements would turn a difference that is shown: what it takes until it is shown no more.

A judgement is one grade or mark of a memory at a probe. A wrong one is turned round: a relevant memory is not relevant,
an irrelevant one is (grade 1), a misleading one does not mislead. A probe whose last relevant memory is turned round
counts as no difference. The same holds for memories that nobody judged, which would have to be relevant.

A difference is shown if its interval excludes 0 and the sign-flip test agrees
(:func:`lab.compare.statistics.is_shown`). With the sums of the clusters as variables, the near end of the interval is a
concave function, so over all changes of a given size it is lowest where the whole change is in one cluster; and p only
grows as sums fall. From this follow

* a lower bound: with fewer judgements, each as influential as the most influential one, neither gives way;
* the exact number, if three at most suffice: only the largest changes of each cluster can matter;
* an upper bound: a greedy choice, which is recomputed to see that it turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.compare.statistics import EXACT_UP_TO, LEAST_CLUSTERS, LEVEL, all_signs, drawn_signs, sign_flips, t_quantile

if TYPE_CHECKING:
    from lab.measures.inputs import Floats

# Up to this number of judgements the search is exact, unless a probe has more judgements than are tried together.
EXACT, TOGETHER = 3, 12


class Label(NamedTuple):
    """A judgement, or a memory without one: its probe and key, and what it is called."""

    probe: int
    memory: str
    called: str


# The difference at each probe if some of its labels, by their places, are turned round.
Values = Callable[[Sequence[tuple[int, tuple[int, ...]]]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Fragility:
    """What turns a difference. ``least`` and ``most`` bound the number of judgements, ``most`` is None if all do not.

    ``named`` are ``most`` labels that turn it together.
    """

    labels: int
    least: int
    most: int | None
    named: tuple[Label, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the two bounds are one number."""
        return self.least == self.most


class Shown:
    """A difference by cluster that is shown, turned so that it is above 0; ``family`` is the size of Holm's."""

    def __init__(self, sums: Sequence[float], sizes: Sequence[int], family: int = 1) -> None:
        import numpy as np

        self.sums, self.sizes, self.family = np.asarray(sums, float), np.asarray(sizes, float), family

    def is_shown(self, sums: Floats) -> bool:
        """Return whether sums of the same clusters are still shown, and above 0."""
        return bool(self.low(sums[None])[0] > 0) and self.family * sign_flips([sums.tolist()])[0] <= LEVEL

    def low(self, sums: Floats) -> Floats:
        """Return the near end of the interval of each row of sums."""
        import numpy as np

        n, clusters = self.sizes.sum(), len(self.sizes)
        mean = sums.sum(1) / n
        spread = ((sums - self.sizes * mean[:, None]) ** 2).sum(1)
        error = np.sqrt(clusters / (clusters - 1) * spread) / n
        return np.asarray(mean - t_quantile(0.975, clusters - 1) * error)

    def p_at_most(self, change: float) -> float:
        """Return the largest p that sums can have which differ by ``change`` together."""
        import numpy as np

        clusters = len(self.sums)
        signs = all_signs(clusters) if clusters <= EXACT_UP_TO else drawn_signs(clusters, 0)
        total, count = self.sums.sum(), 0
        for start in range(0, len(signs), 4096):
            negated = (total - signs[start : start + 4096].astype(float) @ self.sums) / 2
            count += int(np.count_nonzero(np.minimum(negated, total - negated) <= change + 1e-9))
        own = 0 if clusters <= EXACT_UP_TO else 1
        return self.family * (count + own) / (len(signs) + own)

    def may_turn(self, change: float) -> bool:
        """Return whether any change of this size, in all clusters together, could turn it."""
        import numpy as np

        each = np.eye(len(self.sums)) * change
        ends = np.concatenate((self.sums - each, self.sums + each))
        return bool((self.low(ends) <= 0).any()) or self.p_at_most(change) > LEVEL


def fragility(
    differences: Sequence[float],
    clusters: Sequence[int],
    labels: Sequence[Label],
    values: Values,
    *,
    largest: float,
    family: int = 1,
) -> Fragility | None:
    """Return what turns a difference; None if it is not shown, so that nothing can turn.

    ``differences`` has a value for each probe and ``clusters`` its cluster, from 0 without a gap. ``largest`` is the
    most by which one label can change a difference, whatever the others say.
    """
    import numpy as np

    count = max(clusters, default=-1) + 1
    if count < LEAST_CLUSTERS:
        return None
    sign = 1.0 if math.fsum(differences) >= 0 else -1.0
    own = sign * np.asarray(differences, float)
    of = np.asarray(clusters)
    shown = Shown(np.bincount(of, own, count).tolist(), np.bincount(of, minlength=count).tolist(), family)
    if not shown.is_shown(shown.sums):
        return None
    problem = _Problem(own, of, labels, lambda asked: sign * np.asarray(values(asked), float), shown, largest)
    named = problem.exact()
    if named is not None:
        return Fragility(len(labels), len(named), len(named), tuple(labels[at] for at in named))
    chosen = problem.greedy()
    most = None if chosen is None else len(chosen)
    least = problem.least(1 if problem.is_cut else EXACT + 1, most)
    return Fragility(len(labels), least, most, tuple(labels[at] for at in chosen or ()))


class _Problem:
    """The changes that labels make, probe by probe and cluster by cluster."""

    def __init__(
        self, own: Floats, of: Any, labels: Sequence[Label], values: Any, shown: Shown, largest: float
    ) -> None:
        self.own, self.of, self.labels, self.values, self.shown = own, of, labels, values, shown
        self.largest = largest
        self.at: dict[int, list[int]] = {}
        for number, label in enumerate(labels):
            self.at.setdefault(label.probe, []).append(number)
        # Several labels of one probe are tried together only where so few could turn it, and if it has not too many.
        self.together = EXACT if shown.may_turn(EXACT * largest) else 1
        self.is_cut = self.together > 1 and any(len(some) > TOGETHER for some in self.at.values())
        # Of each probe the lowest and the highest change by the number of labels, with these labels.
        self.best: dict[int, dict[tuple[int, bool], tuple[float, tuple[int, ...]]]] = {}
        asked = [
            (probe, chosen)
            for probe, some in self.at.items()
            for size in range(1, (self.together if len(some) <= TOGETHER else 1) + 1)
            for chosen in combinations(some, size)
        ]
        after = values(asked) if asked else []
        for (probe, chosen), value in zip(asked, after, strict=True):
            change = float(value - own[probe])
            found = self.best.setdefault(probe, {})
            for up in (False, True):
                key = (len(chosen), up)
                if key not in found or (change > found[key][0] if up else change < found[key][0]):
                    found[key] = change, chosen

    def _of_clusters(self) -> list[dict[tuple[int, bool], tuple[float, tuple[int, ...]]]]:
        """Return of each cluster the lowest and the highest change by the number of labels, up to :data:`EXACT`."""
        clusters: list[dict[tuple[int, bool], tuple[float, tuple[int, ...]]]] = [{} for _ in self.shown.sums]
        for up in (False, True):
            table: list[dict[int, tuple[float, tuple[int, ...]]]] = [{0: (0.0, ())} for _ in clusters]
            for probe, found in self.best.items():
                old = table[self.of[probe]]
                new = dict(old)
                for size in range(1, EXACT + 1):
                    for more, (change, chosen) in old.items():
                        if (size, up) not in found or more + size > EXACT:
                            continue
                        total = change + found[size, up][0]
                        known = new.get(more + size)
                        if known is None or (total > known[0] if up else total < known[0]):
                            new[more + size] = total, (*chosen, *found[size, up][1])
                table[self.of[probe]] = new
            for cluster, options in enumerate(table):
                clusters[cluster] |= {(size, up): value for size, value in options.items() if size}
        return clusters

    def exact(self) -> tuple[int, ...] | None:
        """Return the fewest labels that turn it, if three at most do; None if none do, or not all can be tried."""
        import numpy as np

        if self.together < EXACT:
            return None
        options: dict[int, list[tuple[int, float, tuple[int, ...]]]] = {}
        for cluster, found in enumerate(self._of_clusters()):
            for (size, _), (change, chosen) in found.items():
                options.setdefault(size, []).append((cluster, change, chosen))
        for size in range(1, EXACT + 1):
            if self.is_cut and size > 1:
                return None
            ones = options.get(1, [])
            tried: list[tuple[Any, ...]] = [(one,) for one in options.get(size, [])]
            if size == EXACT:
                tried += [(one, two) for one in ones for two in options.get(2, []) if one[0] != two[0]]
            if size > 1:
                tried += [some for some in combinations(ones, size) if len({one[0] for one in some}) == size]
            if not tried:
                continue
            sums = np.tile(self.shown.sums, (len(tried), 1))
            for place, parts in enumerate(tried):
                for cluster, change, _ in parts:
                    sums[place, cluster] += change
            order = np.argsort(self.shown.low(sums))
            lows = self.shown.low(sums)
            by_p = self.shown.p_at_most(size * self.largest) > LEVEL
            for row in order.tolist():
                if lows[row] > 0 and not by_p:
                    break
                if not self.shown.is_shown(sums[row]):
                    return tuple(label for one in tried[row] for label in one[2])
        return None

    def greedy(self) -> tuple[int, ...] | None:
        """Return labels that turn it together, each chosen as the one that lowers the interval most."""
        import numpy as np

        queues: list[list[tuple[float, int]]] = [[] for _ in self.shown.sums]
        for probe, found in self.best.items():
            change, chosen = found[1, False]
            if change < 0:
                queues[self.of[probe]].append((change, chosen[0]))
        for queue in queues:
            queue.sort(reverse=True)
        sums, named = self.shown.sums.copy(), list[int]()
        while self.shown.low(sums[None])[0] > 0:
            waiting = [cluster for cluster, queue in enumerate(queues) if queue]
            if not waiting:
                break
            tried = np.tile(sums, (len(waiting), 1))
            for row, cluster in enumerate(waiting):
                tried[row, cluster] += queues[cluster][-1][0]
            # The interval may narrow at first: then the mean decides.
            lows = self.shown.low(tried)
            row = int(np.argmin(lows)) if lows.min() < self.shown.low(sums[None])[0] else int(np.argmin(tried.sum(1)))
            change, label = queues[waiting[row]].pop()
            sums[waiting[row]] += change
            named.append(label)
        changes = dict.fromkeys(named)
        ends = self._after(tuple(changes))
        if self.shown.is_shown(ends):
            return None
        # The test may give way before the interval does.
        low, high = 1, len(named)
        while low < high:
            middle = (low + high) // 2
            if self.shown.is_shown(self._after(tuple(named[:middle]))):
                low = middle + 1
            else:
                high = middle
        return tuple(named[:high])

    def _after(self, named: tuple[int, ...]) -> Floats:
        """Return the sums if these labels are turned round."""
        asked = self._by_probe(named)
        sums = self.shown.sums.copy()
        for (probe, _), value in zip(asked, self.values(asked) if asked else (), strict=True):
            sums[self.of[probe]] += value - self.own[probe]
        return sums

    def _by_probe(self, named: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
        found: dict[int, list[int]] = {}
        for label in named:
            found.setdefault(self.labels[label].probe, []).append(label)
        return [(probe, tuple(sorted(some))) for probe, some in found.items()]

    def least(self, known: int, most: int | None) -> int:
        """Return a number of labels, at least ``known``, below which nothing can turn it."""
        low, high = known, most if most is not None else len(self.labels) + 1
        while low < high:
            middle = (low + high) // 2
            if self.shown.may_turn(middle * self.largest):
                high = middle
            else:
                low = middle + 1
        return low
