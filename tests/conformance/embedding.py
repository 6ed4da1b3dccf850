"""The embedding of the end-to-end records: words hashed to dimensions, so that it is easy to reproduce.

It has no semantics. It replaces an embedding provider so that the plugin and the lab use the same vectors.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from lab.base.utf16 import ascii_lower, js_utf8
from lab.retrieval.clamp import Clamp, clamp

if TYPE_CHECKING:
    import numpy as np

DIMENSION = 1536
_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_TOKEN = re.compile(r"[a-z0-9]+|[^\x00-\x7f]")


def tokens_of(text: str) -> list[str]:
    """Return the runs of ASCII letters and digits in lower case, and every non-ASCII character by itself."""
    return _TOKEN.findall(ascii_lower(text))


@lru_cache(maxsize=65_536)
def fnv1a(text: str) -> int:
    """Return the 32-bit FNV-1a hash of a text in UTF-8."""
    value = _OFFSET
    for octet in js_utf8(text):
        value = ((value ^ octet) * _PRIME) & _MASK
    return value


def embed(text: str, limits: Clamp | None = None) -> np.ndarray:
    """Return the unit vector of the clamped text, float32 ``[1536]``."""
    import numpy as np

    sums = np.zeros(DIMENSION, np.float64)
    clamped = clamp(text, limits or Clamp()).text
    for token in tokens_of(clamped):
        value = fnv1a(token)
        sums[value % (DIMENSION - 1)] += 1 + ((value >> 16) & 1023) / 1024
    # The last dimension hashes the complete text, so that no vector is zero and similar texts differ.
    sums[DIMENSION - 1] += 0.25 + (fnv1a(clamped) % 4096) / 16384
    # Summed sequentially in float64, as for the recorded vectors.
    length = sum((sums**2).tolist()) ** 0.5
    return np.asarray(sums / length, np.float32)
