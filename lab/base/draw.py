"""Random numbers that are a pure function of a seed and a key."""

from __future__ import annotations

import hashlib
from functools import lru_cache


# A sample of labels needs each memory at every share.
@lru_cache(maxsize=1 << 14)
def draw(seed: int, key: str) -> float:
    """Return a number in [0, 1) that depends only on seed and key, not on the order of draws or on shards."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{key}".encode("utf-8", "surrogatepass")).digest()[:7], "big") / (
        1 << 56
    )
