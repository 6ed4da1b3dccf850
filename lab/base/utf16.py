"""Length and slicing of texts in UTF-16 code units, as in JavaScript (E-3)."""

from __future__ import annotations

from collections.abc import Iterator

from lab.base.regex import regex

# Number of characters encoded at once for a length or a hash: a turn may be tens of megabytes long, and encoding all of
# it would double its memory.
PIECE = 1 << 18
LONE_SURROGATE = regex("[\ud800-\udfff]")
_ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")

# JavaScript's white space (E-3), which differs from Python's.
WHITESPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def has_lone_surrogate(text: str) -> bool:
    """Return whether a text has a lone surrogate, which UTF-8 cannot encode."""
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
    """Yield the UTF-8 of a text in parts. A lone surrogate, which JSON can carry, is passed through."""
    return (piece.encode("utf-8", "surrogatepass") for piece in pieces(text))


def js_length(text: str) -> int:
    """Return the length in UTF-16 code units: a character above U+FFFF counts 2."""
    if text.isascii():
        return len(text)
    if len(text) > PIECE:
        return sum(map(js_length, pieces(text)))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def ascii_lower(text: str) -> str:
    """Lower-case only ASCII letters, as JavaScript's case-insensitive patterns without the u flag do."""
    return text.translate(_ASCII_LOWER)


def js_slice(text: str, units: int) -> str:
    """Return the first ``units`` UTF-16 code units. A surrogate pair that is cut leaves its first half."""
    # A character takes at least one unit, so no more characters than units are needed.
    text = text[:units] if units >= 0 else text
    return text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "surrogatepass")


def without_half(text: str) -> str:
    """Return a text without the first half of a surrogate pair that a cut has left at its end."""
    return text[:-1] if "\ud800" <= text[-1:] <= "\udbff" else text


def js_tail(text: str, units: int) -> str:
    """Return the last ``units`` UTF-16 code units. A surrogate pair that is cut leaves its second half."""
    encoded = text[max(0, len(text) - max(0, units)) :].encode("utf-16-le", "surrogatepass")
    return encoded[max(0, len(encoded) - 2 * units) :].decode("utf-16-le", "surrogatepass")


def js_utf8(text: str) -> bytes:
    """Encode as UTF-8 like JavaScript: a lone surrogate becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return LONE_SURROGATE.sub("\ufffd", text).encode()


def js_utf8_length(text: str) -> int:
    """Return the length in bytes of :func:`js_utf8`."""
    return sum(len(js_utf8(piece)) for piece in pieces(text))
