"""How many judgements would turn a conclusion on two arms: what it takes until it no longer holds.

A judgement is one grade or mark of a memory at a probe. A wrong one is turned round: a relevant memory is not relevant,
an irrelevant one is (grade 1), a misleading one does not mislead, another one does. A probe whose last relevant memory
is turned round counts as no difference. Memories that nobody judged would have to be relevant.

A conclusion is that the mean of a value over probes is above 0: the near end of its interval is, and a sign-flip test
agrees (:class:`Conclusion`). Other thresholds and directions are values that are shifted and turned. With the sums of
the clusters as variables, the near end of the interval is a concave function, so over all changes of a given size it is
lowest where the whole change is in one cluster; and p only grows as sums fall. From this follow

* a lower bound: with fewer judgements, each as influential as the most influential one, neither gives way;
* the exact number, if three at most suffice: only the largest changes of each cluster can matter;
* an upper bound: a greedy choice, which is recomputed to see that it turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.compare.statistics import (
    EXACT_UP_TO,
    LEAST_CLUSTERS,
    LEVEL,
    TWO_SIDED,
    all_signs,
    drawn_signs,
    sign_flips,
    t_quantile,
)

if TYPE_CHECKING:
    from lab.measures.inputs import Floats, Ints

# Up to this number of judgements the search is exact, unless a probe has more judgements than are tried together.
EXACT, TOGETHER = 3, 12


class Label(NamedTuple):
    """A judgement, or a memory without one: its probe and key, and what it is called."""

    probe: int
    memory: str
    called: str


# The value at each probe if some of its labels, by their places, are turned round.
Values = Callable[[Sequence[tuple[int, tuple[int, ...]]]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Fragility:
    """What turns a conclusion. ``least`` and ``most`` bound the number of judgements, ``most`` is None if all do not.

    ``named`` are ``most`` labels that turn it together. ``drawn`` says which draws of wrong labels turn it.
    """

    labels: int
    least: int
    most: int | None
    named: tuple[Label, ...]
    drawn: tuple[bool, ...] = ()


def _itself(p: float) -> float:
    return p


@dataclass(frozen=True, slots=True)
class Conclusion:
    """When the mean of values by cluster is concluded to be above 0.

    The interval at the one-sided ``level`` lies above 0, or from 0 on with ``or_equal``; and p of the sign-flip test,
    adjusted for its family, is at most ``p_level``. Without ``p_level`` there is no test.
    """

    level: float = TWO_SIDED
    or_equal: bool = False
    p_level: float | None = LEVEL
    one_sided: bool = False
    adjust: Callable[[float], float] = _itself


class Held:
    """A conclusion on the sums of values by cluster, and whether it still holds for other sums."""

    def __init__(self, sums: Sequence[float], sizes: Sequence[int], conclusion: Conclusion) -> None:
        import numpy as np

        self.sums, self.sizes, self.conclusion = np.asarray(sums, float), np.asarray(sizes, float), conclusion

    def holds(self, sums: Floats) -> bool:
        """Return whether it holds for sums of the same clusters."""
        return bool(self.hold(sums[None])[0])

    def hold(self, sums: Floats) -> Any:
        """Return whether it holds for each row of sums."""
        import numpy as np

        own, found = self.conclusion, ~self.gives_way(sums)
        if own.p_level is not None and found.any():
            # All rows share one set of draws.
            p_values = sign_flips(sums[found].tolist(), one_sided=own.one_sided)
            found[found] = np.array([own.adjust(p) for p in p_values]) <= own.p_level
        return found

    def gives_way(self, sums: Floats) -> Any:
        """Return whether the interval of each row of sums gives way."""
        low = self.low(sums)
        return low < -1e-12 if self.conclusion.or_equal else low <= 0

    def low(self, sums: Floats) -> Floats:
        """Return the near end of the interval of each row of sums."""
        import numpy as np

        n, clusters = self.sizes.sum(), len(self.sizes)
        mean = sums.sum(1) / n
        spread = ((sums - self.sizes * mean[:, None]) ** 2).sum(1)
        error = np.sqrt(clusters / (clusters - 1) * spread) / n
        return np.asarray(mean - t_quantile(1 - self.conclusion.level, clusters - 1) * error)

    def test_may_give_way(self, change: float) -> bool:
        """Return whether the largest p that sums can have which differ by ``change`` together is above its level."""
        import numpy as np

        own = self.conclusion
        if own.p_level is None:
            return False
        clusters = len(self.sums)
        signs = all_signs(clusters) if clusters <= EXACT_UP_TO else drawn_signs(clusters, 0)
        total, count = self.sums.sum(), 0
        for start in range(0, len(signs), 4096):
            negated = (total - signs[start : start + 4096].astype(float) @ self.sums) / 2
            least = negated if own.one_sided else np.minimum(negated, total - negated)
            count += int(np.count_nonzero(least <= change + 1e-9))
        drawn = 0 if clusters <= EXACT_UP_TO else 1
        return own.adjust(min(1.0, (count + drawn) / (len(signs) + drawn))) > own.p_level

    def may_turn(self, change: float) -> bool:
        """Return whether any change of this size, in all clusters together, could turn it."""
        import numpy as np

        each = np.eye(len(self.sums)) * change
        ends = np.concatenate((self.sums - each, self.sums + each))
        return bool(self.gives_way(ends).any()) or self.test_may_give_way(change)


def fragility(
    own: Sequence[float],
    clusters: Sequence[int],
    labels: Sequence[Label],
    values: Values,
    *,
    largest: float,
    conclusion: Conclusion | None = None,
    drawn: Sequence[Ints] = (),
    inert: Sequence[int] = (),
) -> Fragility | None:
    """Return what turns a conclusion; None if it does not hold, so that nothing can turn.

    ``own`` has a value for each probe and ``clusters`` its cluster, from 0 without a gap. ``largest`` is the most by
    which one label can change a value, whatever the others say. ``conclusion`` is by default that of a comparison.
    ``drawn`` are draws of labels that are wrong, each in ascending order. ``inert`` numbers the kind of each label:
    labels of one kind, from 1, that change nothing alone change nothing together.
    """
    import numpy as np

    count = max(clusters, default=-1) + 1
    if count < (LEAST_CLUSTERS if conclusion is None else 2):
        return None
    of, each = np.asarray(clusters), np.asarray(own, float)
    sums, sizes = np.bincount(of, each, count).tolist(), np.bincount(of, minlength=count).tolist()
    held = Held(sums, sizes, conclusion or Conclusion())
    if not held.holds(held.sums):
        return None
    problem = _Problem(each, of, labels, values, held, largest)
    turned = tuple(problem.turned_by(drawn, inert))
    named = problem.exact()
    if named is not None:
        return Fragility(len(labels), len(named), len(named), tuple(labels[at] for at in named), turned)
    chosen = problem.greedy()
    most = None if chosen is None else len(chosen)
    least = problem.least(1 if problem.is_cut else EXACT + 1, most)
    return Fragility(len(labels), least, most, tuple(labels[at] for at in chosen or ()), turned)


class _Step(NamedTuple):
    """Labels of a probe that are turned round after others, and by how much they change its value."""

    change: float
    labels: tuple[int, ...]


class _Problem:
    """The changes that labels make, probe by probe and cluster by cluster."""

    def __init__(
        self, own: Floats, of: Any, labels: Sequence[Label], values: Values, held: Held, largest: float
    ) -> None:
        import numpy as np

        self.own, self.of, self.labels, self.values, self.held = own, of, labels, values, held
        self.largest = largest
        self.at: dict[int, list[int]] = {}
        for number, label in enumerate(labels):
            self.at.setdefault(label.probe, []).append(number)
        # Several labels of one probe are tried together only where so few could turn it, and if it has not too many.
        self.together = EXACT if held.may_turn(EXACT * largest) else 1
        self.is_cut = self.together > 1 and any(len(some) > TOGETHER for some in self.at.values())
        # Of each probe the lowest and the highest change by the number of labels, with these labels.
        self.best: dict[int, dict[tuple[int, bool], tuple[float, tuple[int, ...]]]] = {}
        asked = [
            (probe, chosen)
            for probe, some in self.at.items()
            for size in range(1, (self.together if len(some) <= TOGETHER else 1) + 1)
            for chosen in combinations(some, size)
        ]
        # The change that each label makes alone.
        self.alone = np.zeros(len(labels))
        after = values(asked) if asked else []
        for (probe, chosen), value in zip(asked, after, strict=True):
            change = float(value - own[probe])
            if len(chosen) == 1:
                self.alone[chosen[0]] = change
            found = self.best.setdefault(probe, {})
            for up in (False, True):
                key = (len(chosen), up)
                if key not in found or (change > found[key][0] if up else change < found[key][0]):
                    found[key] = change, chosen

    def _of_clusters(self) -> list[dict[tuple[int, bool], tuple[float, tuple[int, ...]]]]:
        """Return of each cluster the lowest and the highest change by the number of labels, up to :data:`EXACT`."""
        clusters: list[dict[tuple[int, bool], tuple[float, tuple[int, ...]]]] = [{} for _ in self.held.sums]
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
            sums = np.tile(self.held.sums, (len(tried), 1))
            for place, parts in enumerate(tried):
                for cluster, change, _ in parts:
                    sums[place, cluster] += change
            gives_way, by_test = self.held.gives_way(sums), self.held.test_may_give_way(size * self.largest)
            for row in np.argsort(self.held.low(sums)).tolist():
                if not gives_way[row] and not by_test:
                    break
                if not self.held.holds(sums[row]):
                    return tuple(label for one in tried[row] for label in one[2])
        return None

    def greedy(self) -> tuple[int, ...] | None:
        """Return labels that turn it together, each step chosen as the one that lowers the interval most."""
        import numpy as np

        chains = self._chains()
        queues: list[list[tuple[float, int]]] = [[] for _ in self.held.sums]
        for probe, steps in chains.items():
            heappush(queues[self.of[probe]], (steps[0].change / len(steps[0].labels), probe))
        sums, named, taken = self.held.sums.copy(), list[int](), dict.fromkeys(chains, 0)
        while not self.held.gives_way(sums[None])[0] and any(queues):
            waiting = [cluster for cluster, queue in enumerate(queues) if queue]
            tried = np.tile(sums, (len(waiting), 1))
            for row, cluster in enumerate(waiting):
                tried[row, cluster] += queues[cluster][0][0]
            # The interval may narrow at first: then the mean decides.
            lows = self.held.low(tried)
            row = int(np.argmin(lows)) if lows.min() < self.held.low(sums[None])[0] else int(np.argmin(tried.sum(1)))
            _, probe = heappop(queues[waiting[row]])
            steps, at = chains[probe], taken[probe]
            sums[waiting[row]] += steps[at].change
            named += steps[at].labels
            taken[probe] = at + 1
            if at + 1 < len(steps):
                heappush(queues[waiting[row]], (steps[at + 1].change / len(steps[at + 1].labels), probe))
        if self.held.holds(self._after(tuple(named))):
            return None
        # The test may give way before the interval does.
        low, high = 1, len(named)
        while low < high:
            middle = (low + high) // 2
            if self.held.holds(self._after(tuple(named[:middle]))):
                low = middle + 1
            else:
                high = middle
        return tuple(named[:high])

    def _chains(self) -> dict[int, list[_Step]]:
        """Return of each probe the steps that lower its value: single labels, then what remains of each kind."""
        waiting: dict[int, list[tuple[int, ...]]] = {}
        for number in sorted(range(len(self.labels)), key=lambda one: float(self.alone[one])):
            if self.alone[number] < 0:
                waiting.setdefault(self.labels[number].probe, []).append((number,))
        kinds: dict[tuple[int, str], list[int]] = {}
        for number, label in enumerate(self.labels):
            kinds.setdefault((label.probe, label.called), []).append(number)
        for (probe, _), some in kinds.items():
            if len(some) > 1:
                waiting.setdefault(probe, []).append(tuple(some))
        chains: dict[int, list[_Step]] = {}
        reached = {probe: (float(self.own[probe]), frozenset[int]()) for probe in waiting}
        for place in range(max(map(len, waiting.values()), default=0)):
            asked = [
                (probe, tuple(sorted(reached[probe][1].union(some[place]))))
                for probe, some in waiting.items()
                if place < len(some)
            ]
            for (probe, chosen), value in zip(asked, self.values(asked), strict=True):
                before, known = reached[probe]
                if value < before - 1e-12:
                    added = tuple(one for one in chosen if one not in known)
                    chains.setdefault(probe, []).append(_Step(float(value) - before, added))
                    reached[probe] = float(value), frozenset(chosen)
        return chains

    def turned_by(self, drawn: Sequence[Ints], inert: Sequence[int] = ()) -> list[bool]:
        """Return whether each draw of wrong labels turns it."""
        import numpy as np

        if not drawn:
            return []
        probes = np.array([label.probe for label in self.labels], np.int64)
        sums = np.tile(self.held.sums, (len(drawn), 1))
        kinds = np.where(self.alone == 0, np.array(inert or [0] * len(self.labels), np.int64), 0)
        together: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for draw, chosen in enumerate(drawn):
            if not len(chosen):
                continue
            _, first, count = np.unique(probes[chosen], return_index=True, return_counts=True)
            ones = chosen[first[count == 1]]
            np.add.at(sums[draw], self.of[probes[ones]], self.alone[ones])
            # Labels are in the order of their probes.
            low, high = np.minimum.reduceat, np.maximum.reduceat
            still = (low(kinds[chosen], first) > 0) & (low(kinds[chosen], first) == high(kinds[chosen], first))
            several = (count > 1) & ~still
            for begin, size in zip(first[several].tolist(), count[several].tolist(), strict=True):
                some = tuple(chosen[begin : begin + size].tolist())
                together.setdefault((int(probes[some[0]]), some), []).append(draw)
        after = self.values(list(together)) if together else []
        for ((probe, _), draws), value in zip(together.items(), after, strict=True):
            sums[draws, self.of[probe]] += value - self.own[probe]
        return [not holds for holds in self.held.hold(sums).tolist()]

    def _after(self, named: tuple[int, ...]) -> Floats:
        """Return the sums if these labels are turned round."""
        asked = self._by_probe(named)
        sums = self.held.sums.copy()
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
            if self.held.may_turn(middle * self.largest):
                high = middle
            else:
                low = middle + 1
        return low
