"""Agreement of two judges beyond chance.

The judges are compared on the memories of a probe that both of them graded. A memory that a judge lists as irrelevant,
or forbids, has grade 0. A memory that a judge does not list has one of two meanings:

* The judge lists some irrelevant memories of the probe. Then the judge did not grade this one, and it is left out.
* The judge lists no irrelevant memory of the probe, as in older golden sets. Then the memory has grade 0.

Cohen's kappa (Educational and Psychological Measurement 20, 1960) compares relevant with not relevant; weighted kappa
(Cohen, Psychological Bulletin 70, 1968) compares grades, weighted by squared distance. If few pairs are relevant,
positive agreement says more: the share of listed memories that both judges list (the Dice coefficient). Intervals are
jackknifed over conversations, because pairs of one conversation are not independent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.compare.statistics import t_quantile
from lab.golden.model import IRRELEVANT, GoldenSet, Probe, by_id, marks
from lab.recordings.model import GLOBAL, Recording

# How often each pair of grades occurs.
Table = Counter[tuple[int, int]]
ALL = "all"


class Pair(NamedTuple):
    """One memory at one probe: each judge's grade, and whether each judge forbids it."""

    probe: str
    conversation: str
    type: str
    memory: str
    grades: tuple[int, int]
    forbids: tuple[bool, bool]


