"""The document index: one SQLite file with chunks, an FTS5 table over them, and their vectors (E-48).

Search results do not depend on the order of insertion: ties are sorted by document and by position in it, which is
the order of ids in an index built in one go.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.sqlite import first_valid, number, transaction
from lab.retrieval.fusion import reciprocal_ranks
from lab.systems.openclaw.docs.chunks import DEFAULT_CHUNK_CHARS
from lab.systems.openclaw.docs.database import open_database, unpacked
from lab.systems.openclaw.docs.globs import IngestPlan
from lab.systems.openclaw.docs.ingest import ingest
from lab.systems.openclaw.docs.vectors import Embed, Matrix, embedded, matrix_of, nearest
from lab.systems.openclaw.near_duplicate import CJK_RUN

if TYPE_CHECKING:
    import numpy as np

MAX_CJK_TERMS = 16
# SQLite virtual machine steps between two checks of the timeout.
STEPS_BETWEEN_CHECKS = 1000
_FTS = """
SELECT c.id, bm25(chunks_fts) FROM chunks_fts JOIN chunks c ON c.id = chunks_fts.rowid
WHERE chunks_fts MATCH :query AND (:everywhere OR c.repo_key IN (SELECT value FROM json_each(:repos)))
ORDER BY bm25(chunks_fts), c.doc_id, c.place LIMIT :depth
"""
_CJK = """
SELECT id, -found FROM (
    SELECT id, doc_id, place, (
        SELECT count(*) FROM json_each(:terms)
        WHERE instr(c.title || char(10) || c.heading_path || char(10) || c.text, value)) AS found
    FROM chunks c WHERE :everywhere OR c.repo_key IN (SELECT value FROM json_each(:repos)))
