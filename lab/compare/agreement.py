"""How far two judges agree beyond chance.

The universe is a set of pairs (probe, memory), each with a grade by either judge: 0 where a judge did not list the
memory, or forbids it. Cohen's kappa (Educational and Psychological Measurement 20, 1960) is over relevant or not;
weighted kappa (Cohen, Psychological Bulletin 70, 1968) over the grades, with the squared distance as weight. Of
universes in which little is relevant the positive agreement says more: of what either judge lists, how much both do
(Dice). Intervals are jackknifed over conversations: pairs of one conversation are not independent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.compare.statistics import t_quantile
from lab.errors import UnusableInput
from lab.golden.changes import by_id
from lab.golden.model import GoldenSet, Probe
from lab.recordings.model import GLOBAL, Recording

# Pairs of grades, and how often each occurs.
Table = Counter[tuple[int, int]]
ALL = "all"


class Pair(NamedTuple):
    """One memory at one probe: a grade by either judge, and whether either forbids it."""

    probe: str
    conversation: str
    type: str
    memory: str
    grades: tuple[int, int]
    forbids: tuple[bool, bool]


class Agreement(NamedTuple):
    """Two judges over some pairs.

    ``low`` and ``high`` bound the 95 % interval of ``kappa``. None where there is nothing to compute: a kappa of judges
    who gave everything the same grade, an interval of one conversation.
    """

    name: str
    pairs: int
    both: int
    first: int
    second: int
    raw: float
    positive: float | None
    kappa: float | None
    low: float | None
    high: float | None
    weighted: float | None


@dataclass(frozen=True, slots=True)
class Agreements:
    """Two judges over the probes that both judged.

    ``rows`` are all pairs, then each type of the first judge's probes; ``forbidden`` is over the same pairs, forbidden
    or not; ``silent`` over probes, needing nothing or not. ``outside`` pairs were judged though the universe does not
    have them, and count. ``alone`` are how many probes each judged alone; ``unpooled`` both judged, and no pool has.
    """

    probes: int
    alone: tuple[int, int]
    unpooled: int
    outside: int
    rows: tuple[Agreement, ...]
    forbidden: Agreement
    silent: Agreement
    disagreements: tuple[Pair, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "probes": self.probes,
            "alone": list(self.alone),
            "unpooled": self.unpooled,
            "outside": self.outside,
            "agreement": [one._asdict() for one in self.rows],
            "forbidden": self.forbidden._asdict(),
            "needs_nothing": self.silent._asdict(),
            "disagreements": [one._asdict() for one in self.disagreements],
        }


def kappa(table: Mapping[tuple[int, int], int], *, squared: bool = False) -> float | None:
    """Cohen's kappa of a table of pairs of grades; None where a judge gave everything one grade.

    Whoever never tells one thing from another agrees as chance does, whatever the other says: 0 would blame both.

    ``1 - sum(w o) / sum(w e)``: o what is observed, e what independent judges with these margins would give, w the
    weight of a disagreement, 1 or the ``squared`` distance of the grades.
    """
    first, second = Counter[int](), Counter[int]()
    for (one, other), times in table.items():
        first[one] += times
        second[other] += times

    def weight(one: int, other: int) -> int:
        return (one - other) ** 2 if squared else int(one != other)

    if min(len(first), len(second)) < 2:
        return None
    total = sum(table.values())
    observed = sum(times * weight(*pair) for pair, times in table.items())
    expected = sum(first[one] * second[other] * weight(one, other) for one in first for other in second)
    return 1 - observed * total / expected


def agree(
    first: GoldenSet,
    second: GoldenSet,
    recordings: Mapping[str, Recording],
    pooled: Mapping[str, Collection[str]] | None = None,
) -> Agreements:
    """Agreement over the probes that both judged.

    The universe of a probe is what was ``pooled`` for it, by probe; else all memories that its turn can see and that
    are of its scope or global. What a judge listed beyond it counts, too. Raises :class:`UnusableInput` where no probe
    is in both, or a recording is not among those given.
    """
    one, other = by_id(first), by_id(second)
    both = [name for name in one if name in other]
    shared = [name for name in both if pooled is None or name in pooled]
    if not shared:
        where = "both golden sets and the pool" if both else "both golden sets"
        raise UnusableInput(f"no probe is in {where}: nothing that two judges could agree on")
    pairs: list[Pair] = []
    outside = 0
    for name in shared:
        universe = list(pooled[name] if pooled is not None else _reachable(one[name], recordings))
        listed = [
            judgement.memory for probe in (one[name], other[name]) for judgement in (*probe.relevant, *probe.forbidden)
        ]
        beyond = [key for key in dict.fromkeys(listed) if key not in universe]
        outside += len(beyond)
        pairs += _pairs(one[name], other[name], [*universe, *beyond])
    types = list(dict.fromkeys(pair.type for pair in pairs))
    relevant = [_agreement(ALL, pairs, lambda pair: pair.grades)]
    if len(types) > 1:
        relevant += [_agreement(kind, [one for one in pairs if one.type == kind], _grades) for kind in sorted(types)]
    silent = [
        Pair(
            name, one[name].conversation, "", "", (int(not one[name].relevant), int(not other[name].relevant)), NEITHER
        )
        for name in shared
    ]
    return Agreements(
        len(shared),
        (len(one) - len(both), len(other) - len(both)),
        len(both) - len(shared),
        outside,
        tuple(relevant),
        _agreement("forbidden", pairs, lambda pair: (int(pair.forbids[0]), int(pair.forbids[1]))),
        _agreement("needs nothing", silent, _grades),
        tuple(pair for pair in pairs if pair.grades[0] != pair.grades[1] or pair.forbids[0] != pair.forbids[1]),
    )


NEITHER = (False, False)


def _grades(pair: Pair) -> tuple[int, int]:
    return pair.grades


def _reachable(probe: Probe, recordings: Mapping[str, Recording]) -> list[str]:
    """The memories that a probe can see, of its scope or global; one from outside sees all."""
    if probe.conversation not in recordings:
        raise UnusableInput(f"probe {probe.id} names conversation {probe.conversation!r}, which no recording has")
    recording = recordings[probe.conversation]
    if probe.turn is None:
        return [memory.key for memory in recording.memories]
    turn = next((one for one in recording.turns if one.key == probe.turn), None)
    if turn is None:
        raise UnusableInput(f"probe {probe.id} names turn {probe.turn!r}, which the recording does not have")
    return [
        memory.key
        for memory in recording.memories
        if memory.is_visible_at(turn.seq) and memory.scope in (turn.scope, GLOBAL)
    ]


def _pairs(one: Probe, other: Probe, universe: Iterable[str]) -> list[Pair]:
    forbids = [{judgement.memory for judgement in probe.forbidden} for probe in (one, other)]
    return [
        Pair(
            one.id,
            one.conversation,
            one.slices.get("type", ""),
            key,
            (one.grades.get(key, 0), other.grades.get(key, 0)),
            (key in forbids[0], key in forbids[1]),
        )
        for key in universe
    ]


def _agreement(name: str, pairs: Sequence[Pair], grades: Callable[[Pair], tuple[int, int]]) -> Agreement:
    by_conversation: dict[str, Table] = {}
    for pair in pairs:
        by_conversation.setdefault(pair.conversation, Counter())[grades(pair)] += 1
    whole = _sum(by_conversation.values())
    yes = _yes_or_no(whole)
    both, first, second, total = yes[1, 1], yes[1, 0], yes[0, 1], yes.total()
    found = kappa(yes)
    low, high = _jackknife(by_conversation, found)
    listed = 2 * both + first + second
    return Agreement(
        name,
        total,
        both,
        first,
        second,
        (both + yes[0, 0]) / total if total else math.nan,
        2 * both / listed if listed else None,
        found,
        low,
        high,
        kappa(whole, squared=True),
    )


def _yes_or_no(table: Table) -> Table:
    found: Table = Counter()
    for (one, other), times in table.items():
        found[int(one > 0), int(other > 0)] += times
    return found


def _sum(tables: Iterable[Table]) -> Table:
    found: Table = Counter()
    for table in tables:
        found.update(table)
    return found


def _jackknife(tables: Mapping[str, Table], found: float | None) -> tuple[float | None, float | None]:
    """The 95 % interval of kappa: each conversation left out once, t with one degree less than there are of them."""
    if found is None or len(tables) < 2:
        return None, None
    left = [kappa(_yes_or_no(_sum(table for other, table in tables.items() if other != name))) for name in tables]
    known = [one for one in left if one is not None]
    if len(known) < len(left):
        return None, None
    n, mean = len(known), math.fsum(known) / len(known)
    error = math.sqrt((n - 1) / n * math.fsum((one - mean) ** 2 for one in known))
    reach = t_quantile(0.975, n - 1) * error
    return max(-1.0, found - reach), min(1.0, found + reach)
