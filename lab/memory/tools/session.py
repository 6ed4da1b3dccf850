"""What the tools need of a LanceDB folder (E-98): table, configuration, embedder, clock, ids.

Nothing is cached on disk, because a cache would keep texts that a memory was deleted for.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.base.errors import UnusableInput
from lab.embedding.embedder import DOCUMENT, Embedder, Role
from lab.memory.table.lance_table import LanceTable
from lab.memory.tools.context import ToolContext
from lab.memory.tools.preflight import Preflight, preflight_settings, run_command
from lab.recordings.model import UNKNOWN
from lab.retrieval.clamp import clamp
from lab.retrieval.contract import Query, Row, Store
from lab.retrieval.exact import ExactStore
from lab.retrieval.lance import LanceStore
from lab.retrieval.tokens import ScanWords, words_of
from lab.systems.openclaw.config.file import locate, read_value
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.docs.lane import DocsLane
from lab.systems.openclaw.memory import Near
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.table.reading import Contents
from lab.systems.openclaw.table.schema import ADDED, TABLE, Entry

if TYPE_CHECKING:
    import numpy as np

READ_ONLY_VARIABLE = "OPENCLAW_MEM_ENGINE_READONLY"
# The clock and the ids of a context.
CLOCK_AND_IDS = (lambda: time.time_ns() // 1_000_000, lambda: str(uuid.uuid4()))


class DryTable:
    """A table that is read, and whose changes are counted instead of made; without a table it is empty."""

    def __init__(self, table: LanceTable | None) -> None:
        self._table = table
        self.read_only = False
        self.added: list[Entry] = []

    def rows(self) -> Sequence[Row]:
        """Return all rows in table order."""
        return self._table.rows() if self._table else ()

    def add(self, entries: Sequence[Entry]) -> None:
        """Note rows that would be added."""
        self.added += entries

    def delete(self, ids: Sequence[str]) -> int:
        """Return how many rows would be deleted."""
        return sum(row.id in ids for row in self.rows())

    def nearest(self, vector: Sequence[float], limit: int, scope: str | None = None) -> Sequence[Near]:
        """Return the rows nearest to a vector."""
        return self._table.nearest(vector, limit, scope) if self._table else ()

    def close(self) -> None:
        """Do nothing: its opener closes the table."""


@dataclass(frozen=True, slots=True)
class Configured:
    """A resolved configuration, with the settings that only tools read."""

    config: EngineConfig
    preflight: Preflight
    read_only_source: str
    given: bool


def configured(path: Path | None, profile: str, environ: Mapping[str, str] = os.environ) -> Configured:
    """Read a configuration, or take the defaults of a profile. The environment may switch to read-only mode."""
    raw = None if path is None else read_value(path)
    where = "config" if path is None else str(path)
    config = resolve(raw, profile, where=where, environ=environ)
    given = {} if raw is None else locate(raw, where)
    by_variable = config.read_only and bool(environ.get(READ_ONLY_VARIABLE))
    source = f"env:{READ_ONLY_VARIABLE}" if by_variable else "config:readOnly"
    return Configured(config, Preflight(preflight_settings(given, profile), run_command), source, path is not None)


@dataclass(frozen=True, slots=True)
class Session:
    """An open folder: ``table`` is None if there is none, which only a dry run permits."""

    table: LanceTable | None
    context: ToolContext
    embedder: Embedder | None

    def require_table(self) -> LanceTable:
        """Return the table. Raises :class:`ValueError` in a dry run that would make it."""
        if self.table is None:
            raise ValueError("there is no table")
        return self.table

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the operator: a lock taken over, a running gateway, values that the table has no column for."""
        if self.table is None:
            return ()
        left_out = sorted(self.table.left_out)
        missing = [name for name in ADDED if name not in self.table.columns]
        lost = (
            f"{self.table.folder}: has no column {', '.join(left_out)}, so these values were not kept; lab memory "
            f"backfill adds all that is missing: {', '.join(missing)}"
        )
        return (*self.table.notes, *((lost,) if left_out else ()))

    @contextmanager
    def memories(self, query: str, docs: DocsLane | None = None) -> Iterator[Memories]:
        """Yield the store as a recall for this query sees it."""
        import numpy as np

        contents = self.table.contents() if self.table else None
        if contents is None:
            raise UnusableInput(f"{self.context.db_path}: there is no table {TABLE!r}")
        config = self.context.config
        (embedded,) = self.context.vectors([query]) if self.embedder else (self.context.zero("provider_unavailable"),)
        contents = _recallable(contents, self)
        store = _search_store(contents, config, self.context.dimension)
        if isinstance(store, LanceStore) and store.rows:
            tokens = words_of(store.table, query)
        else:
            # An empty table has no index that could split the query.
            (tokens,) = ScanWords().of([query])
        vector = None if embedded.reason is not None else np.asarray(embedded.vector, np.float32)
        view = store.view(Query(query, tokens, vector))
        by_id = {row.id: row for row in store.rows}
        try:
            yield Memories(view, store.rows, by_id, no_vector=embedded.reason, docs=docs)
        finally:
            store.close()

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Embed texts without a cache."""
        if self.embedder is None:
            raise UnusableInput("no embedder was given")
        return self.embedder.encode(texts, role)


def new_length(embedder: Embedder | None, dimension: int | None) -> int:
    """Return the length of the vectors of a new table."""
    if dimension is not None:
        return dimension
    if embedder is None:
        raise UnusableInput("a new table needs --dimension, the length of its vectors, or an embedder")
    from lab.embedding.endpoint import EndpointEmbedder

    if isinstance(embedder, EndpointEmbedder) and not embedder.learned():
        # Nobody knows its dimension before its first response.
        return int(embedder.encode(["dimension"]).shape[1])
    return embedder.dimension


def require_dimension(folder: Path, embedder: Embedder, columns: int, otherwise: str) -> None:
    """Raise :class:`UnusableInput` if the vectors of an embedder have another length than those of a table.

    ``otherwise`` is what can be done without that embedder.
    """
    from lab.embedding.endpoint import EndpointEmbedder

    if isinstance(embedder, EndpointEmbedder) and not embedder.learned():
        return
    if embedder.dimension != columns:
        raise UnusableInput(
            f"{folder}: its vectors have {columns} numbers, those of the embedder {embedder.dimension}; give the "
            f"embedder that the table was made with, or {otherwise}"
        )


def _recallable(contents: Contents, session: Session) -> Contents:
    """Return what a recall can find. Rows stored without an embedding are embedded for profile ``seed``, not stored.

    The plugin's tiers never find a row with a blank label; profile ``seed`` counts it as unknown (E-64).
    """
    rows, vectors = contents
    if session.context.upstream:
        kept = [number for number, row in enumerate(rows) if row.importance_label]
        return contents if len(kept) == len(rows) else Contents([rows[number] for number in kept], vectors[kept])
    rows = [row if row.importance_label else replace(row, importance_label=UNKNOWN) for row in rows]
    missing = [number for number, row in enumerate(rows) if not row.embedded]
    if missing and session.embedder is not None:
        texts = [clamp(rows[number].text, session.context.config.embedding).text for number in missing]
        vectors = vectors.copy()
        vectors[missing] = session.encode(texts)
    return Contents(rows, vectors)


def _search_store(contents: Contents, config: EngineConfig, dimension: int) -> Store:
    """Return a store with these rows: LanceDB's index in a temporary folder, or the plugin's scan in memory."""
    if config.text.lane == "scan":
        store: Store = ExactStore(dimension, config.text)
        tokens = ScanWords().of([row.index_text for row in contents.rows])
    else:
        store, tokens = LanceStore(dimension, config.text), [[] for _ in contents.rows]
    store.add(contents.rows, contents.vectors, tokens)
    return store
