"""The index of a workspace: chunks in SQLite with FTS5, and their vectors, updated before each search (HB-4).

The vectors are in memory and searched exactly. They come from the lab's embedder and its cache. The words of queries
and snippets are split as the host's search splits them (HB-5).
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lab.base.regex import regex
from lab.base.sqlite import transaction
from lab.embedding.embedder import QUERY, VectorsOf
from lab.retrieval.clamp import Clamp
from lab.retrieval.retrievers import embedded_text
from lab.retrieval.tokens import ENGLISH, storable
from lab.systems.contract import Ask
from lab.systems.files.folder import CURATED, Chunk, Chunker, Entry, Folder
from lab.systems.files.settings import Settings
from lab.systems.openclaw.near_duplicate import CJK_RUN

if TYPE_CHECKING:
    import numpy as np


# A prompt is searched by this many single words if its words are not all in enough chunks.
MOST_KEYWORDS = 6
_WORD = regex(r"\w+")
_ASCII_WORD = regex(r"[a-z0-9_]+")
_IDEOGRAPHS = regex("[\u4e00-\u9fff]")
_STOP = frozenset(ENGLISH)


def query_words(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores of a text in lower case; a Chinese phrase is one."""
    return _WORD.findall(text.lower())


def match_of(words: list[str]) -> str:
    """Return the FTS5 query that wants every word; blank without words."""
    return " AND ".join(f'"{word}"' for word in words)


def keywords(text: str, tokenizer: str) -> list[str]:
    """Return at most :data:`MOST_KEYWORDS` words worth a search of their own, in order, without repetition.

    Stop words, short words of Latin letters and numbers are none. Of Chinese phrases, the host takes the characters
    and their pairs, or with ``trigram`` the whole phrase. The stop words are the lab's English ones.
    """
    found: dict[str, None] = {}
    for word in re.split(r"[\W]+", text.lower()):
        characters = _IDEOGRAPHS.findall(word)
        if not characters:
            found[word] = None
        elif tokenizer == "trigram":
            found["".join(characters)] = None
        else:
            found |= dict.fromkeys([*characters, *map("".join, pairwise(characters))])
    whole = text.strip().lower()
    return [word for word in found if _is_keyword(word) and word != whole][:MOST_KEYWORDS]


def _is_keyword(word: str) -> bool:
    if not word or word in _STOP or word.isdecimal():
        return False
    return len(word) > 2 or not (word.isascii() and word.isalpha())


def jaccard_words(text: str) -> frozenset[str]:
    """Return the words by which two snippets are compared: ASCII words, CJK characters, and their pairs."""
    lowered = text.lower()
    words = set(_ASCII_WORD.findall(lowered))
    for run in CJK_RUN.findall(lowered):
        words.update(run)
        words.update(run[at : at + 2] for at in range(len(run) - 1))
    return frozenset(words)


T = TypeVar("T")
# What search returns of a chunk, in UTF-16 code units.
SNIPPET = 700
_LIMITS = Clamp()
_INSERT = "INSERT OR REPLACE INTO chunks (id, path, source, first_line, last_line, text) VALUES (?, ?, ?, ?, ?, ?)"


