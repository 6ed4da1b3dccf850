"""The estimate of tokens by which the injected texts of all systems are measured (E-62)."""

from __future__ import annotations

from lab.base.regex import regex

_ASCII = bytes(range(128))
# Kana, extension A, ideographs, hangul, compatibility.
_CJK = regex("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")


def tokens(text: str) -> int:
    """Estimate the tokens of a text: a quarter of ASCII, two thirds of CJK, half of other characters (E-62)."""
    if not text:
        return 0
    if text.isascii():
        return len(text) // 4 + 1
    # Most texts have few characters beyond ASCII, and only these are looked at.
    others = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
    cjk = sum(map(len, _CJK.findall(others)))
    return (len(text) - len(others)) // 4 + (2 * cjk + 1) // 3 + (len(others) - cjk) // 2 + 1


def most_ascii(count: int) -> int:
    """Return the length of the longest ASCII text of at most ``count`` tokens."""
    return max(0, 4 * count - 1)
