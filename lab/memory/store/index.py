"""Build the indexes of a table, show their status, and keep them up to date (IX-1 to IX-6)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from math import isqrt
from typing import Any, NamedTuple

from lab.memory.table.lance_table import LanceTable
from lab.retrieval.tokens import TextSettings
from lab.systems.openclaw.table.schema import TABLE, VECTOR

SCHEMA = "lab.store.index.v1"
TEXT, BITMAP, BTREE, FTS, IVF_FLAT = "text", "bitmap", "btree", "fts", "ivf_flat"
# Columns that a recall filters by, and the time. The kinds are those of LanceDB.
SCALARS = (("scope", BITMAP), ("importance_label", BITMAP), ("category", BITMAP), ("createdAt", BTREE))
WORDS = ("simple", "ngram", "icu")
# Stored vectors that are searched with and without the vector index after it was built, and hits of each search.
SAMPLE, TOP = 50, 10


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when a table needs upkeep.

    ``unindexed``: an index is stale if this share of the rows, or more, is not in it. ``fragments``: files are merged
    from so many small ones. ``vector_rows``: from so many rows on vectors need an index; None: they never do, because
    comparing every row is exact.
    """

    unindexed: float = 0.1
    fragments: int = 32
    vector_rows: int | None = None

    def receipt(self) -> dict[str, Any]:
        """Return the thresholds as receipts show them."""
        return {"unindexedShare": self.unindexed, "smallFragments": self.fragments, "vectorRows": self.vector_rows}


class Index(NamedTuple):
    """An index: its name, kind and columns; rows in it and not in it; when it was built (ISO); its bytes on disk.

    ``words`` is how a text index splits texts, ``distance`` that of a vector index; blank elsewhere.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    rows: int
    unindexed: int
    built_at: str
    bytes: int
    stale: bool
    words: str = ""
    distance: str = ""

    def receipt(self) -> dict[str, Any]:
        """Return the index as receipts show it."""
        about = {
            "name": self.name,
            "kind": self.kind,
            "columns": list(self.columns),
            "rows": self.rows,
            "unindexedRows": self.unindexed,
            "builtAt": self.built_at or None,
            "stale": self.stale,
            "bytes": self.bytes,
        }
        more = {"words": self.words, "distance": self.distance}
        return about | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class Status:
    """The indexes of a table, and what upkeep it needs. ``missing``: columns without an index, with its kind."""

    version: int
    rows: int
    fragments: int
    small_fragments: int
    bytes: int
    indexes: tuple[Index, ...]
    missing: tuple[tuple[str, str], ...]
    thresholds: Thresholds = field(default_factory=Thresholds)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why ``optimize`` is due, in words; empty if it is not."""
        stale = [index for index in self.indexes if index.stale]
        found = [f"{index.name} lacks {index.unindexed} of {index.rows + index.unindexed} rows" for index in stale]
        if self.small_fragments >= self.thresholds.fragments:
            found.append(f"the rows are spread over {self.small_fragments} small files, which can be merged")
        return tuple(found)

    @property
    def healthy(self) -> bool:
        """Whether no index is missing or stale, and no files need merging."""
        return not (self.reasons or self.missing)

    def receipt(self) -> dict[str, Any]:
        """Return the status as receipts show it."""
        return {
            "version": self.version,
            "rows": self.rows,
            "fragments": self.fragments,
            "smallFragments": self.small_fragments,
            "bytes": self.bytes,
            "index": [index.receipt() for index in self.indexes],
            "missing": [{"column": column, "kind": kind} for column, kind in self.missing],
            "optimizeDue": list(self.reasons),
            "healthy": self.healthy,
        }


class Done(NamedTuple):
    """The status before and after a change, what was changed, and how well a new vector index finds (None: no new one).

    ``agreement`` is the share of the true nearest :data:`TOP` rows that a search through the index returns.
    """

    before: Status
    after: Status
    changed: tuple[str, ...]
    agreement: float | None = None


def status(table: LanceTable, thresholds: Thresholds) -> Status:
    """Return the status of the newest version of a table."""

    def read(opened: Any) -> tuple[int, dict[str, Any], list[tuple[Any, Any]]]:
        indexes = sorted(opened.list_indices(), key=lambda index: str(index.name))
        return int(opened.version), opened.stats(), [(index, opened.index_stats(index.name)) for index in indexes]

    version, stats, found = table.ask(read)
    rows, fragments = int(stats["num_rows"]), stats["fragment_stats"]
    indexes = tuple(_index(config, counts, rows, thresholds) for config, counts in found)
    indexed = {column for index in indexes for column in index.columns}
    wanted = [*SCALARS, (TEXT, FTS)]
    if thresholds.vector_rows is not None and rows >= thresholds.vector_rows:
        wanted.append((VECTOR, IVF_FLAT))
    return Status(
        version,
        rows,
        int(fragments["num_fragments"]),
        int(fragments["num_small_fragments"]),
        sum(path.stat().st_size for path in (table.folder / f"{TABLE}.lance").rglob("*") if path.is_file()),
        indexes,
        tuple((column, kind) for column, kind in wanted if column in table.columns and column not in indexed),
        thresholds,
    )