class Agreement(NamedTuple):
    """Agreement of two judges over some pairs.

    ``both``, ``first`` and ``second`` count the pairs that both judges or only one judge listed; ``raw`` is the share
    of pairs on which they agree. ``low`` and ``high`` bound the 95 % interval of ``kappa``. A figure is None if it is
    undefined: kappa if a judge gave every pair the same grade, the interval for a single conversation.
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
    """Agreement of two judges over the probes that both judged.

    ``rows`` holds the agreement over all pairs, then over each probe type of the first judge; ``forbidden`` compares
    forbidden with not forbidden; ``silent`` compares probes, needing no memory or some. ``outside`` counts judged pairs
    that are not in the universe; they are included. ``one_sided`` counts the pairs that only one judge lists and the
    other has not judged; they are left out. ``alone`` counts the probes that only one judge judged, ``unpooled`` those
    that both judged and no pool contains.
    """

    probes: int
    alone: tuple[int, int]
    unpooled: int
    outside: int
    one_sided: int
    rows: tuple[Agreement, ...]
    forbidden: Agreement
    silent: Agreement
    disagreements: tuple[Pair, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "probes": self.probes,
            "alone": list(self.alone),
            "unpooled": self.unpooled,
            "outside": self.outside,
            "one_sided": self.one_sided,
            "agreement": [row._asdict() for row in self.rows],
            "forbidden": self.forbidden._asdict(),
            "needs_nothing": self.silent._asdict(),
            "disagreements": [pair._asdict() for pair in self.disagreements],
        }


def kappa(table: Mapping[tuple[int, int], int], *, squared: bool = False) -> float | None:
    """Return Cohen's kappa of a table of grade pairs; None if a judge gave every pair the same grade.

    Such a judge agrees exactly as chance does, whatever the other one says, and a kappa of 0 would blame both.

    Kappa is ``1 - sum(w o) / sum(w e)``: o the observed counts, e those expected of independent judges with the same
    margins, w the weight of a disagreement, which is 1 or the ``squared`` distance of the grades.
    """
    first, second = Counter[int](), Counter[int]()
    for (left, right), times in table.items():
        first[left] += times
        second[right] += times

    def weight(left: int, right: int) -> int:
        return (left - right) ** 2 if squared else int(left != right)

    if min(len(first), len(second)) < 2:
        return None
    total = sum(table.values())
    observed = sum(times * weight(*pair) for pair, times in table.items())
    expected = sum(first[left] * second[right] * weight(left, right) for left in first for right in second)
    return 1 - observed * total / expected


def agree(
    first: GoldenSet,
    second: GoldenSet,
    recordings: Mapping[str, Recording],
    pooled: Mapping[str, Collection[str]] | None = None,
) -> Agreements:
    """Return the agreement of two judges over the probes that both judged.

    The universe of a probe is what ``pooled`` holds for it; without a pool, all memories that its turn can see and that
    are of its scope or global. Memories that a judge listed outside the universe are included, but for those that one
    judge lists as irrelevant and the other does not list. Raises :class:`UnusableInput` if no probe is in both sets, or
    a probe names a conversation without a recording.
    """
    by_first, by_second = by_id(first), by_id(second)
    both = [name for name in by_first if name in by_second]
    shared = [name for name in both if pooled is None or name in pooled]
    if not shared:
        where = "both golden sets and the pool" if both else "both golden sets"
        raise UnusableInput(f"no probe is in {where}: agreement needs at least one probe that both judges judged")
    pairs: list[Pair] = []
    outside = one_sided = 0
    for name in shared:
        universe = list(pooled[name] if pooled is not None else _reachable(by_first[name], recordings))
        probes = by_first[name], by_second[name]
        one, other = (marks(probe) for probe in probes)
        inside = set(universe)
        beyond = [key for key in dict.fromkeys((*one, *other)) if key not in inside]
        by_both = [
            key
            for key in (*universe, *beyond)
            if _has_judged(probes[0], one, key, inside, other) and _has_judged(probes[1], other, key, inside, one)
        ]
        outside += len({*by_both} - inside)
        one_sided += sum((key in one) != (key in other) for key in {*universe, *beyond}.difference(by_both))
        pairs += _pairs(*probes, by_both)
    types = list(dict.fromkeys(pair.type for pair in pairs))
    relevant = [_agreement(ALL, pairs, lambda pair: pair.grades)]
    if len(types) > 1:
        relevant += [_agreement(kind, [pair for pair in pairs if pair.type == kind], _grades) for kind in sorted(types)]
    silent = [
        Pair(
            name,
            by_first[name].conversation,
            "",
            "",
            (int(not by_first[name].relevant), int(not by_second[name].relevant)),
            NEITHER,
        )
        for name in shared
    ]
    return Agreements(
        len(shared),
        (len(by_first) - len(both), len(by_second) - len(both)),
        len(both) - len(shared),
        outside,
        one_sided,
        tuple(relevant),
        _agreement("forbidden", pairs, lambda pair: (int(pair.forbids[0]), int(pair.forbids[1]))),
        _agreement("needs nothing", silent, _grades),
        tuple(pair for pair in pairs if pair.grades[0] != pair.grades[1] or pair.forbids[0] != pair.forbids[1]),
    )


NEITHER = (False, False)


def _grades(pair: Pair) -> tuple[int, int]:
    return pair.grades


def _has_judged(
    probe: Probe, judged: Mapping[str, str], key: str, universe: Collection[str], by_other: Mapping[str, str]
) -> bool:
    """Return whether a probe judges a memory, or grades it 0 by not listing it (see the module's docstring)."""
    if key in judged:
        return True
    return not probe.irrelevant and (key in universe or by_other[key] != IRRELEVANT)


def _reachable(probe: Probe, recordings: Mapping[str, Recording]) -> list[str]:
    """Return the memories that a probe can see, of its scope or global; a probe without a turn sees all."""
    if probe.conversation not in recordings:
        raise UnusableInput(f"probe {probe.id} names conversation {probe.conversation!r}, which no recording has")
    recording = recordings[probe.conversation]
    if probe.capture:
        return [memory.key for memory in recording.memories if memory.key.rpartition("#")[0] == probe.turn]
    if probe.turn is None:
        return [memory.key for memory in recording.memories]
    turn = next((turn for turn in recording.turns if turn.key == probe.turn), None)
    if turn is None:
        raise UnusableInput(f"probe {probe.id} names turn {probe.turn!r}, which the recording does not have")
    return [
        memory.key
        for memory in recording.memories
        if memory.is_visible_at(turn.seq) and memory.scope in (turn.scope, GLOBAL)
    ]


def _pairs(first: Probe, second: Probe, universe: Iterable[str]) -> list[Pair]:
    forbids = [{judgement.memory for judgement in probe.forbidden} for probe in (first, second)]
    return [
        Pair(
            first.id,
            first.conversation,
            first.slices.get("type", ""),
            key,
            (first.grades.get(key, 0), second.grades.get(key, 0)),
            (key in forbids[0], key in forbids[1]),
        )
        for key in universe
    ]


def _agreement(name: str, pairs: Sequence[Pair], grades: Callable[[Pair], tuple[int, int]]) -> Agreement:
    by_conversation: dict[str, Table] = {}
    for pair in pairs:
        by_conversation.setdefault(pair.conversation, Counter())[grades(pair)] += 1
    table = _sum(by_conversation.values())
    binary = _binary(table)
    both, first, second, total = binary[1, 1], binary[1, 0], binary[0, 1], binary.total()
    estimate = kappa(binary)
    low, high = _jackknife(by_conversation, estimate)
    listed = 2 * both + first + second
    return Agreement(
        name,
        total,
        both,
        first,
        second,
        (both + binary[0, 0]) / total if total else math.nan,
        2 * both / listed if listed else None,
        estimate,
        low,
        high,
        kappa(table, squared=True),
    )


def _binary(table: Table) -> Table:
    binary: Table = Counter()
    for (first, second), times in table.items():
        binary[int(first > 0), int(second > 0)] += times
    return binary


def _sum(tables: Iterable[Table]) -> Table:
    total: Table = Counter()
    for table in tables:
        total.update(table)
    return total


def _jackknife(tables: Mapping[str, Table], estimate: float | None) -> tuple[float | None, float | None]:
    """Return the 95 % jackknife interval of kappa: t with one degree of freedom fewer than there are conversations."""
    if estimate is None or len(tables) < 2:
        return None, None
    leave_one_out = [kappa(_binary(_sum(table for other, table in tables.items() if other != name))) for name in tables]
    known = [value for value in leave_one_out if value is not None]
    if len(known) < len(leave_one_out):
        return None, None
    n, mean = len(known), math.fsum(known) / len(known)
    error = math.sqrt((n - 1) / n * math.fsum((value - mean) ** 2 for value in known))
    half_width = t_quantile(0.975, n - 1) * error
    return max(-1.0, estimate - half_width), min(1.0, estimate + half_width)
