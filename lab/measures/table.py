"""All values of a scored run: as columns, as rows, and as the file ``scores.parquet``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.columns import float_column, text_column
from lab.files import write_whole
from lab.runs.tables import table_bytes

if TYPE_CHECKING:
    from lab.measures.columns import Flags, Floats, Ints


class Score(NamedTuple):
    """One value. ``at`` is the probe or the turn, or the conversation for a measure of the whole of it."""

    arm: str
    conversation: str
    at: str
    measure: str
    value: float | None


class Values(NamedTuple):
    """Places (probes or turns), their conversations, and the values there."""

    at: list[str]
    conversation: list[str]
    value: list[float]


class Scores:
    """All values of a run, in the order of the file.

    ``arm``, ``conversation``, ``at`` and ``measure`` are numbers of the names in ``arms``, ``conversations``,
    ``places`` and ``measures``; ``value`` is NaN where there is none. A place has one number in all arms.

    To iterate is to get every value as a :class:`Score`.
    """

    def __init__(self, names: Sequence[Sequence[str]], numbers: Sequence[Ints], value: Floats) -> None:
        self.arms, self.conversations, self.places, self.measures = names
        self.arm, self.conversation, self.at, self.measure = numbers
        self.value = value

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Score]:
        columns = (self.arm, self.conversation, self.at, self.measure, self.value)
        for arm, conversation, at, measure, value in zip(*(column.tolist() for column in columns), strict=True):
            yield Score(
                self.arms[arm],
                self.conversations[conversation],
                self.places[at],
                self.measures[measure],
                value if value == value else None,
            )

    def of_arm(self, arm: str) -> dict[str, Values]:
        """What an arm has values of, by measure."""
        return {
            measure: Values(*map(list, zip(*known, strict=True)))
            for measure, found in self.all_of_arm(arm).items()
            if (known := [row for row in zip(*found, strict=True) if row[2] == row[2]])
        }

    def all_of_arm(self, arm: str) -> dict[str, Values]:
        """The places of an arm by measure; a value is NaN where there is none."""
        import numpy as np

        mine = self.where(self.arm == list(self.arms).index(arm))
        places, conversations = np.array(self.places, object), np.array(self.conversations, object)
        found = {}
        for number in dict.fromkeys(mine.measure.tolist()):
            rows = mine.measure == number
            found[self.measures[number]] = Values(
                places[mine.at[rows]].tolist(),
                conversations[mine.conversation[rows]].tolist(),
                mine.value[rows].tolist(),
            )
        return found

    def where(self, which: Flags) -> Scores:
        """Some of the values."""
        numbers = [column[which] for column in (self.arm, self.conversation, self.at, self.measure)]
        return Scores((self.arms, self.conversations, self.places, self.measures), numbers, self.value[which])


class Block(NamedTuple):
    """Values by measure, one a place; they are listed place by place. ``where`` tells which, ``[places, measures]``."""

    at: Ints
    values: Mapping[str, Floats]
    where: Flags | None = None


class Builder:
    """Gathers blocks of values; names get their numbers as they come."""

    def __init__(self) -> None:
        self._arms: dict[str, int] = {}
        self._conversations: dict[str, int] = {}
        self._measures: dict[str, int] = {}
        self._places: list[str] = []
        self._blocks: list[tuple[Ints, ...]] = []
        self._values: list[Floats] = []

    def add_places(self, names: Sequence[str]) -> int:
        """Number some places, in a row from the number that is returned."""
        first = len(self._places)
        self._places += names
        return first

    def add(self, arm: str, conversation: str, first: int, block: Block) -> None:
        """Add a block whose places are numbered from ``first``."""
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
        """All that was gathered."""
        import numpy as np

        none = np.zeros(0, np.int64)
        numbers = [np.concatenate([none, *parts]) for parts in zip(*self._blocks, strict=True)] or [none] * 4
        names = [list(self._arms), list(self._conversations), self._places, list(self._measures)]
        return Scores(names, numbers, np.concatenate([np.zeros(0), *self._values]))


def write_scores(scores: Scores, slices: Mapping[str, str], path: Path) -> None:
    """Write the long form, unless the file holds just that.

    ``arm, conversation, at, measure, value, slices`` (what ``slices`` has for the place, or null).
    """
    import pyarrow as pa

    columns = {
        "arm": text_column(scores.arm, scores.arms),
        "conversation": text_column(scores.conversation, scores.conversations),
        "at": text_column(scores.at, scores.places),
        "measure": text_column(scores.measure, scores.measures),
        "value": float_column(scores.value),
        "slices": text_column(scores.at, [slices.get(place) for place in scores.places]),
    }
    table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
    data = table_bytes(table.replace_schema_metadata({"kind": "lab.scores", "schema_version": "1"}))
    if not (path.exists() and path.read_bytes() == data):
        write_whole(path, data)
