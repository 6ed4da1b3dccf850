"""The estimate of tokens by which the injected texts of all systems are measured (E-62)."""

from __future__ import annotations

# Starts and ends of CJK ranges, alternating: kana, extension A, ideographs, hangul, compatibility.
_CJK = (0x3040, 0x3100, 0x3400, 0x4DC0, 0x4E00, 0xA000, 0xAC00, 0xD7B0, 0xF900, 0xFB00)


def tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter of ASCII, two thirds of CJK, half of other characters (E-62)."""
    if not text:
        return 0
    if text.isascii():
        return len(text) // 4 + 1
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    others = codes[codes > 127]
    cjk = int(np.count_nonzero(np.searchsorted(_CJK, others, "right") % 2))
    return (len(codes) - len(others)) // 4 + (2 * cjk + 1) // 3 + (len(others) - cjk) // 2 + 1


def most_ascii(count: int) -> int:
    """Return the length of the longest ASCII text of at most ``count`` tokens."""
    return max(0, 4 * count - 1)
