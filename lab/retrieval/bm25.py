"""The text lane's scores: two readings of BM25 over one set of postings, k1 1.2 and b 0.75 in both, all in float32.

* :func:`index_scores`: as LanceDB's full-text index computes them once it is up to date. Statistics are those of all
  rows; a query's words count in their order and as often as they occur. Equal to LanceDB 0.40 to the last bit
  (``tests/retrieval/test_bm25.py``).
* :func:`scan_hits`: as the public plugin gets them. It never builds an index, so LanceDB scans: statistics are those of
  the rows that pass the filter, a word's occurrences stand in for its rows, and hits come in the table's order.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from lab.retrieval.growing import Growing

if TYPE_CHECKING:
    import numpy as np

K1, B = 1.2, 0.75
# Adding to every row takes no longer than to one of so many, which must be looked up.
COMMON = 8


def _c_logf() -> Callable[[float], float]:
    """The C library's float32 logarithm, which is the one that LanceDB calls.

    numpy's own differs from it in the last bit now and then. Where there is none, a correctly rounded one: equal in
    all but a few of a thousand values.
    """
    for name in ("libm.so.6", "libSystem.dylib", "ucrtbase.dll"):
        try:
            logf = ctypes.CDLL(name).logf
        except (OSError, AttributeError):
            continue
        logf.restype, logf.argtypes = ctypes.c_float, [ctypes.c_float]
        return cast("Callable[[float], float]", logf)
    return math.log


_logf = _c_logf()


class Postings:
    """Which words stand in which rows, of a table that only grows. Rows are numbered in the order of adding."""

    def __init__(self) -> None:
        import numpy as np

        self.rows = 0
        self.worded = 0
        self.words = 0
        self._lengths = Growing(np.float32)
        self._lists: dict[str, Growing] = {}
        self._weights: dict[str, tuple[np.ndarray | None, np.ndarray]] = {}

    def add(self, documents: Sequence[list[str]]) -> None:
        """Add rows, given by their words."""
        import numpy as np

        found: dict[str, list[tuple[int, int]]] = {}
        for number, words in enumerate(documents, self.rows):
            for word, count in Counter(words).items():
                found.setdefault(word, []).append((number, count))
            self.worded += bool(words)
            self.words += len(words)
        for word, entries in found.items():
            held = self._lists.get(word)
            if held is None:
                held = self._lists[word] = Growing(np.int32, 2, first=1)
            held.extend(entries)
        self._lengths.extend([len(words) for words in documents])
        self._weights.clear()
        self.rows += len(documents)

    def remove(self, row: int) -> None:
        """Take a row out of every statistic; its number stays taken."""
        for word, held in list(self._lists.items()):
            entries = held.array
            kept = entries[entries[:, 0] != row]
            if len(kept) == len(entries):
                continue
            held.length = len(kept)
            held.array[:] = kept
            if not len(kept):
                del self._lists[word]
        self._weights.clear()
        self.worded -= bool(self.lengths[row])
        self.words -= int(self.lengths[row])
        self.lengths[row] = 0

    @property
    def lengths(self) -> np.ndarray:
        """float32 ``[rows]``: words of each row."""
        return self._lengths.array

    def weights(self, word: str) -> tuple[np.ndarray | None, np.ndarray] | None:
        """Rows that hold a word, and what it adds to the score of each; None where none does.

        Of a word that many hold: what it adds to every row, 0 to those that lack it. Kept until rows are added: then
        the statistics of all rows are others.
        """
        import numpy as np

        found = self._weights.get(word)
        if found is None and word in self._lists:
            rows, counts = self.of(word) or (np.zeros(0, np.intp), np.zeros(0, np.float32))
            # A row without a word is not in the index, so it counts in no statistic.
            size, average = np.float32(self.worded), np.float32(self.words / self.worded)
            lengths = self.lengths[rows]
            weights = _weights(size, np.float32(len(rows)), counts, lengths, average)
            if len(rows) * COMMON < self.rows:
                found = self._weights[word] = (rows.astype(np.intp), weights)
            else:
                whole = np.zeros(self.rows, np.float32)
                whole[rows] = weights
                found = self._weights[word] = (None, whole)
        return found

    def of(self, word: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows that hold a word, ascending (int32), and how often each does (float32); None where none does."""
        import numpy as np

        held = self._lists.get(word)
        if held is None:
            return None
        entries = held.array
        return entries[:, 0], entries[:, 1].astype(np.float32)


def index_scores(postings: Postings, query: Sequence[str]) -> np.ndarray:
    """float32 ``[rows]``: the score of every row under the index; 0 where no word of the query occurs."""
    import numpy as np

    out = np.zeros(postings.rows, np.float32)
    for word in query:
        found = postings.weights(word)
        if found is not None:
            rows, weights = found
            if rows is None:
                out += weights
            else:
                out[rows] += weights
    return out


def scan_hits(
    postings: Postings, query: Sequence[str], allowed: np.ndarray, limit: int, places: np.ndarray | None = None
) -> tuple[list[int], list[float]]:
    """Rows of ``allowed`` (bool ``[rows]``) with a positive score, and their scores.

    In the order of their ``places`` in the table, which are their numbers where none are given.
    """
    import numpy as np

    out = np.zeros(postings.rows, np.float32)
    lengths = postings.lengths
    size = int(allowed.sum())
    words = float(lengths[allowed].sum())
    if not words:
        return [], []
    # LanceDB adds a repeated word where it stands last; the last bits of a sum depend on the order.
    for word in reversed(dict.fromkeys(reversed(query))):
        found = postings.of(word)
        if found is None:
            continue
        inside = allowed[found[0]]
        rows, counts = found[0][inside], found[1][inside]
        if len(rows):
            average = np.float32(words / size)
            out[rows] += _weights(np.float32(size), np.float32(counts.sum()), counts, lengths[rows], average)
    chosen = (out > 0).nonzero()[0]
    if places is not None:
        chosen = chosen[np.argsort(places[chosen], kind="stable")]
    chosen = chosen[:limit]
    return chosen.tolist(), out[chosen].tolist()


def _weights(
    size: np.float32, frequency: np.float32, counts: np.ndarray, lengths: np.ndarray, average: np.float32
) -> np.ndarray:
    """What one word adds to the rows that hold it: ``ln(1 + (N - n + 0.5) / (n + 0.5))`` times the saturated count."""
    import numpy as np

    f32 = np.float32
    idf = f32(_logf(float(f32(1) + (size - frequency + f32(0.5)) / (frequency + f32(0.5)))))
    weights: np.ndarray = idf * (
        f32(K1 + 1) * counts / (counts + f32(K1) * (f32(1) - f32(B) + f32(B) * lengths / average))
    )
    return weights
