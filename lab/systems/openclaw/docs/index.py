"""The document index: one SQLite file with chunks, an FTS5 table over them, and their vectors (E-48).

It is built and searched as the public sidecar does: files in the order of their paths, ties by the number of the row,
files of the same citation one after the other in the same rows. An ingest writes and embeds only what changed. Reading
and embedding come before its one transaction, so that an aborted ingest leaves the old state.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.regex import regex
from lab.base.sqlite import BUSY_SECONDS, first_valid, full_text_index, is_empty, number, transaction
from lab.base.utf16 import js_utf8
from lab.retrieval.fusion import reciprocal_ranks
from lab.systems.openclaw.docs.chunks import DEFAULT_CHUNK_CHARS, Chunk, chunk_markdown, doc_kind, ts_hint
from lab.systems.openclaw.docs.globs import IngestPlan, SourceFile

if TYPE_CHECKING:
    import numpy as np


_APPLICATION, _VERSION = 0x6C616264, 2
_TABLES = (
    """CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, record_ref TEXT NOT NULL UNIQUE, doc_id TEXT NOT NULL, place INTEGER NOT NULL,
        repo TEXT NOT NULL, path TEXT NOT NULL, doc_kind TEXT NOT NULL, title TEXT NOT NULL,
        heading_path TEXT NOT NULL, text TEXT NOT NULL, ts_hint TEXT, content_hash TEXT NOT NULL)""",
    """CREATE TABLE vectors (
        content_hash TEXT NOT NULL, model TEXT NOT NULL, dimension INTEGER NOT NULL, vector BLOB NOT NULL,
        PRIMARY KEY (content_hash, model)) WITHOUT ROWID""",
    "CREATE TABLE replaced (place INTEGER PRIMARY KEY, content_hash TEXT NOT NULL)",
    *full_text_index("chunks_fts", "chunks", ("text", "title", "heading_path", "path", "repo", "doc_kind"), "chunk"),
)


def open_database(path: Path) -> sqlite3.Connection:
    """Open the file, or create it with empty tables. Raise :class:`UnusableInput` if it contains something else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # It contains the documents' text. SQLite gives its companion files the same permissions.
            path.touch(mode=0o600)
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise UnusableInput(f"{path}: cannot be opened as a document index: {error}") from None
    try:
        if not _is_ours(db):
            with transaction(db):
                # Another process may have created them in the meantime.
                if not _is_ours(db):
                    _make_tables(db, path)
    except sqlite3.Error as error:
        db.close()
        raise UnusableInput(f"{path}: cannot be used as a document index ({error}); name another file") from None
    except UnusableInput:
        db.close()
        raise
    return db