WHERE found ORDER BY found DESC, doc_id, place LIMIT :depth
"""
_VECTORS = """
SELECT c.id, c.repo_key, v.vector FROM chunks c JOIN vectors v ON v.content_hash = c.content_hash
WHERE v.model = ? AND v.dimension = ? ORDER BY c.doc_id, c.place
"""


class SearchTimeout(Exception):
    """The search exceeded its time limit."""


class DocRow(NamedTuple):
    """A chunk in a search result. ``match`` names the lanes that returned it: ``fts``, ``vector`` or both."""

    record_ref: str
    repo: str
    path: str
    doc_kind: str
    title: str
    heading_path: str
    text: str
    score: float = 0.0
    match: tuple[str, ...] = ()


class DocsSearch(NamedTuple):
    """Rows by fused score, and the status of the vector lane.

    ``vector_status``: ``ok``, ``missing_api_key`` (there is no embedder), ``no_embeddings`` (no comparable vectors are
    stored) or ``embedding_failed``.
    """

    rows: tuple[DocRow, ...]
    vector_status: str


Lane = list[tuple[int, float]]


class DocsIndex:
    """An index in a file. ``embed`` returns float32 ``[n, d]``; None: no vector lane. ``model`` names the embedder.

    ``ask`` embeds queries if they are embedded differently from documents. Vectors are stored by content and model:
    text that moves is not embedded again, and vectors of another model are never used. A file with other content
    raises :class:`UnusableInput`. With ``packed``, the result of another index's :meth:`packed`, the index is an
    in-memory copy of that one and no file is touched.
    """

    def __init__(
        self,
        path: Path,
        embed: Embed | None = None,
        model: str = "",
        *,
        packed: bytes | None = None,
        ask: Embed | None = None,
    ) -> None:
        self.path = path
        self._ask = ask or embed
        self.last_ingest: dict[str, Any] = {}
        self._embed = embed
        self._model = model
        self._matrix: tuple[tuple[int, int, int], Matrix] | None = None
        self._ingests = 0
        self._db = open_database(path) if packed is None else unpacked(packed)

    def packed(self) -> bytes:
        """Return a copy of the index that another process can open."""
        return self._db.serialize()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> DocsIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ingest(
        self, plan: IngestPlan, *, max_chunk_chars: int = DEFAULT_CHUNK_CHARS, with_vectors: bool = True
    ) -> dict[str, Any]:
        """Update the index to the plan's files; see :func:`lab.systems.openclaw.docs.ingest.ingest`."""
        embed = self._embed if with_vectors else None
        self.last_ingest = ingest(self._db, plan, embed, model=self._model, max_chunk_chars=max_chunk_chars)
        self._ingests += 1
        return self.last_ingest

    def search(
        self,
        query: str,
        *,
        limit: int,
        fts_k: int = 20,
        vec_k: int = 20,
        rrf_k: int = 60,
        repos: Sequence[str] = (),
        expired: Callable[[], bool] | None = None,
    ) -> DocsSearch:
        """Return the best ``limit`` chunks by reciprocal rank fusion; ``repos`` limits both lanes, ignoring case.

        ``expired`` is called periodically; if it returns True, raise :class:`SearchTimeout`.
        """
        # A lone surrogate is not valid UTF-8, so the index cannot contain it.
        query = query.encode("utf-8", "replace").decode()
        allowed = frozenset(repo.lower() for repo in repos)
        vector, status = self._embedded_query(query)
        if expired and expired():
            raise SearchTimeout
        self._db.set_progress_handler((lambda: int(expired())) if expired else None, STEPS_BETWEEN_CHECKS)
        try:
            with transaction(self._db, "DEFERRED"):
                fts = self._text_lane(query, allowed, fts_k)
                vec: Lane = []
                if vector is not None:
                    matrix = self._stored_vectors(len(vector))
                    status = "ok" if matrix.ids else "no_embeddings"
                    vec = nearest(matrix, vector, allowed, vec_k)
                rows = self._fuse({"fts": fts, "vector": vec}, rrf_k)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise SearchTimeout from None
            raise
        finally:
            self._db.set_progress_handler(None, 0)
        return DocsSearch(tuple(rows[:limit]), status)

    def _embedded_query(self, query: str) -> tuple[np.ndarray | None, str]:
        if self._ask is None:
            return None, "missing_api_key"
        try:
            return embedded(self._ask, [query])[0], "ok"
        except Exception:
            return None, "embedding_failed"

    def _text_lane(self, query: str, allowed: frozenset[str], depth: int) -> Lane:
        """Search with the query as an FTS5 expression, bm25 ascending; without a match, search its CJK terms."""
        parameters = {"repos": json.dumps(sorted(allowed)), "everywhere": not allowed, "depth": depth}

        def full_text(expression: str) -> Lane:
            return self._db.execute(_FTS, {**parameters, "query": expression}).fetchall()

        phrase = '"' + query.replace('"', '""') + '"' if "-" in query else ""
        hits, _ = first_valid(full_text, [query, phrase])
        terms = [] if hits else cjk_terms(query)
        return self._db.execute(_CJK, {**parameters, "terms": json.dumps(terms)}).fetchall() if terms else hits

    def _stored_vectors(self, dimension: int) -> Matrix:
        """Return the vectors of this dimension, read again if the file changed."""
        state = (number(self._db, "PRAGMA data_version"), self._ingests, dimension)
        if self._matrix is None or self._matrix[0] != state:
            rows = self._db.execute(_VECTORS, (self._model, dimension)).fetchall()
            self._matrix = state, matrix_of(rows, dimension)
        return self._matrix[1]

    def _fuse(self, lanes: dict[str, Lane], rrf_k: int) -> list[DocRow]:
        """Return the chunks of both lanes by the sum of their reciprocal ranks; ties by document and position in it."""
        members = {name: [identity for identity, _ in lane] for name, lane in lanes.items()}
        scores = reciprocal_ranks(members.values(), rrf_k)
        chunks = self._db.execute(
            "SELECT id, doc_id, place, record_ref, repo, path, doc_kind, title, heading_path, text FROM chunks"
            " WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(scores)),),
        )
        fused = []
        for identity, doc_id, position, *columns in chunks:
            score, match = scores[identity], tuple(name for name, lane in members.items() if identity in lane)
            fused.append((-score, doc_id, position, (*columns, score, match)))
        return [DocRow(*values) for *_, values in sorted(fused)]


def cjk_terms(query: str) -> list[str]:
    """Return the runs of at least two CJK characters in a query with their pairs, without repetition; at most 16."""
    terms: dict[str, None] = {}
    for run in CJK_RUN.findall(query):
        if len(run) > 1:
            terms |= dict.fromkeys([run, *(run[at : at + 2] for at in range(len(run) - 1))])
    return list(terms)[:MAX_CJK_TERMS]
