"""Run the arms of a sweep in groups that select together as one system, and measure what each arm injects.

Arms that support it (:class:`lab.systems.contract.SelectsMany`) are grouped; every other arm runs by itself.

The measures are those of :mod:`lab.measures` under the same names, at the configuration's maxItems: ``Success`` is
Success@maxItems. They are sums and counts that can be added over conversations. A test compares them with ``lab
score``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lab.base.utf16 import js_length
from lab.golden.model import Probe
from lab.measures.definitions.ndcg import ndcg
from lab.measures.definitions.recall import recall
from lab.measures.definitions.success import success
from lab.measures.inputs import WINDOW, Judged
from lab.recordings.model import NICE, Memory
from lab.replay.loop import Answered
from lab.replay.timeline import RecallPoint
from lab.systems.contract import (
    Arm,
    ArmInfo,
    Ask,
    Candidates,
    ManyRecalls,
    ManySystem,
    MemorySystem,
    Recall,
    Retriever,
    SelectsMany,
)
from lab.systems.kit import Kit

if TYPE_CHECKING:
    import numpy as np


class Group(NamedTuple):
    """Indices of arms that run as one system if ``together``; else the index of a single arm."""

    indices: tuple[int, ...]
    together: bool


def grouped(arms: Sequence[Arm]) -> tuple[Group, ...]:
    """Return the groups of arms that select together, then the single arms."""
    groups: dict[Hashable, list[int]] = {}
    alone: list[Group] = []
    for index, arm in enumerate(arms):
        key = arm.group_key() if isinstance(arm, SelectsMany) else None
        if key is None:
            alone.append(Group((index,), together=False))
        else:
            groups.setdefault(key, []).append(index)
    return (*(Group(tuple(members), together=True) for members in groups.values()), *alone)


class Heard(NamedTuple):
    """A recall point, and the number of visible hard rules."""

    point: RecallPoint
    hard_rules: int


@dataclass(slots=True)
class Book:
    """The recalls of a group: one entry per recall point in each list. ``indices`` are the indices of its arms.

    ``arm`` is the arm that the replay loop runs for the group. ``carried`` is filled for single arms only: the indices
    of the pinned memories, which are in the prompt besides the items.
    """

    arm: Arm
    indices: tuple[int, ...]
    recalls: list[ManyRecalls] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    carried: list[tuple[int, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Together:
    """An arm that represents a group in the replay loop. Its system appends the selections to ``recalls``."""

    first: SelectsMany
    arms: tuple[Arm, ...]
    memories: Sequence[Memory]
    recalls: list[ManyRecalls]

    @property
    def name(self) -> str:
        """Return the name of its first arm."""
        return self.arms[0].name

    def describe(self) -> ArmInfo:
        """Return the description of its first arm, which the loop uses for the group."""
        return self.arms[0].describe()

    def open(self, kit: Kit) -> MemorySystem:
        """Open one system for all arms."""
        return _Opened(self.first.open_many(self.arms, kit, self.memories), self.recalls)


class _Opened(MemorySystem):
    """The system of a group. The recalls that it returns to the loop hold a status and nothing else."""

    def __init__(self, many: ManySystem, recalls: list[ManyRecalls]) -> None:
        self.retrieval_key, self._many, self._recalls = many.retrieval_key, many, recalls

    def open_retriever(self) -> Retriever:
        """Open the group's retriever."""
        return self._many.open_retriever()

    def remember(self, memories: Sequence[Memory]) -> None:
        """Pass new memories to the group."""
        self._many.remember(memories)

    def forget(self, keys: Sequence[str]) -> None:
        """Pass the keys of deleted memories to the group."""
        self._many.forget(keys)

    def select(self, ask: Ask, found: Candidates) -> Recall:
        """Select for every arm, and record the result."""
        recalls = self._many.select_many(ask, found)
        self._recalls.append(recalls)
        return Recall(status=recalls.status)

    def close(self) -> None:
        """Close the group."""
        self._many.close()


def seated(arms: Sequence[Arm], groups: Sequence[Group], memories: Sequence[Memory]) -> list[Book]:
    """Return an empty :class:`Book` for every group, in order."""
    books = []
    for indices, together in groups:
        first = arms[indices[0]]
        book = Book(first, indices)
        if together and isinstance(first, SelectsMany):
            book.arm = Together(first, tuple(arms[index] for index in indices), memories, book.recalls)
        books.append(book)
    return books


class Writer:
    """Record the results of the replay loop in the :class:`Book` of each group."""

    def __init__(self, books: Sequence[Book], memories: Sequence[Memory]) -> None:
        self._books = {book.arm.name: book for book in books}
        self._number = {memory.key: number for number, memory in enumerate(memories)}

    def take(self, answered: Answered) -> None:
        """Record the result of one arm at one recall point."""
        import numpy as np

        book, recall = self._books[answered.arm], answered.recall
        book.heard.append(Heard(answered.point, answered.hard_rules))
        if isinstance(book.arm, Together):
            return
        number = self._number
        rows = [number[item.id] for item in recall.items[: recall.injected]]
        book.recalls.append(
            ManyRecalls(
                np.asarray([rows], np.int32).reshape(1, len(rows)),
                np.asarray([js_length(recall.context)], np.int64),
                np.asarray([answered.hard_kept], np.int64),
            )
        )
        book.carried.append(tuple(number[key] for key in recall.pinned))


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