def unpacked(data: bytes) -> sqlite3.Connection:
    """Return an in-memory database from the result of ``Connection.serialize``."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(data)
    return db


def _is_ours(db: sqlite3.Connection) -> bool:
    return number(db, "PRAGMA application_id") == _APPLICATION and number(db, "PRAGMA user_version") == _VERSION


def _make_tables(db: sqlite3.Connection, path: Path) -> None:
    if number(db, "PRAGMA user_version") or not is_empty(db):
        raise UnusableInput(f"{path}: contains another database, or an index of another version; name another file")
    # executescript would commit first.
    for statement in _TABLES:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {_APPLICATION}")
    db.execute(f"PRAGMA user_version = {_VERSION}")


Embed = Callable[[Sequence[str]], "np.ndarray"]


class Matrix(NamedTuple):
    """Vectors as columns, float64 ``[d, n]``, with the chunk id, the repo and the length of each."""

    ids: tuple[int, ...]
    repos: tuple[str, ...]
    columns: np.ndarray
    norms: np.ndarray


def embedded(embed: Embed, texts: Sequence[str]) -> np.ndarray:
    """Embed texts: little-endian float32 ``[len(texts), d]``. ValueError for other shapes and non-finite values."""
    import numpy as np

    vectors = np.ascontiguousarray(embed(texts), "<f4")
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1] or not np.isfinite(vectors).all():
        raise ValueError(f"expected finite vectors [{len(texts)}, d], found shape {vectors.shape}")
    return vectors


def matrix_of(rows: Sequence[tuple[int, str, bytes]], dimension: int) -> Matrix:
    """Build the matrix from rows of chunk id, repo and stored bytes, given in the order that breaks ties."""
    import numpy as np

    stacked = np.frombuffer(b"".join(vector for *_, vector in rows), "<f4").reshape(len(rows), dimension)
    columns = np.ascontiguousarray(stacked.T, np.float64)
    return Matrix(tuple(row[0] for row in rows), tuple(row[1] for row in rows), columns, _norms(columns))


def nearest(matrix: Matrix, query: np.ndarray, repos: Collection[str], depth: int) -> list[tuple[int, float]]:
    """Return the first ``depth`` chunks of ``repos`` (empty: all) by cosine, ties in row order.

    A vector of zeros is like nothing. The products are added one after another, as the sidecar adds them: another order
    gives other last bits, and these decide between equal texts.
    """
    import numpy as np

    wide = query.astype(np.float64)[:, np.newaxis]
    lengths = matrix.norms * _norms(wide)
    cosines = (matrix.columns * wide).sum(axis=0) / np.where(lengths == 0, 1, lengths)
    ranked = (row for row in np.argsort(-cosines, kind="stable").tolist() if lengths[row])
    hits = (row for row in ranked if not repos or matrix.repos[row] in repos)
    return [(matrix.ids[row], float(cosines[row])) for row in islice(hits, depth)]


def _norms(columns: np.ndarray) -> np.ndarray:
    import numpy as np

    # Of a single column, numpy's sum has another order.
    norms: np.ndarray = np.sqrt(np.cumsum(columns * columns, axis=0)[-1])
    return norms


# Files read and embedded together; errors listed in a receipt.
BATCH, MAX_ERRORS = 120, 3
_WRITE = """
INSERT INTO chunks (record_ref, doc_id, place, repo, path, doc_kind, title, heading_path, text, ts_hint, content_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (record_ref) DO UPDATE SET place = excluded.place, doc_kind = excluded.doc_kind, title = excluded.title,
    heading_path = excluded.heading_path, text = excluded.text, ts_hint = excluded.ts_hint,
    content_hash = excluded.content_hash
"""
_FORGET = """
DELETE FROM vectors WHERE content_hash NOT IN (SELECT content_hash FROM chunks UNION SELECT content_hash FROM replaced)
"""


class _Document(NamedTuple):
    source: SourceFile
    kind: str
    hint: str | None
    chunks: list[Chunk]

    @property
    def id(self) -> str:
        return _doc_id(self.source)


class _Reader:
    """Reads files one by one and counts those that cannot be used."""

    def __init__(self, max_chars: int) -> None:
        self.max_chars = max_chars
        self.counts = dict.fromkeys(("files_ingested", "files_unreadable", "files_not_utf8", "chunks_excluded"), 0)
        self.errors: list[str] = []

    def read(self, source: SourceFile) -> _Document | None:
        try:
            text = source.file.read_bytes().decode().replace("\r\n", "\n").replace("\r", "\n")
        except OSError as error:
            self._count_error("files_unreadable", f"{_doc_id(source)}: cannot be read: {error.strerror}")
            return None
        except UnicodeDecodeError:
            self._count_error("files_not_utf8", f"{_doc_id(source)}: not UTF-8")
            return None
        chunks, excluded = chunk_markdown(text, source.file.stem, self.max_chars)
        self.counts["files_ingested"] += 1
        self.counts["chunks_excluded"] += excluded
        return _Document(source, doc_kind(source.path), ts_hint(text, source.path), chunks)

    def _count_error(self, counter: str, error: str) -> None:
        self.counts[counter] += 1
        self.errors.append(error)


def ingest(
    db: sqlite3.Connection, plan: IngestPlan, embed: Embed | None, *, model: str, max_chunk_chars: int
) -> dict[str, Any]:
    """Update the index to the current content of the plan's files, and return the receipt.

    A file that cannot be read or is not UTF-8 is counted and removed from the index. If the embedder fails, only
    vectors are missing, and the next ingest requests them again. Errors name files, never text.
    """
    reader = _Reader(max_chunk_chars)
    documents: list[_Document] = []
    vectors: dict[str, bytes] = {}
    for start in range(0, len(plan.files), BATCH):
        sources = plan.files[start : start + BATCH]
        batch = [document for source in sources if (document := reader.read(source)) is not None]
        documents += batch
        if embed is None:
            continue
        missing = _missing(db, model, batch, vectors)
        try:
            new_vectors = embedded(embed, list(missing.values())) if missing else ()
        except Exception as error:
            reader.errors.append(f"embedding failed: {type(error).__name__}")
        else:
            vectors |= {key: row.tobytes() for key, row in zip(missing, new_vectors, strict=True)}
    with transaction(db):
        changes = _write(db, documents, plan)
        db.executemany(
            "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)",
            [(key, model, len(vector) // 4, vector) for key, vector in vectors.items()],
        )
        db.execute(_FORGET)
    return {
        "skipped": plan.skip_reason is not None,
        "skipReason": plan.skip_reason,
        "filesMatched": len(plan.files),
        "filesTruncated": plan.truncated,
        "missingRoots": list(plan.missing_roots),
        "invalidRoots": list(plan.invalid_roots),
        **reader.counts,
        "folders_unreadable": plan.unreadable,
        "files_shadowed": plan.shadowed,
        **changes,
        "embedded": len(vectors),
        "batches": -(-len(plan.files) // BATCH),
        **({"error": "; ".join(reader.errors[:MAX_ERRORS])} if reader.errors else {}),
    }


def _missing(
    db: sqlite3.Connection, model: str, documents: Sequence[_Document], pending: dict[str, bytes]
) -> dict[str, str]:
    """Return the texts to embed, by content hash, of chunks without a vector of this model."""
    texts = {
        chunk.content_hash: "\n".join(filter(None, (chunk.title, chunk.heading_path, chunk.text)))
        for document in documents
        for chunk in document.chunks
    }
    stored = db.execute(
        "SELECT content_hash FROM vectors WHERE model = ? AND content_hash IN (SELECT value FROM json_each(?))",
        (model, json.dumps(list(texts))),
    )
    existing = pending.keys() | {key for (key,) in stored}
    return {key: text for key, text in texts.items() if key not in existing}


class _Stored(NamedTuple):
    """A chunk in the index. ``place`` numbers its last write, ``batch`` the files of this ingest that it came with."""

    content_hash: str
    hint: str | None
    place: int
    batch: int = -1


def _write(db: sqlite3.Connection, documents: Sequence[_Document], plan: IngestPlan) -> dict[str, int]:
    stored: dict[str, dict[str, _Stored]] = {}
    for doc_id, ref, *state in db.execute("SELECT doc_id, record_ref, content_hash, ts_hint, place FROM chunks"):
        stored.setdefault(doc_id, {})[ref] = _Stored(*state)
    place = number(db, "SELECT coalesce(max(place), 0) FROM chunks")
    names = ("chunks_total", "chunks_inserted", "chunks_updated", "chunks_unchanged", "chunks_deleted")
    counts = dict.fromkeys(names, 0)

    def delete(refs: Collection[str]) -> None:
        db.executemany("DELETE FROM chunks WHERE record_ref = ?", [(ref,) for ref in refs])
        counts["chunks_deleted"] += len(refs)

    db.execute("DELETE FROM replaced WHERE place")
    batches = {source: at // BATCH for at, source in enumerate(plan.files)}
    for document in documents:
        source, hint, batch = document.source, document.hint, batches[document.source]
        before, now = stored.get(document.id, {}), dict[str, _Stored]()
        for chunk in document.chunks:
            ref, content = f"doc:{document.id}#{chunk.chunk_id}", chunk.content_hash
            previous = before.get(ref)
            if previous is None or previous.content_hash != content:
                counts["chunks_updated" if previous else "chunks_inserted"] += 1
                place += 1
                now[ref] = _Stored(content, hint, place, batch)
                citation = (ref, document.id, place, source.repo, source.path, document.kind)
                db.execute(_WRITE, (*citation, chunk.title, chunk.heading_path, chunk.text, hint, content))
                continue
            counts["chunks_unchanged"] += 1
            now[ref] = previous._replace(hint=hint)
            if previous.hint != hint:
                # The hash does not cover it, and the full-text table does not contain it.
                db.execute("UPDATE chunks SET ts_hint = ? WHERE record_ref = ?", (hint, ref))
        counts["chunks_total"] += len(now)
        gone = before.keys() - now.keys()
        delete(gone)
        # The sidecar embeds a batch when it is written, also what a later file of the batch has replaced.
        left = [(before[ref].place, before[ref].content_hash) for ref in gone if before[ref].batch == batch]
        db.executemany("INSERT INTO replaced VALUES (?, ?)", left)
        stored[document.id] = now
    listed = {_doc_id(source) for source in plan.files}
    kept = {document.id for document in documents}
    for doc_id in stored.keys() - kept:
        if plan.complete or doc_id in listed:
            delete(stored[doc_id])
    return counts


def _doc_id(source: SourceFile) -> str:
    return f"{source.repo}:{source.path}"


MAX_CJK_TERMS = 16
# SQLite virtual machine steps between two checks of the timeout.
STEPS_BETWEEN_CHECKS = 1000
_FTS = """
SELECT c.id, bm25(chunks_fts) FROM chunks_fts JOIN chunks c ON c.id = chunks_fts.rowid
WHERE chunks_fts MATCH :query AND (:everywhere OR c.repo IN (SELECT value FROM json_each(:repos)))
ORDER BY bm25(chunks_fts), c.id LIMIT :depth
"""
_CJK = """
SELECT id, -found FROM (
    SELECT id, (SELECT count(*) FROM json_each(:terms) WHERE instr(c.text, value)) AS found
    FROM chunks c WHERE :everywhere OR c.repo IN (SELECT value FROM json_each(:repos)))
WHERE found ORDER BY found DESC, id LIMIT :depth
"""
# What a later file has replaced takes its rank and is not returned, as in the sidecar.
_VECTORS = """
SELECT c.id, c.repo, v.vector FROM (
    SELECT id, repo, place, content_hash FROM chunks UNION ALL SELECT 0, '', place, content_hash FROM replaced) c
JOIN vectors v ON v.content_hash = c.content_hash WHERE v.model = ? AND v.dimension = ? ORDER BY c.place
"""
# Han characters without those of compatibility.
_CJK_RUN = regex("[\u3400-\u9fff]{2,}")


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
        """Update the index to the plan's files; see :func:`lab.systems.openclaw.docs.index.ingest`."""
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
        vectors: bool = True,
        expired: Callable[[], bool] | None = None,
    ) -> DocsSearch:
        """Return the best ``limit`` chunks by reciprocal rank fusion; ``repos`` limits both lanes.

        Without ``vectors``, the embedder is not asked.

        ``expired`` is called periodically; if it returns True, raise :class:`SearchTimeout`.
        """
        query = js_utf8(query).decode()
        allowed = frozenset(repos)
        vector, status = self._embedded_query(query) if vectors else (None, "embedding_failed")
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
                    vec = [hit for hit in nearest(matrix, vector, allowed, vec_k) if hit[0]]
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

        phrase = f'"{query}"' if "-" in query and not query.startswith('"') else ""
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
        """Return the chunks of both lanes by the sum of their reciprocal ranks; ties by row."""
        members = {name: [identity for identity, _ in lane] for name, lane in lanes.items()}
        scores = reciprocal_ranks(members.values(), rrf_k)
        chunks = self._db.execute(
            "SELECT id, record_ref, repo, path, doc_kind, title, heading_path, text FROM chunks"
            " WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
            (json.dumps(sorted(scores)),),
        )
        fused = []
        for identity, *columns in chunks:
            match = tuple(name for name, lane in members.items() if identity in lane)
            fused.append(DocRow(*columns)._replace(score=scores[identity], match=match))
        return sorted(fused, key=lambda row: -row.score)


def cjk_terms(query: str) -> list[str]:
    """Return the runs of at least two Han characters in a query with their pairs, without repetition; at most 16."""
    terms: dict[str, None] = {}
    for run in _CJK_RUN.findall(query):
        terms |= dict.fromkeys([run, *(run[at : at + 2] for at in range(len(run) - 1))])
    return list(terms)[:MAX_CJK_TERMS]
