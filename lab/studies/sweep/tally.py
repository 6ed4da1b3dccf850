"""Measures of many configurations over one conversation, as sums and counts that can be added over conversations.

They are the measures of :mod:`lab.measures` under the same names, at the configuration's maxItems: ``Success`` is
Success@maxItems. A test compares each with ``lab score``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.golden.model import Probe
from lab.measures.definitions.ndcg import ndcg
from lab.measures.definitions.recall import recall
from lab.measures.definitions.success import success
from lab.measures.inputs import WINDOW, Judged
from lab.recordings.model import NICE, Memory
from lab.studies.sweep.groups import Heard
from lab.systems.contract import ManyRecalls

if TYPE_CHECKING:
    import numpy as np

PROBES = ("Success", "R", "nDCG", "GoldNice", "Present", "FalseRecall", "Forbidden")
TURNS = ("RepeatRate", "InjectedItems", "InjectedChars", "HardRules")
MEASURES = (*PROBES, *TURNS, "LongestStreak")


class Tallies(NamedTuple):
    """Sums and counts, float64 and int64 ``[c, len(MEASURES)]``."""

    sums: np.ndarray
    counts: np.ndarray


def tally(
    recalls: Sequence[ManyRecalls],
    heard: Sequence[Heard],
    memories: Sequence[Memory],
    count: int,
    max_items: int,
    carried: Sequence[tuple[int, ...]] = (),
) -> Tallies:
    """Score the injected memories.

    ``recalls`` holds, for each recall point, the injected memories as indices into ``memories``; ``heard`` holds what
    the replay loop knows of the recall point. ``count`` is the number of configurations, ``max_items`` their maxItems;
    ``carried`` are the pinned memories.
    """
    import numpy as np

    sums, counts = (np.zeros((count, len(MEASURES)), kind) for kind in (np.float64, np.int64))
    column = {name: index for index, name in enumerate(MEASURES)}

    def add(name: str, values: np.ndarray, counted: np.ndarray | bool = True) -> None:
        sums[:, column[name]] += np.where(counted, values, 0.0)
        counts[:, column[name]] += counted

    none = len(memories)
    number = {memory.key: index for index, memory in enumerate(memories)}
    for index, (point, _) in enumerate(heard):
        if point.probe is not None and point.probe.relevant:
            pinned = carried[index] if carried else ()
            relevant = (memories[number[key]] for key in point.probe.grades)
            nice = [
                number[memory.key] for memory in relevant if memory.label == NICE and memory.is_visible_at(point.seq)
            ]
            _probe(point.probe, recalls[index].injected, number, none, nice, max_items, pinned, add)
        elif point.probe is not None:
            add("FalseRecall", recalls[index].chars > 0)
        forbidden = [number[judgement.memory] for judgement in point.probe.forbidden] if point.probe else []
        if forbidden:
            add("Forbidden", np.isin(recalls[index].injected[:, :max_items], forbidden).sum(1) > 0)
    turns = [index for index, (point, _) in enumerate(heard) if point.is_recall_turn]
    repeats = _Repeats(count, none)
    for index in turns:
        rows = recalls[index].injected
        injected = (rows != none).sum(1)
        add("RepeatRate", *repeats.turn(rows, injected))
        add("InjectedItems", injected)
        add("InjectedChars", recalls[index].chars)
        if heard[index].hard_rules:
            add("HardRules", recalls[index].rules / heard[index].hard_rules)
    add("LongestStreak", repeats.longest, repeats.longest > 0)
    return Tallies(sums, counts)


def _probe(
    probe: Probe,
    rows: np.ndarray,
    number: Mapping[str, int],
    none: int,
    nice: Sequence[int],
    max_items: int,
    carried: Sequence[int],
    add: Callable[[str, np.ndarray], None],
) -> None:
    import numpy as np

    grades = np.full(none + 1, np.nan)
    for key, grade in probe.grades.items():
        grades[number[key]] = grade
    ideal = np.asarray([sorted(probe.grades.values(), reverse=True)], np.float64)
    judged = Judged(grades[rows], ideal, (rows != none).sum(1))
    hit = success(judged, max_items)
    add("Success", hit)
    add("R", recall(judged, max_items))
    add("nDCG", ndcg(judged, max_items))
    if nice:
        add("GoldNice", np.isin(rows, nice).sum(1) > 0)
    add("Present", np.ones_like(hit) if set(carried) & {number[key] for key in probe.grades} else hit)


class _Repeats:
    """The repeat rate by turn and the longest streak of one conversation."""

    def __init__(self, configurations: int, none: int) -> None:
        import numpy as np

        self._none = none
        self._last = np.full((configurations, none + 1), -(WINDOW + 1), np.int32)
        self._streak = np.zeros((configurations, none + 1), np.int32)
        self._every = np.arange(configurations)[:, None]
        self._started = np.zeros(configurations, bool)
        self._turn = 0
        self.longest = np.zeros(configurations, np.int32)

    def turn(self, rows: np.ndarray, injected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add a turn; return its repeat rate, and which configurations have one."""
        import numpy as np

        is_item, now = rows != self._none, self._turn
        ago = now - self._last[self._every, rows]
        rate = ((ago <= WINDOW) & is_item).sum(1) / np.maximum(injected, 1)
        counted = self._started & (injected > 0)
        self._started |= injected > 0
        streak = np.where(ago == 1, self._streak[self._every, rows], 0) + 1
        self._streak[self._every, rows], self._last[self._every, rows] = streak, now
        # The index for no item has no streak and counts as never injected.
        self._streak[:, -1], self._last[:, -1] = 0, -(WINDOW + 1)
        self.longest = np.maximum(self.longest, np.where(is_item, streak, 0).max(1, initial=0))
        self._turn += 1
        return rate, counted
