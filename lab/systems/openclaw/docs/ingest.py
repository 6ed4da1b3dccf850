"""Ingest files into the index (E-48): write and embed only what changed, in one transaction.

Reading and embedding come before the transaction, so that an aborted ingest leaves the old state.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from lab.base.sqlite import transaction
from lab.systems.openclaw.docs.chunks import Chunk, chunk_markdown, doc_kind, ts_hint
from lab.systems.openclaw.docs.globs import IngestPlan, SourceFile
from lab.systems.openclaw.docs.vectors import Embed, embedded

# Files read and embedded together; errors listed in a receipt.
BATCH, MAX_ERRORS = 120, 3
_WRITE = """
INSERT INTO chunks (record_ref, doc_id, place, repo, repo_key, path, doc_kind, title, heading_path, text, ts_hint,
                    content_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (record_ref) DO UPDATE SET place = excluded.place, doc_kind = excluded.doc_kind, title = excluded.title,
    heading_path = excluded.heading_path, text = excluded.text, ts_hint = excluded.ts_hint,
    content_hash = excluded.content_hash
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
            text = source.file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
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
        db.execute("DELETE FROM vectors WHERE content_hash NOT IN (SELECT content_hash FROM chunks)")
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
        chunk.content_hash: f"{chunk.heading_path or chunk.title}\n{chunk.text}"
        for document in documents
        for chunk in document.chunks
    }
    stored = db.execute(
        "SELECT content_hash FROM vectors WHERE model = ? AND content_hash IN (SELECT value FROM json_each(?))",
        (model, json.dumps(list(texts))),
    )
    existing = pending.keys() | {key for (key,) in stored}
    return {key: text for key, text in texts.items() if key not in existing}


def _write(db: sqlite3.Connection, documents: Sequence[_Document], plan: IngestPlan) -> dict[str, int]:
    old = {
        ref: (content, position, hint, doc_id)
        for ref, content, position, hint, doc_id in db.execute(
            "SELECT record_ref, content_hash, place, ts_hint, doc_id FROM chunks"
        )
    }
    listed = {_doc_id(source) for source in plan.files}
    counts = dict.fromkeys(("chunks_inserted", "chunks_updated", "chunks_unchanged"), 0)
    kept: set[str] = set()
    for document in documents:
        source, hint = document.source, document.hint
        for position, chunk in enumerate(document.chunks):
            ref = f"doc:{document.id}#{chunk.chunk_id}"
            kept.add(ref)
            previous = old.get(ref)
            content = chunk.content_hash
            if previous is None or previous[0] != content:
                counts["chunks_updated" if previous else "chunks_inserted"] += 1
                citation = (ref, document.id, position, source.repo, source.repo.lower(), source.path, document.kind)
                db.execute(_WRITE, (*citation, chunk.title, chunk.heading_path, chunk.text, hint, content))
                continue
            counts["chunks_unchanged"] += 1
            if previous[1:3] != (position, hint):
                # The hash does not cover these, and the full-text table does not contain them.
                db.execute("UPDATE chunks SET place = ?, ts_hint = ? WHERE record_ref = ?", (position, hint, ref))
    deleted = [(ref,) for ref, (*_, doc_id) in old.items() if ref not in kept and (plan.complete or doc_id in listed)]
    db.executemany("DELETE FROM chunks WHERE record_ref = ?", deleted)
    return {"chunks_total": len(kept), **counts, "chunks_deleted": len(deleted)}


def _doc_id(source: SourceFile) -> str:
    return f"{source.repo}:{source.path}"
