"""Embed the search texts of episodes; a text that did not change is skipped (EP-5)."""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.sqlite import tables, transaction
from lab.embedding.embedder import Embedder
from lab.embedding.vectors import Vectors
from lab.memory.episodes.events import as_text
from lab.memory.episodes.schema import EVENTS, VECTORS, open_episodes
from lab.memory.ledger.rows import given_scope
from lab.memory.ledger.times import stamp
from lab.systems.openclaw.docs.vectors import embedded

RECEIPT = "recall-lab.episodes.embed.v1"
BATCH = 256


class _Row(NamedTuple):
    """An event without a current vector."""

    id: int
    text: str
    digest: str


@dataclass(slots=True)
class Embedded:
    """The counts of a run: events that got a vector, and events that had one of this model and text already."""

    write: bool
    model: str
    embedded: int = 0
    unchanged: int = 0

    def receipt(self) -> dict[str, Any]:
        """Return the counts."""
        return {
            "kind": RECEIPT,
            "written": self.write,
            "model": self.model,
            "embedded": self.embedded,
            "unchanged": self.unchanged,
        }


def model_of(embedder: Embedder) -> str:
    """Return the name of a model as the sidecar stores it beside a vector."""
    return str(embedder.identity()["model"])


def embed(
    path: Path,
    vectors: Vectors,
    *,
    now: datetime,
    scope: str | None = None,
    write: bool = True,
    announce: Callable[[int], None] | None = None,
) -> Embedded:
    """Give every event a vector of its search text, in transactions of :data:`BATCH`; a killed run goes on there.

    A vector of another model, or of a text that changed, is replaced. Without ``write`` events are only counted.
    ``scope`` None: all. ``now`` is the time of the run. ``announce`` gets the number of events so far. Raises as
    :func:`open_episodes` and :func:`given_scope`, :class:`lab.base.errors.CannotMeasure` if the embedder fails, and
    ValueError if it returns what is no vector.
    """
    done = Embedded(write, model_of(vectors.embedder))
    name, at = given_scope(scope), stamp(now)
    with open_episodes(path, write=write) as connection:
        after = -1
        while batch := _page(connection, after, name, done.model):
            after = batch[-1][0]
            rows = [_Row(id_, text, digest_of(text)) for id_, text, _ in batch]
            due = [row for row, (*_, digest) in zip(rows, batch, strict=True) if digest != row.digest]
            done.unchanged += len(rows) - len(due)
            done.embedded += len(due)
            if write and due:
                _write(connection, due, vectors, done.model, at)
            if announce:
                announce(done.embedded + done.unchanged)
    return done


def digest_of(text: str) -> str:
    """Return the SHA-256 by which a vector names its search text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _page(
    connection: sqlite3.Connection, after: int, scope: str | None, model: str
) -> list[tuple[int, str, str | None]]:
    """Return the next events with a search text: id, text, and the digest of their vector of this model, if any."""
    digest = f"(SELECT search_text_hash FROM {VECTORS} WHERE event_row_id = id AND model = :model)"  # noqa: S608 - names of our own tables
    rows = connection.execute(
        f"SELECT id, search_text, {digest if VECTORS in tables(connection) else 'NULL'} FROM {EVENTS} "  # noqa: S608 - names of our own tables
        "WHERE id > :after AND search_text <> '' AND (:scope IS NULL OR scope = :scope) ORDER BY id LIMIT :batch",
        {"model": model, "after": after, "scope": scope, "batch": BATCH},
    )
    return [(id_, as_text(text), digest) for id_, text, digest in rows]


def _write(connection: sqlite3.Connection, due: list[_Row], vectors: Vectors, model: str, at: str) -> None:
    """Embed the texts, and write each vector unless its text has changed since."""
    texts = [row.text for row in due]
    vectors.prepare(texts)
    matrix = embedded(vectors.of, texts)
    with transaction(connection):
        for row, vector in zip(due, matrix, strict=True):
            stored = connection.execute(f"SELECT search_text FROM {EVENTS} WHERE id = ?", (row.id,)).fetchone()  # noqa: S608 - names of our own tables
            if stored is None or as_text(stored[0]) != row.text:
                continue
            norm = math.sqrt(float((vector.astype("<f8") ** 2).sum()))
            connection.execute(
                f"INSERT OR REPLACE INTO {VECTORS} VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - names of our own tables
                (row.id, model, len(vector), vector.tobytes(), norm, row.digest, at),
            )
