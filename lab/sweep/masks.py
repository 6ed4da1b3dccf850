"""A search that scores what is asked at each moment once, and answers under other labels by masks over the scores.

What a search finds depends on the rows that pass its filter, and not on what they are labelled: where a draw leaves a
moment the same rows as a draw before, what was found for them is found again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.errors import CannotMeasure
from lab.recordings.model import LABELS
from lab.retrieval.contract import Filter, LabelledView, Lanes, View
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.found import Found, Retrieval
from lab.retrieval.growing import Growing
from lab.retrieval.retrievers import StoreRetriever
from lab.retrieval.row import Row
from lab.systems.kit import Search

if TYPE_CHECKING:
    import numpy as np

# How many searches are kept for the draws to come: small sets recur, and those of large recordings would fill memory.
KEPT = 1 << 13
# The sets that a filter may pass, one for each of its labels, and the depth of the search.
Key = tuple[tuple[int, ...], int]


class Scored(NamedTuple):
    """What was asked at a moment, its scores, and what was made of them so far."""

    text: str
    view: LabelledView
    made: dict[Key, Any]


class _Seen:
    """The moments of one retrieval, and the sets of rows that draws have made.

    A set is numbered by how it grew: ``steps`` leads from a set and the place of a row that is added, or the inverse
    of that where it is removed, to the next set. Equal numbers, equal rows.
    """

    def __init__(self) -> None:
        self.moments: list[Scored] = []
        self.steps: dict[tuple[int, int], int] = {}
        self.kept = 0

    def step(self, number: int, place: int) -> int:
        """The set behind one more row."""
        return self.steps.setdefault((number, place), len(self.steps) + 1)


class Masks:
    """The scored views of one conversation by retrieval, moment by moment."""

    def __init__(self, make_live: Callable[[Retrieval], StoreRetriever]) -> None:
        self._make_live = make_live
        self._seen: dict[Retrieval, _Seen] = {}

    def keeping(self, retrieval: Retrieval) -> Search:
        """A search for one replay: the first one scores, later ones answer from its views."""
        seen = self._seen.get(retrieval)
        if seen is not None:
            return _Masked(seen)
        return _Scoring(self._make_live(retrieval), self._seen.setdefault(retrieval, _Seen()))


class _Scoring:
    """A live search whose views are kept."""

    def __init__(self, live: StoreRetriever, seen: _Seen) -> None:
        self._live, self._seen = live, seen
        self.add, self.remove, self.expect, self.close = live.add, live.remove, live.expect, live.close

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> Found:
        found = self._live.retrieve(text, faults)
        if not isinstance(found.view, LabelledView):
            raise CannotMeasure("this store cannot be looked at under other labels; use the exact store")
        self._seen.moments.append(Scored(text, found.view, {}))
        return found


class _Masked:
    """Views of the moments in their order, under the labels of the rows that are added here."""

    def __init__(self, seen: _Seen) -> None:
        self._seen, self._moment = seen, -1
        self._rows: list[Row] = []
        self._by_id: dict[str, Row] = {}
        self._places: dict[str, int] = {}
        self._codes = Growing("int8")
        self._gone: frozenset[str] = frozenset()
        # The set of rows of each scope (None: of any) and label.
        self._sets = Counter[tuple[str | None, str]]()

    def add(self, rows: Sequence[Row]) -> None:
        for place, row in enumerate(rows, len(self._rows)):
            self._places[row.id] = place
            self._step(row, place)
        self._rows.extend(rows)
        self._by_id.update((row.id, row) for row in rows)
        self._codes.extend([LABELS.index(row.importance_label) for row in rows])

    def remove(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._step(row, ~self._places[row.id])
        self._gone |= {row.id for row in rows}

    def _step(self, row: Row, place: int) -> None:
        for where in ((row.scope, row.importance_label), (None, row.importance_label)):
            self._sets[where] = self._seen.step(self._sets[where], place)

    def expect(self, texts: Sequence[str]) -> None:
        """They are scored."""

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> Found:
        self._moment += 1
        moment = self._seen.moments[self._moment]
        assert moment.text == text and not faults  # noqa: S101, PT018 - every replay asks the same, in one order
        made = _Made(self._seen, moment.made, self._sets)
        return Found(_Drawn(moment.view, self._codes.array), self._rows, self._by_id, made, gone=self._gone)

    def close(self) -> None:
        """The store is no longer needed."""


class _Drawn:
    """A view under a draw of labels, which is made when it is first searched."""

    def __init__(self, view: LabelledView, labels: np.ndarray) -> None:
        self._view, self._labels = view, labels
        self._drawn: View | None = None

    def search(self, where: Filter, limit: int) -> Lanes:
        if self._drawn is None:
            self._drawn = self._view.with_labels(self._labels)
        return self._drawn.search(where, limit)


class _Made:
    """What was made of a moment's candidates, by the rows that a filter passes now."""

    def __init__(self, seen: _Seen, kept: dict[Key, Any], sets: Counter[tuple[str | None, str]]) -> None:
        self._seen, self._kept, self._sets = seen, kept, sets
        self._own: dict[Key, Any] = {}

    def get(self, asked: tuple[Filter, int], /) -> Any:
        key = self._key(asked)
        found = self._kept.get(key)
        return found if found is not None else self._own.get(key)

    def __setitem__(self, asked: tuple[Filter, int], made: Any, /) -> None:
        if self._seen.kept < KEPT:
            self._seen.kept += 1
            self._kept[self._key(asked)] = made
        else:
            self._own[self._key(asked)] = made

    def _key(self, asked: tuple[Filter, int]) -> Key:
        where, limit = asked
        scope, sets = where.scope, self._sets
        return tuple([sets[scope, label] for label in (LABELS if where.labels is None else where.labels)]), limit
