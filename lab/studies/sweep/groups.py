"""Run the arms of a sweep in groups: arms of a group select together as one system.

Arms that support it (:class:`lab.systems.contract.SelectsMany`) are grouped; every other arm runs by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.base.utf16 import js_length
from lab.recordings.model import Memory
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