class Indexed:
    """A chunk with what searches compute from it, once."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        # The words of the snippet as bits, set by the search.
        self.bits: int | None = None

    @cached_property
    def text(self) -> str:
        """The text of the chunk."""
        return self.chunk.text

    @cached_property
    def snippet(self) -> str:
        """The start of the text that a search returns, as long as :data:`SNIPPET`."""
        return self.text[:SNIPPET]

    @cached_property
    def words(self) -> frozenset[str]:
        """The words that a query is compared with."""
        return frozenset(query_words(self.text))

    @cached_property
    def parts(self) -> frozenset[str]:
        """The words by which snippets are compared with each other."""
        return jaccard_words(self.snippet)

    @cached_property
    def shown(self) -> tuple[Entry, ...]:
        """The entries that the snippet shows."""
        return self.chunk.shown(SNIPPET)

    @cached_property
    def citation(self) -> str:
        """Path and lines, as the host cites them."""
        first, last = self.chunk.lines
        return f"{self.chunk.path}#L{first}" + (f"-L{last}" if last > first else "")

    @cached_property
    def order(self) -> tuple[str, tuple[int, int]]:
        """Breaks ties: path and lines."""
        return self.chunk.path, self.chunk.lines


class _State(NamedTuple):
    """What the index knows of one file: its chunker and the rows of its chunks."""

    chunker: Chunker
    rows: list[int]


class FileIndex:
    """Chunks by row number, counted from 1. :meth:`sync` reads what changed in the folder.

    Systems that differ in what they select only share an index, which one of them feeds; ``broken`` is the error with
    which that failed, if any.
    """

    def __init__(self, folder: Folder, settings: Settings, vectors: VectorsOf) -> None:
        self.folder, self.settings, self.vectors = folder, settings, vectors
        self.broken: BaseException | None = None
        # Words of snippets by number, for comparisons, and the last query with the results of its work.
        self.numbers: dict[str, int] = {}
        self._last_ask: Ask | None = None
        self._done: dict[Hashable, tuple[Any, int]] = {}
        self.chunks: dict[int, Indexed] = {}
        self._states: dict[str, _State] = {}
        self._tails: dict[str, int] = {}
        self._dirty: dict[int, Indexed] = {}
        self._count = 0
        self._matrix: np.ndarray | None = None
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.execute(
            "CREATE TABLE chunks (id INTEGER PRIMARY KEY, path TEXT, source TEXT, first_line INTEGER, "
            "last_line INTEGER, text TEXT)"
        )
        tokenize = "trigram case_sensitive 0" if settings.tokenizer == "trigram" else "unicode61"
        self._db.execute(f"CREATE VIRTUAL TABLE chunks_fts USING fts5(text, tokenize='{tokenize}')")

    def sync(self) -> None:
        """Read the files that changed, and embed and store the chunks that changed."""
        self._read_changes()
        if self._dirty:
            self._store()

    def once(self, ask: Ask, key: Hashable, work: Callable[[], T]) -> tuple[T, int]:
        """Do some work for a query, once for all systems; return its result and the nanoseconds that it took."""
        if self._last_ask != ask or self.folder.changed:
            self._last_ask, self._done = ask, {}
        if key not in self._done:
            started = time.perf_counter_ns()
            result = work()
            self._done[key] = result, time.perf_counter_ns() - started
        return self._done[key]

    def texts_to_embed(self) -> list[str]:
        """Read the files that changed, and return what :meth:`sync` would embed; nothing is embedded or stored."""
        self._read_changes()
        texts = [embedded_text(indexed.text, _LIMITS) for indexed in self._dirty.values()]
        self._dirty.clear()
        return texts

    def by_words(self, query: str, substrings: Sequence[str], limit: int) -> list[tuple[int, float]]:
        """Return rows and BM25 scores (higher is better; 0 without a query) by an FTS5 query and contained texts.

        A query that FTS5 cannot parse, such as one of thousands of words, finds nothing.
        """
        contained = " AND instr(lower(text), ?)" * len(substrings)
        lowered = [text.lower() for text in substrings]
        if query:
            sql = f"SELECT rowid, -bm25(chunks_fts) AS score FROM chunks_fts WHERE chunks_fts MATCH ?{contained}"  # noqa: S608 - placeholders only
            order = " ORDER BY score DESC, rowid LIMIT ?"
        else:
            sql, order = f"SELECT rowid, 0.0 FROM chunks_fts WHERE 1{contained}", " ORDER BY rowid LIMIT ?"  # noqa: S608 - placeholders only
        try:
            return self._db.execute(sql + order, (*([query] if query else ()), *lowered, limit)).fetchall()
        except sqlite3.OperationalError:
            return []

    def by_meaning(self, text: str, limit: int) -> list[tuple[int, float]]:
        """Return rows and cosines, rounded to 1e-6, of the nearest chunks; ties by row."""
        import numpy as np

        if self._matrix is None:
            return []
        text = embedded_text(text, _LIMITS)
        self.vectors.prepare([text], role=QUERY)
        query = _unit(self.vectors.of([text], QUERY)[0])
        rows = np.fromiter(self.chunks, np.int64, len(self.chunks))
        whole = len(rows) == self._count
        cosines = np.round((self._matrix[: self._count] if whole else self._matrix[rows - 1]) @ query, 6)
        order = np.lexsort((rows, -cosines))[:limit]
        return [(int(rows[at]), float(cosines[at])) for at in order]

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def _read_changes(self) -> None:
        for path in self.folder.changed:
            self._read(path)
        self.folder.changed.clear()
        self.folder.rewritten.clear()

    def _read(self, path: str) -> None:
        """Cut the new lines of a file, or all of a file that lost an entry."""
        if path in self.folder.rewritten and path in self._states:
            for row in self._states.pop(path).rows:
                self._drop(row)
            self._tails.pop(path, None)
        file = self.folder.files[path]
        state = self._states.get(path)
        if state is None:
            settings = self.settings
            by_entry = path == CURATED and settings.release.by_entry
            chunker = Chunker(path, file.source, settings.tokens, settings.overlap, by_entry=by_entry)
            state = self._states[path] = _State(chunker, [])
        for number, line, entry in file.unread():
            for chunk in state.chunker.add(number, line, entry):
                self._dirty[self._row(path)] = Indexed(chunk)
                self._tails.pop(path, None)
        if rest := state.chunker.rest():
            self._dirty[self._row(path)] = Indexed(rest)

    def _row(self, path: str) -> int:
        """Return the row of the last, incomplete chunk of a file; a new one if there is none."""
        row = self._tails.get(path)
        if row is None:
            self._count += 1
            row = self._tails[path] = self._count
            self._states[path].rows.append(row)
        return row

    def _drop(self, row: int) -> None:
        self._dirty.pop(row, None)
        if self.chunks.pop(row, None):
            self._db.execute("DELETE FROM chunks WHERE id = ?", (row,))
            self._db.execute("DELETE FROM chunks_fts WHERE rowid = ?", (row,))

    def _store(self) -> None:
        import numpy as np

        dirty = {row: self._dirty[row] for row in sorted(self._dirty)}
        self._dirty.clear()
        texts = [embedded_text(indexed.text, _LIMITS) for indexed in dirty.values()]
        self.vectors.prepare(texts)
        vectors = _unit(self.vectors.of(texts))
        known = [(row,) for row in dirty if row in self.chunks]
        self.chunks |= dirty
        rows = [
            (row, indexed.chunk.path, indexed.chunk.source, *indexed.chunk.lines, storable(indexed.text))
            for row, indexed in dirty.items()
        ]
        with transaction(self._db):
            self._db.executemany("DELETE FROM chunks_fts WHERE rowid = ?", known)
            self._db.executemany(_INSERT, rows)
            texts_by_row = [(row[0], row[-1]) for row in rows]
            self._db.executemany("INSERT INTO chunks_fts (rowid, text) VALUES (?, ?)", texts_by_row)
        if self._matrix is None or len(self._matrix) < self._count:
            grown = np.zeros((2 * self._count, vectors.shape[1]), np.float32)
            if self._matrix is not None:
                grown[: len(self._matrix)] = self._matrix
            self._matrix = grown
        self._matrix[np.fromiter(dirty, np.int64, len(dirty)) - 1] = vectors


def _unit(vectors: np.ndarray) -> np.ndarray:
    import numpy as np

    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: np.ndarray = vectors / np.where(norms == 0, 1, norms)
    return unit
