"""BM25 as LanceDB's full-text index computes it, bit for bit, over a table that only grows.

k1 1.2, b 0.75, idf ln(1 + (N - df + 0.5) / (df + 0.5)), all in float32, a query's tokens summed in their order and as
often as they occur. Statistics are those of the rows so far, as LanceDB has them once the index is brought up to
date. Checked against LanceDB 0.40 in ``tests/engine``: equal to the last bit.
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

    Numpy's own differs from it in the last bit now and then.

    Without it, a correctly rounded one: equal in all but a few of a thousand values.
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


class Bm25:
    """Postings of a growing table. Rows are numbered from 0 in the order in which they are added."""

    def __init__(self) -> None:
        self.rows = 0
        self._tokens = 0
        self._lengths: list[int] = []
        self._postings: dict[str, tuple[list[int], list[int]]] = {}
        self._frozen: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._norm: np.ndarray | None = None

    def add(self, documents: Sequence[list[str]]) -> None:
        """Add rows, given by their tokens."""
        for tokens in documents:
            for token, count in Counter(tokens).items():
                rows, counts = self._postings.setdefault(token, ([], []))
                rows.append(self.rows)
                counts.append(count)
                self._frozen.pop(token, None)
            self._lengths.append(len(tokens))
            self._tokens += len(tokens)
            self.rows += 1
        self._norm = None

    def scores(self, query: Sequence[str]) -> np.ndarray:
        """float32 ``[rows]``: the score of every row; 0 where no token of the query occurs."""
        import numpy as np

        f32 = np.float32
        out = np.zeros(self.rows, f32)
        if not self.rows or not self._tokens:
            return out
        if self._norm is None:
            average = f32(self._tokens / self.rows)
            lengths = np.asarray(self._lengths, f32)
            self._norm = f32(K1) * (f32(1) - f32(B) + f32(B) * lengths / average)
        for token in query:
            posting = self._posting(token)
            if posting is None:
                continue
            rows, counts = posting
            df = f32(len(rows))
            idf = f32(_logf(float(f32(1) + (f32(self.rows) - df + f32(0.5)) / (df + f32(0.5)))))
            out[rows] += idf * (f32(K1 + 1) * counts / (counts + self._norm[rows]))
        return out

    def _posting(self, token: str) -> tuple[np.ndarray, np.ndarray] | None:
        import numpy as np

        frozen = self._frozen.get(token)
        if frozen is None:
            lists = self._postings.get(token)
            if lists is None:
                return None
            frozen = self._frozen[token] = (np.asarray(lists[0], np.intp), np.asarray(lists[1], np.float32))
        return frozen
