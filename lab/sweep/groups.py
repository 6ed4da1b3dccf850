"""The arms of a sweep in one conversation: groups that select together as one system, and single arms.

Arms select together if they support it (:class:`lab.systems.contract.SelectsMany`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.recordings.model import Memory
from lab.replay.loop import Answered
from lab.replay.recall_points import RecallPoint
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
from lab.utf16 import js_length


class Group(NamedTuple):
    """Arms by their index: several as one system if ``together``, else a single one."""

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
    """The recalls of a group by recall point; ``carried`` are pinned memories, which are in the text besides the items.

    ``arm`` is the arm that the replay loop runs for the group.
    """

    arm: Arm
    indices: tuple[int, ...]
    recalls: list[ManyRecalls] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    carried: list[tuple[int, ...]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Together:
    """A group as one arm of the replay loop; its selections are appended to ``recalls``."""

    first: SelectsMany
    arms: tuple[Arm, ...]
    memories: Sequence[Memory]
    recalls: list[ManyRecalls]

    @property
    def name(self) -> str:
        """Return the name of its first arm."""
        return self.arms[0].name

    def describe(self) -> ArmInfo:
        """Return the description of its first arm, which represents all of them for the loop."""
        return self.arms[0].describe()

    def open(self, kit: Kit) -> MemorySystem:
        """Open one system for all arms."""
        return _Opened(self.first.open_many(self.arms, kit, self.memories), self.recalls)


class _Opened(MemorySystem):
    """The system of a group. Its recalls for the loop are empty except for their status."""

    def __init__(self, many: ManySystem, recalls: list[ManyRecalls]) -> None:
        self.retrieval_key, self._many, self._recalls = many.retrieval_key, many, recalls

    def open_retriever(self) -> Retriever:
        """Open the group's retriever."""
        return self._many.open_retriever()

    def remember(self, memories: Sequence[Memory]) -> None:
        """Pass new memories on."""
        self._many.remember(memories)

    def forget(self, keys: Sequence[str]) -> None:
        """Pass deletions on."""
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
    """Return a book for every group."""
    books = []
    for indices, together in groups:
        first = arms[indices[0]]
        book = Book(first, indices)
        if together and isinstance(first, SelectsMany):
            book.arm = Together(first, tuple(arms[index] for index in indices), memories, book.recalls)
        books.append(book)
    return books


class Writer:
    """Writes the results of the replay loop into books."""

    def __init__(self, books: Sequence[Book], memories: Sequence[Memory]) -> None:
        self._books = {book.arm.name: book for book in books}
        self._number = {memory.key: number for number, memory in enumerate(memories)}

    def take(self, answered: Answered) -> None:
        """Record one result."""
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
