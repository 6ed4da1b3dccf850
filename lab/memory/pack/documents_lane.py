"""The lane of an operator's documents: a folder of Markdown or text, searched by words (PK-10)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lab.base.formatting import counted
from lab.embedding.embedder import DOCUMENT, Role
from lab.memory.pack.candidate import Candidate, Found
from lab.retrieval.faults import Faults
from lab.systems.files.chunks import Entry
from lab.systems.files.folder import Folder
from lab.systems.files.index import FileIndex
from lab.systems.files.search import candidates
from lab.systems.files.settings import read_settings

SUFFIXES = (".md", ".markdown", ".txt")
# The release of the host whose search by words is used, and the size of a chunk in its tokens.
RELEASE, CHUNK = "2026.9.6", 120
# A larger file does not count as a document.
MOST_BYTES = 2_000_000
WORDS_ONLY, NO_DOCUMENTS = "no_vectors_words_only", "no_documents"
_BY_WORDS: Faults = frozenset({"embedder_down"})


class _NoVectors:
    """Stands in for an embedder where only words are searched."""

    dimension = 1

    def prepare(
        self, texts: Sequence[str], announce: Callable[[str], None] | None = None, role: Role = DOCUMENT
    ) -> int:
        """Embed nothing."""
        return 0

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return zeros, float32 ``[len(texts), 1]``."""
        return np.zeros((len(texts), 1), np.float32)


class DocumentsLane:
    """The documents below a folder. Links that lead out of it and hidden files are left out.

    The folder is read at the first search, so that all searches of a conversation see the same documents.
    """

    name = "documents"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._index: FileIndex | None = None
        self._skipped = 0

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return parts of documents, cited by path and lines. Documents belong to every scope."""
        if self._index is None:
            self._index = self._built()
        left_out = f"; {counted(self._skipped, 'file')} skipped" if self._skipped else ""
        if not self._index.chunks:
            return Found(self.name, (), searched=False, reason=f"{NO_DOCUMENTS}{left_out}")
        hits = candidates(self._index, query, limit, now_ms, _BY_WORDS).candidates[:limit]
        found = [
            Candidate(
                f"doc:{hit.indexed.citation}",
                hit.indexed.snippet,
                self.name,
                hit.score,
                "document",
                detail=hit.indexed.text,
                trust="trusted",
                retrievers=("fts",),
                sources=(hit.indexed.chunk.path,),
            )
            for hit in hits
        ]
        return Found(self.name, found, reason=f"{WORDS_ONLY}{left_out}")

    def close(self) -> None:
        """Close the index."""
        if self._index is not None:
            self._index.close()

    def _built(self) -> FileIndex:
        """Return the index of the documents, which is kept in memory."""
        texts, self._skipped = read_documents(self._root)
        settings = read_settings({"chunking": {"tokens": CHUNK, "overlap": 0}}, self.name, RELEASE)
        with tempfile.TemporaryDirectory(prefix="recall-lab-") as scratch:
            folder = Folder(Path(scratch))
            for path, text in texts.items():
                folder.append(path, Entry("", "", (path,)), text.removesuffix("\n").split("\n"), 0)
            index = FileIndex(folder, settings, _NoVectors())
            index.sync()
        return index


def read_documents(folder: Path) -> tuple[dict[str, str], int]:
    """Return the texts of the documents below a folder by path, and the number of files that cannot be read as such."""
    texts: dict[str, str] = {}
    skipped = 0
    root = folder.resolve()
    try:
        paths = sorted(root.rglob("*"))
    except OSError:
        # Its folder may not be entered.
        return {}, 0
    for path in paths:
        inside = path.relative_to(root)
        if path.suffix.lower() not in SUFFIXES or any(part.startswith(".") for part in inside.parts):
            continue
        try:
            # A citation is UTF-8, as a name need not be.
            inside.as_posix().encode()
            if not path.resolve().is_relative_to(root) or not path.is_file():
                continue
            if path.stat().st_size > MOST_BYTES:
                skipped += 1
                continue
            texts[inside.as_posix()] = path.read_text(encoding="utf-8")
        except (OSError, RuntimeError, UnicodeError):
            # A link that leads to itself is a RuntimeError before Python 3.13.
            skipped += 1
    return texts, skipped
