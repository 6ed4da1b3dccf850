"""Collect measured values into the scores of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lab.runs.scores import Scores

if TYPE_CHECKING:
    from lab.base.columns import Flags, Floats, Ints


class Block(NamedTuple):
    """Values by measure, ``[units]`` each; ``where`` flags those that exist, ``[units, measures]``, by default all."""

    at: Ints
    values: Mapping[str, Floats]
    where: Flags | None = None


class Builder:
    """Collects blocks of values; names are numbered in order of appearance."""

    def __init__(self) -> None:
        self._arms: dict[str, int] = {}
        self._conversations: dict[str, int] = {}
        self._measures: dict[str, int] = {}
        self._units: list[str] = []
        self._blocks: list[tuple[Ints, ...]] = []
        self._values: list[Floats] = []

    def add_units(self, names: Sequence[str]) -> int:
        """Number units consecutively; return the number of the first."""
        first = len(self._units)
        self._units += names
        return first

    def add(self, arm: str, conversation: str, first: int, block: Block) -> None:
        """Add a block whose units are numbered from ``first``."""
        import numpy as np

        grid = np.stack(list(block.values.values()), axis=1)
        rows, columns = np.nonzero(np.ones(grid.shape) if block.where is None else block.where)
        measures = np.array([self._measures.setdefault(name, len(self._measures)) for name in block.values])
        self._blocks.append(
            (
                np.full(len(rows), self._arms.setdefault(arm, len(self._arms))),
                np.full(len(rows), self._conversations.setdefault(conversation, len(self._conversations))),
                block.at[rows] + first,
                measures[columns],
            )
        )
        self._values.append(grid[rows, columns])

    def scores(self) -> Scores:
        """Return all collected values."""
        import numpy as np

        empty = np.zeros(0, np.int64)
        numbers = [np.concatenate([empty, *parts]) for parts in zip(*self._blocks, strict=True)] or [empty] * 4
        names = [list(self._arms), list(self._conversations), self._units, list(self._measures)]
        return Scores(names, numbers, np.concatenate([np.zeros(0), *self._values]))
