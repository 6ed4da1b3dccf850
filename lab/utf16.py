"""Lengths and cuts of texts in UTF-16 code units, as JavaScript counts them (E-3)."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Characters of a text that are encoded at once where only a length or a hash is wanted: a turn may be tens of megabytes
# long, and would take as much again at each.
PIECE = 1 << 18
# Half of a surrogate pair, which is no character.
HALF = re.compile("[\ud800-\udfff]")
_ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")

# JavaScript's white space (E-3): not quite Python's.
WHITESPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def has_lone_surrogate(text: str) -> bool:
    """Whether a text holds half a surrogate pair, which UTF-8 cannot write."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def pieces(text: str) -> Iterator[str]:
    """Yield a text in parts of at most :data:`PIECE` characters."""
    if len(text) <= PIECE:
        yield text
        return
    for begin in range(0, len(text), PIECE):
        yield text[begin : begin + PIECE]


def utf8_pieces(text: str) -> Iterator[bytes]:
    """Yield the UTF-8 of a text in parts; a lone surrogate, which JSON can carry, is encoded as it is."""
    return (piece.encode("utf-8", "surrogatepass") for piece in pieces(text))


def js_length(text: str) -> int:
    """Length in UTF-16 code units: an astral character counts 2."""
    if len(text) > PIECE:
        return sum(map(js_length, pieces(text)))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def ascii_lower(text: str) -> str:
    """A text as JavaScript's case-insensitive patterns see it: outside ASCII, nothing folds into it."""
    return text.translate(_ASCII_LOWER)


def js_slice(text: str, units: int) -> str:
    """The first ``units`` UTF-16 code units; a surrogate pair that the cut falls into leaves its first half."""
    # A character has a unit at least, so no more of them are needed.
    text = text[:units] if units >= 0 else text
    return text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "surrogatepass")


def js_tail(text: str, units: int) -> str:
    """The last ``units`` UTF-16 code units; a pair that the cut falls into leaves its second half."""
    encoded = text[max(0, len(text) - max(0, units)) :].encode("utf-16-le", "surrogatepass")
    return encoded[max(0, len(encoded) - 2 * units) :].decode("utf-16-le", "surrogatepass")


def js_utf8(text: str) -> bytes:
    """UTF-8 as JavaScript writes it: half of a pair becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return HALF.sub("\ufffd", text).encode()


def js_utf8_length(text: str) -> int:
    """Length in bytes of :func:`js_utf8`."""
    return sum(len(js_utf8(piece)) for piece in pieces(text))
