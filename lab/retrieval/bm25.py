"""The BM25 scores of the text lane, in two variants over one set of postings.

Both have k1 1.2 and b 0.75, and compute in float32:

* :func:`index_scores`: as LanceDB computes them with an up-to-date full-text index. Statistics cover all rows; the
  query's words are added in order, repetitions included. Equal to LanceDB 0.40 bit for bit
  (``tests/retrieval/test_bm25.py``).
* :func:`scan_hits`: as the public plugin gets them. It never builds an index, so LanceDB scans: statistics cover the
  rows that pass the filter, a word's total count replaces its document frequency, and hits come in table order.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from lab.base.columns import Growing

if TYPE_CHECKING:
    import numpy as np

K1, B = 1.2, 0.75
# A word in at least one of so many rows is stored densely: adding to every row is then as fast as looking rows up.
COMMON = 8


def _c_logf() -> Callable[[float], float]:
    """Return the C library's float32 logarithm, which LanceDB calls.

    numpy's differs from it in the last bit now and then. Without a C library, return a correctly rounded one, which is
    equal in all but a few of a thousand values.
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
    """An inverted index over a table that only grows. Rows are numbered in the order in which they are added.

    The first rows may be those of a ``base``, which is only read (:meth:`take`).
    """

    def __init__(self, base: Postings | None = None) -> None:
        import numpy as np

        self._base, self._taken, self._removed = base, 0, False
        self.rows = 0
        self.worded = 0
        self.words = 0
        self._lengths = Growing(np.float32)
        self._lists: dict[str, Growing] = {}
        self._weights: dict[str, tuple[np.ndarray | None, np.ndarray]] = {}

    def add(self, documents: Sequence[list[str]]) -> None:
        """Append rows, each given as the list of its words."""
        import numpy as np

        new_entries: dict[str, list[tuple[int, int]]] = {}
        for number, words in enumerate(documents, self.rows):
            for word, count in Counter(words).items():
                new_entries.setdefault(word, []).append((number, count))
            self.worded += bool(words)
            self.words += len(words)
        for word, entries in new_entries.items():
            postings = self._lists.get(word)
            if postings is None:
                postings = self._lists[word] = Growing(np.int32, 2, first=1)
            postings.extend(entries)
        self._lengths.extend([len(words) for words in documents])
        self._weights.clear()
        self.rows += len(documents)

    def take(self, count: int) -> None:
        """Append the next ``count`` rows of the base; no row of one's own may have been added."""
        import numpy as np

        assert self._base is not None  # noqa: S101 - else there is nothing to take
        lengths = self._base.lengths[self._taken : self._taken + count]
        self._taken += count
        self.worded += int(np.count_nonzero(lengths))
        self.words += int(lengths.sum(dtype=np.int64))
        self._lengths.extend(lengths)
        self._weights.clear()
        self.rows += count

    def remove(self, row: int) -> None:
        """Remove a row from every statistic. Its number is not reused."""
        self._weights.clear()
        self.worded -= bool(self.lengths[row])
        self.words -= int(self.lengths[row])
        # A row without words is in no list.
        self.lengths[row], self._removed = 0, True

    @property
    def lengths(self) -> np.ndarray:
        """The number of words in each row, float32 ``[rows]``."""
        return self._lengths.array

    def weights(self, word: str) -> tuple[np.ndarray | None, np.ndarray] | None:
        """Return the rows that contain a word and what it adds to the score of each; None if no row does.

        For a common word, rows is None and the weights cover every row, 0 where the word is missing. Cached until rows
        are added, because that changes the statistics.
        """
        import numpy as np

        cached = self._weights.get(word)
        if cached is None and (found := self.of(word)):
            rows, counts = found
            # Rows without words are not in the index, so no statistic counts them.
            size, average = np.float32(self.worded), np.float32(self.words / self.worded)
            lengths = self.lengths[rows]
            weights = _weights(size, np.float32(len(rows)), counts, lengths, average)
            if len(rows) * COMMON < self.rows:
                cached = self._weights[word] = (rows.astype(np.intp), weights)
            else:
                dense = np.zeros(self.rows, np.float32)
                dense[rows] = weights
                cached = self._weights[word] = (None, dense)
        return cached

    def of(self, word: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the rows that contain a word (int32, ascending) and its counts (float32); None if no row does."""
        import numpy as np

        parts = [] if self._base is None else [self._base.entries(word, self._taken)]
        parts.append(self.entries(word, self.rows))
        entries = parts[-1] if not len(parts[0]) else parts[0] if not len(parts[-1]) else np.concatenate(parts)
        if self._removed:
            entries = entries[self.lengths[entries[:, 0]] > 0]
        return (entries[:, 0], entries[:, 1].astype(np.float32)) if len(entries) else None

    def entries(self, word: str, before: int) -> np.ndarray:
        """Return the own rows with a word, of those numbered below ``before``, and its counts: int32 ``[rows, 2]``."""
        import numpy as np

        postings = self._lists.get(word)
        if postings is None:
            return np.zeros((0, 2), np.int32)
        entries = postings.array
        return entries if before >= self.rows else entries[: np.searchsorted(entries[:, 0], before)]


def index_scores(postings: Postings, query: Sequence[str]) -> np.ndarray:
    """Return the indexed score of every row, float32 ``[rows]``; 0 for rows without a word of the query."""
    import numpy as np

    scores = np.zeros(postings.rows, np.float32)
    for word in query:
        contribution = postings.weights(word)
        if contribution is not None:
            rows, weights = contribution
            if rows is None:
                scores += weights
            else:
                scores[rows] += weights
    return scores


def scan_hits(
    postings: Postings, query: Sequence[str], allowed: np.ndarray, limit: int, positions: np.ndarray | None = None
) -> tuple[list[int], list[float]]:
    """Return the first ``limit`` rows of ``allowed`` (bool ``[rows]``) with a positive score, and their scores.

    They come in the order of their ``positions`` in the table; by default a row's position is its number.
    """
    import numpy as np

    scores = np.zeros(postings.rows, np.float32)
    lengths = postings.lengths
    size = int(allowed.sum())
    words = float(lengths[allowed].sum())
    if not words:
        return [], []
    # LanceDB adds a repeated word at its last occurrence; the last bits of a sum depend on the order.
    for word in reversed(dict.fromkeys(reversed(query))):
        entries = postings.of(word)
        if entries is None:
            continue
        passing = allowed[entries[0]]
        rows, counts = entries[0][passing], entries[1][passing]
        if len(rows):
            average = np.float32(words / size)
            scores[rows] += _weights(np.float32(size), np.float32(counts.sum()), counts, lengths[rows], average)
    chosen = (scores > 0).nonzero()[0]
    if positions is not None:
        chosen = chosen[np.argsort(positions[chosen], kind="stable")]
    chosen = chosen[:limit]
    return chosen.tolist(), scores[chosen].tolist()


def _weights(
    size: np.float32, frequency: np.float32, counts: np.ndarray, lengths: np.ndarray, average: np.float32
) -> np.ndarray:
    """Return what a word adds to its rows: ``ln(1 + (N - n + 0.5) / (n + 0.5))`` times the saturated count."""
    import numpy as np

    f32 = np.float32
    idf = f32(_logf(float(f32(1) + (size - frequency + f32(0.5)) / (frequency + f32(0.5)))))
    weights: np.ndarray = idf * (
        f32(K1 + 1) * counts / (counts + f32(K1) * (f32(1) - f32(B) + f32(B) * lengths / average))
    )
    return weights
