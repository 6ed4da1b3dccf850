"""The text lane's scores: two readings of BM25 over one set of postings, k1 1.2 and b 0.75 in both, all in float32.

* :func:`index_scores`: as LanceDB's full-text index computes them once it is up to date. Statistics are those of all
  rows; a query's words count in their order and as often as they occur. Equal to LanceDB 0.40 to the last bit
  (``tests/engine/test_bm25.py``).
* :func:`scan_hits`: as the public plugin gets them. It never builds an index, so LanceDB scans: statistics are those of
  the rows that pass the filter, a word's occurrences stand in for its rows, and hits come in order of insertion.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import numpy as np

K1, B = 1.2, 0.75


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
        self.rows = 0
        self.worded = 0
        self.words = 0
        self._lengths: list[int] = []
        self._lists: dict[str, tuple[list[int], list[int]]] = {}
        self._arrays: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._length_array: np.ndarray | None = None

    def add(self, documents: Sequence[list[str]]) -> None:
        """Add rows, given by their words."""
        for words in documents:
            for word, count in Counter(words).items():
                rows, counts = self._lists.setdefault(word, ([], []))
                rows.append(self.rows)
                counts.append(count)
                self._arrays.pop(word, None)
            self._lengths.append(len(words))
            self.worded += bool(words)
            self.words += len(words)
            self.rows += 1
        self._length_array = None

    def remove(self, row: int) -> None:
        """Take a row out of every statistic; its number stays taken."""
        for word, (rows, counts) in list(self._lists.items()):
            if row in rows:
                at = rows.index(row)
                del rows[at], counts[at]
                self._arrays.pop(word, None)
                if not rows:
                    del self._lists[word]
        self.worded -= bool(self._lengths[row])
        self.words -= self._lengths[row]
        self._lengths[row] = 0
        self._length_array = None

    @property
    def lengths(self) -> np.ndarray:
        """float32 ``[rows]``: words of each row."""
        import numpy as np

        if self._length_array is None:
            self._length_array = np.asarray(self._lengths, np.float32)
        return self._length_array

    def of(self, word: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows that hold a word, ascending, and how often each does; None where none does."""
        import numpy as np

        found = self._arrays.get(word)
        if found is None and word in self._lists:
            rows, counts = self._lists[word]
            found = self._arrays[word] = (np.asarray(rows, np.intp), np.asarray(counts, np.float32))
        return found


def index_scores(postings: Postings, query: Sequence[str]) -> np.ndarray:
    """float32 ``[rows]``: the score of every row under the index; 0 where no word of the query occurs."""
    import numpy as np

    out = np.zeros(postings.rows, np.float32)
    if not postings.words:
        return out
    # A row without a word is not in the index, so it counts in no statistic.
    size = np.float32(postings.worded)
    average = np.float32(postings.words / postings.worded)
    lengths = postings.lengths
    for word in query:
        found = postings.of(word)
        if found is not None:
            rows, counts = found
            out[rows] += _weights(size, np.float32(len(rows)), counts, lengths[rows], average)
    return out


def scan_hits(
    postings: Postings, query: Sequence[str], allowed: np.ndarray, limit: int
) -> tuple[list[int], list[float]]:
    """Rows of ``allowed`` (bool ``[rows]``) with a positive score, in order of insertion, and their scores."""
    import numpy as np

    out = np.zeros(postings.rows, np.float32)
    lengths = postings.lengths
    size = int(allowed.sum())
    words = float(lengths[allowed].sum())
    if not words:
        return [], []
    for word in dict.fromkeys(query):
        found = postings.of(word)
        if found is None:
            continue
        inside = allowed[found[0]]
        rows, counts = found[0][inside], found[1][inside]
        if len(rows):
            average = np.float32(words / size)
            out[rows] += _weights(np.float32(size), np.float32(counts.sum()), counts, lengths[rows], average)
    chosen = (out > 0).nonzero()[0][:limit]
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
