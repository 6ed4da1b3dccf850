"""A search that scores each query once, and answers under other labels by masking the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.base.errors import CannotMeasure
from lab.recordings.model import LABELS
from lab.retrieval.contract import LabelledView, Row
from lab.retrieval.exact import Growing
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.retrieval.retrievers import QueryContext, Retrieval, StoreRetriever
from lab.systems.kit import Search

# The query of a recall point, and its scores.
Scored = tuple[str, LabelledView]


class Masks:
    """The scored views of one conversation, by retrieval and recall point."""

    def __init__(self, make_live: Callable[[Retrieval], StoreRetriever]) -> None:
        self._make_live = make_live
        self._seen: dict[Retrieval, list[Scored]] = {}

    def keeping(self, retrieval: Retrieval) -> Search:
        """Return a search for one replay: the first one scores, later ones reuse its views."""
        seen = self._seen.get(retrieval)
        if seen is not None:
            return _Masked(seen)
        return _Scoring(self._make_live(retrieval), self._seen.setdefault(retrieval, []))


class _Scoring:
    """A live search that keeps its views."""

    def __init__(self, live: StoreRetriever, seen: list[Scored]) -> None:
        self._live, self._seen = live, seen
        self.add, self.remove, self.expect, self.close = live.add, live.remove, live.expect, live.close

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        found = self._live.retrieve(text, faults)
        if not isinstance(found.view, LabelledView):
            raise CannotMeasure("this store cannot be searched under other labels; use --store exact")
        self._seen.append((text, found.view))
        return found


class _Masked:
    """The kept views in order, under the labels of the rows that are added here."""

    def __init__(self, seen: Sequence[Scored]) -> None:
        self._seen, self._index = seen, -1
        self._rows: list[Row] = []
        self._by_id: dict[str, Row] = {}
        self._codes = Growing("int8")
        self._gone: frozenset[str] = frozenset()

    def add(self, rows: Sequence[Row]) -> None:
        self._rows.extend(rows)
        self._by_id.update((row.id, row) for row in rows)
        self._codes.extend([LABELS.index(row.importance_label) for row in rows])

    def remove(self, rows: Sequence[Row]) -> None:
        self._gone |= {row.id for row in rows}

    def expect(self, texts: Sequence[str]) -> None:
        """Do nothing: the queries are already scored."""

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        self._index += 1
        query, view = self._seen[self._index]
        assert query == text and not faults  # noqa: S101, PT018 - every replay has the same queries in one order
        return QueryContext(view.with_labels(self._codes.array), self._rows, self._by_id, gone=self._gone)

    def close(self) -> None:
        """Do nothing: the store is already closed."""
