"""The candidates of the built-in retrievers for one query: a view of the store, and its rows."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.retrieval.clamp import Clamp
from lab.retrieval.contract import Filter, View
from lab.retrieval.fusion import Fusion
from lab.retrieval.row import Row
from lab.retrieval.tokens import TextSettings


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Search settings. Arms with equal settings share candidates."""

    text: TextSettings = field(default_factory=TextSettings)
    clamp: Clamp = field(default_factory=Clamp)


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The content of the store at one query.

    ``shared`` caches results that arms with the same candidates share, by filter, depth and fusion. ``no_vector`` is
    the reason why there is no query vector; None if there is one. ``gone`` are the ids of forgotten rows: they keep
    their numbers among ``rows``, and no search returns them.
    """

    view: View
    rows: Sequence[Row]
    by_id: Mapping[str, Row]
    shared: MutableMapping[tuple[Filter, int, Fusion], Any] = field(default_factory=dict)
    no_vector: str | None = None
    gone: frozenset[str] = frozenset()

    @property
    def present(self) -> Sequence[Row]:
        """The rows that are not forgotten."""
        return [row for row in self.rows if row.id not in self.gone] if self.gone else self.rows
