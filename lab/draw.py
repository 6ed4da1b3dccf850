"""Draws that depend on seed and key alone."""

from __future__ import annotations

import hashlib
from functools import lru_cache


# A draw of labels asks for each memory at every share.
@lru_cache(maxsize=1 << 14)
def draw(seed: int, key: str) -> float:
    """A number in [0, 1) that depends on seed and key alone: not on order, shards or what else is drawn."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{key}".encode("utf-8", "surrogatepass")).digest()[:7], "big") / (
        1 << 56
    )
