"""Near-duplicate texts as the public plugin compares them at capture (E-34)."""

from __future__ import annotations

from lab.systems.openclaw.near_duplicate import Normal, alike, normal_text

# Minimum length in UTF-16 units of a text that is contained in its duplicate.
CONTAINED = 30


def is_near_duplicate(first: str, second: str, threshold: float) -> bool:
    """Whether texts are equal after normalisation, one contains the other, or their words overlap enough."""
    return alike(_plain(first), _plain(second), jaccard=threshold, contained=CONTAINED)


def is_near_duplicate_cjk(first: str, second: str, threshold: float) -> bool:
    """Apply :func:`is_near_duplicate` with pairs of CJK characters as words, so that Chinese texts can overlap."""
    return alike(normal_text(first), normal_text(second), jaccard=threshold, contained=CONTAINED)


def _plain(text: str) -> Normal:
    normal = normal_text(text)
    return normal if normal.text.isascii() else normal._replace(words=frozenset(normal.text.split(" ")))
