"""The documents' index: one SQLite file with chunks, an FTS5 table over them, and their vectors (E-48).

Search results depend on what is stored, not on the order in which it came there: ties stand by document and by place
in it, which is the order of ids in an index that was made at once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.systems.openclaw.docs.chunks import DEFAULT_CHUNK_CHARS
from lab.systems.openclaw.docs.database import number, open_database, transaction, unpacked
from lab.systems.openclaw.docs.globs import IngestPlan
from lab.systems.openclaw.docs.ingest import ingest
from lab.systems.openclaw.docs.vectors import Embed, Matrix, embedded, matrix_of, nearest
from lab.systems.openclaw.near_duplicate import CJK_RUN

if TYPE_CHECKING:
    import numpy as np

MAX_CJK_TERMS = 16
# SQLite asks whether to give up after so many steps of its machine.
STEPS_BETWEEN_QUESTIONS = 1000
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
    """The search took longer than it was allowed to."""


class DocRow(NamedTuple):
    """A chunk that was found. ``match`` names the lanes that found it, of ``fts`` and ``vector``."""

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
    """Rows by fused score, and what became of the vector lane.

    ``vector_status``: ``ok``, ``missing_api_key`` (there is no embedder), ``no_embeddings`` (none are stored that the
    embedder's can be compared with) or ``embedding_failed``.
    """

    rows: tuple[DocRow, ...]
    vector_status: str


Lane = list[tuple[int, float]]


class DocsIndex:
    """An index in a file. ``embed`` gives float32 ``[n, d]``; None: no vector lane. ``model`` names the embedder.

    ``ask`` embeds queries, where they are embedded otherwise than what is searched. Vectors are kept by content and
    model: text that moves is not embedded again, and another model's vectors are never compared with. A file that holds
    something else is :class:`UnusableInput`. ``packed`` is what :meth:`packed` of another index gave: then the index is
    a copy of that one, in memory, and no file is touched.
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
        """The whole index as it is now, to be opened by another process."""
        return self._db.serialize()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> DocsIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ingest(
        self, plan: IngestPlan, *, max_chunk_chars: int = DEFAULT_CHUNK_CHARS, with_vectors: bool = True
    ) -> dict[str, Any]:
        """Make the index hold the plan's files as they are now: see :func:`lab.systems.openclaw.docs.ingest.ingest`."""
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
        """The best ``limit`` chunks by reciprocal rank fusion; ``repos`` limits both lanes, whatever its case.

        ``expired`` is asked now and then whether to give up, with :class:`SearchTimeout`.
        """
        # A lone surrogate is no UTF-8, and so stands nowhere in the index.
        query = query.encode("utf-8", "replace").decode()
        allowed = frozenset(repo.lower() for repo in repos)
        asked, status = self._embedded_query(query)
        if expired and expired():
            raise SearchTimeout
        self._db.set_progress_handler((lambda: int(expired())) if expired else None, STEPS_BETWEEN_QUESTIONS)
        try:
            with transaction(self._db, "DEFERRED"):
                fts = self._text_lane(query, allowed, fts_k)
                vec: Lane = []
                if asked is not None:
                    matrix = self._stored_vectors(len(asked))
                    status = "ok" if matrix.ids else "no_embeddings"
                    vec = nearest(matrix, asked, allowed, vec_k)
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
        """The query as FTS5 reads it, bm25 ascending; if that finds nothing, chunks that hold its CJK terms."""
        given = {"repos": json.dumps(sorted(allowed)), "everywhere": not allowed, "depth": depth}
        found = self._match(query, given)
        if found is None and "-" in query:
            found = self._match('"' + query.replace('"', '""') + '"', given)
        terms = [] if found else cjk_terms(query)
        if terms:
            return self._db.execute(_CJK, {**given, "terms": json.dumps(terms)}).fetchall()
        return found or []

    def _match(self, query: str, given: dict[str, Any]) -> Lane | None:
        """None where the query is no FTS5 expression."""
        try:
            return self._db.execute(_FTS, {**given, "query": query}).fetchall()
        except sqlite3.OperationalError as error:
            # Locked, interrupted and damaged have codes of their own.
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            return None

    def _stored_vectors(self, dimension: int) -> Matrix:
        """The vectors that can be compared with one of this dimension, read anew when the file changed."""
        state = (number(self._db, "PRAGMA data_version"), self._ingests, dimension)
        if self._matrix is None or self._matrix[0] != state:
            rows = self._db.execute(_VECTORS, (self._model, dimension)).fetchall()
            self._matrix = state, matrix_of(rows, dimension)
        return self._matrix[1]

    def _fuse(self, lanes: dict[str, Lane], rrf_k: int) -> list[DocRow]:
        """The chunks of both lanes, by the sum of their reciprocal ranks; ties by document and by place in it."""
        ranks: dict[int, dict[str, int]] = {}
        for name, lane in lanes.items():
            for rank, (identity, _) in enumerate(lane, 1):
                ranks.setdefault(identity, {})[name] = rank
        found = self._db.execute(
            "SELECT id, doc_id, place, record_ref, repo, path, doc_kind, title, heading_path, text FROM chunks"
            " WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(ranks)),),
        )
        fused = []
        for identity, doc_id, place, *columns in found:
            score = sum(1.0 / (rrf_k + rank) for rank in ranks[identity].values())
            fused.append((-score, doc_id, place, (*columns, score, tuple(ranks[identity]))))
        return [DocRow(*one) for *_, one in sorted(fused)]


def cjk_terms(query: str) -> list[str]:
    """The runs of two and more CJK characters in a query, each with its pairs, without repetition; 16 at most."""
    terms: dict[str, None] = {}
    for run in CJK_RUN.findall(query):
        if len(run) > 1:
            terms |= dict.fromkeys([run, *(run[at : at + 2] for at in range(len(run) - 1))])
    return list(terms)[:MAX_CJK_TERMS]
