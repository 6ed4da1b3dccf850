"""The embedding that end-to-end vectors were recorded with: words hashed into places, so that anybody can compute it.

It means nothing, and stands in for a provider so that both sides see the same numbers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from lab.retrieval.clamp import Clamp, clamp
from lab.utf16 import ascii_lower, js_utf8

if TYPE_CHECKING:
    import numpy as np

DIMENSION = 1536
_OFFSET, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_TOKEN = re.compile(r"[a-z0-9]+|[^\x00-\x7f]")


def tokens_of(text: str) -> list[str]:
    """Runs of ASCII letters and digits in lower case, and every other character beyond ASCII alone."""
    return _TOKEN.findall(ascii_lower(text))


@lru_cache(maxsize=65_536)
def fnv1a(text: str) -> int:
    """FNV-1a, 32 bits, of a text's UTF-8."""
    value = _OFFSET
    for octet in js_utf8(text):
        value = ((value ^ octet) * _PRIME) & _MASK
    return value


def embed(text: str, limits: Clamp | None = None) -> np.ndarray:
    """float32 ``[1536]``: the unit vector of a text as it is once clamped."""
    import numpy as np

    found = np.zeros(DIMENSION, np.float64)
    clamped = clamp(text, limits or Clamp()).text
    for token in tokens_of(clamped):
        value = fnv1a(token)
        found[value % (DIMENSION - 1)] += 1 + ((value >> 16) & 1023) / 1024
    # The whole text leaves its mark too, so that no text is nothing and nearly alike ones are apart.
    found[DIMENSION - 1] += 0.25 + (fnv1a(clamped) % 4096) / 16384
    # Summed one after another, as the recorded vectors were.
    length = sum((found**2).tolist()) ** 0.5
    return np.asarray(found / length, np.float32)