def build(table: LanceTable, thresholds: Thresholds, *, words: str = "simple", rebuild: bool = False) -> Done:
    """Build the missing indexes, or with ``rebuild`` all of them, each in one commit (IX-2, IX-4, IX-5).

    A killed build leaves the indexes that it had built; another one builds the others.
    """
    before = status(table, thresholds)
    known = {*dict(SCALARS), TEXT, VECTOR}
    present = [(index.columns[0], index.kind) for index in before.indexes if index.columns[0] in known and index.kind]
    chosen = [*before.missing, *(present if rebuild else ())]
    for column, _ in chosen:
        _create(table, column, before.rows, words)
    after = status(table, thresholds)
    with_vectors = any(column == VECTOR for column, _ in chosen)
    agreement = agreement_of(table) if with_vectors else None
    return Done(before, after, tuple(f"{column}_idx" for column, _ in chosen), agreement)


def optimize(table: LanceTable, thresholds: Thresholds) -> Done:
    """Merge files and update the indexes if a threshold is reached (IX-3, IX-6)."""
    before = status(table, thresholds)
    if not before.reasons:
        return Done(before, before, ())
    table.compact()
    after = status(table, thresholds)
    unindexed = {index.name: index.unindexed for index in before.indexes}
    changed = [index.name for index in after.indexes if index.unindexed < unindexed.get(index.name, 0)]
    merged = ("files",) if after.fragments < before.fragments else ()
    return Done(before, after, (*merged, *changed))


def agreement_of(table: LanceTable) -> float | None:
    """Return which share of the true nearest rows a search through the vector index returns; None without vectors.

    The queries are up to :data:`SAMPLE` stored vectors, so a real query may find fewer.
    """
    import numpy as np

    contents = table.contents()
    stored = np.flatnonzero(contents.vectors.any(axis=1))
    if not len(stored):
        return None
    drawn = np.random.default_rng(0).choice(stored, min(SAMPLE, len(stored)), replace=False)

    def hits(opened: Any, vector: np.ndarray, *, exact: bool) -> set[float]:
        search = opened.search(vector, vector_column_name=VECTOR).distance_type("l2")
        search = search.bypass_vector_index() if exact else search
        # Rows at one distance are as near as each other.
        return {
            round(float(value), 5)
            for value in search.select(["_distance"]).limit(TOP).to_arrow()["_distance"].to_pylist()
        }

    shares = []
    for number in drawn:
        vector = contents.vectors[number]
        exact = table.ask(partial(hits, vector=vector, exact=True))
        through = table.ask(partial(hits, vector=vector, exact=False))
        shares.append(len(exact & through) / len(exact))
    return float(np.mean(shares))


def receipt_of(op: str, table: LanceTable, done: Done | Status, started: int) -> dict[str, Any]:
    """Return the receipt of an operation that began at ``started`` (``time.perf_counter_ns``)."""
    about: dict[str, Any] = {
        "schema": SCHEMA,
        "op": op,
        "dbPath": str(table.folder),
        "tableName": TABLE,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if isinstance(done, Status):
        about |= {**done.receipt(), "thresholds": done.thresholds.receipt()}
    else:
        about |= {
            "changed": list(done.changed),
            "before": done.before.receipt(),
            "after": done.after.receipt(),
            "thresholds": done.after.thresholds.receipt(),
        }
        if done.agreement is not None:
            about["vectorAgreement"] = round(done.agreement, 4)
    return about | {"latencyMs": (time.perf_counter_ns() - started) // 1_000_000}


def _index(config: Any, counts: Any, rows: int, thresholds: Thresholds) -> Index:
    details = config.index_details if isinstance(config.index_details, dict) else {}
    unindexed = int(counts.num_unindexed_rows) if counts else rows
    return Index(
        str(config.name),
        str(counts.index_type if counts else config.index_type).lower(),
        tuple(config.columns),
        int(counts.num_indexed_rows) if counts else 0,
        unindexed,
        config.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if config.created_at else "",
        int(config.size_bytes or 0),
        bool(unindexed) and unindexed >= thresholds.unindexed * rows,
        str(details.get("base_tokenizer") or ""),
        str((counts.distance_type if counts else "") or ""),
    )


def _create(table: LanceTable, column: str, rows: int, words: str) -> None:
    from lancedb import index

    if column == VECTOR:
        config: Any = index.IvfFlat(distance_type="l2", num_partitions=max(1, isqrt(rows)))
    elif column == TEXT:
        config = index.FTS(**text_options(words))
    else:
        config = index.BTree() if dict(SCALARS)[column] == BTREE else index.Bitmap()

    def done() -> bool:
        return any(column in found.columns for found in table.ask(lambda opened: opened.list_indices()))

    table.change(lambda opened: opened.create_index(column, config=config, replace=True), done)


def text_options(words: str) -> dict[str, Any]:
    """Return LanceDB's options for a text index (IX-4).

    ``simple``: runs of letters and digits, lower case, accents folded, English stems, LanceDB's stop words. ``ngram``:
    every two and three characters that follow each other, which finds Chinese and parts of words. ``icu``: as profile
    ``seed`` splits texts (E-9).
    """
    if words == "icu":
        return TextSettings().options()
    shared = {"lower_case": True, "ascii_folding": True, "with_position": False, "max_token_length": 40}
    if words == "ngram":
        lengths = {"ngram_min_length": 2, "ngram_max_length": 3}
        return {"base_tokenizer": "ngram", **lengths, "stem": False, "remove_stop_words": False, **shared}
    return {"base_tokenizer": "simple", "language": "English", "stem": True, "remove_stop_words": True, **shared}
