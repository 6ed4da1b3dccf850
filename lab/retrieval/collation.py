"""The order of ids with equal scores: JavaScript's ``localeCompare``, which is the ICU root collation (E-4).

Usual ids (UUIDs, ``working_set:global``) are printable ASCII and need one table. All others go through the Unicode
Collation Algorithm (pyuca), whose weights are mapped between those of the ASCII characters, so that all keys compare.
Its tables are those of Unicode 10; newer characters sort last.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from unicodedata import normalize

if TYPE_CHECKING:
    from pyuca.collator import Collator_10_0_0

# Printable ASCII in collation order; a letter represents both of its cases.
_ASCII = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
# The gap between two ASCII neighbours, wide enough for all other weights between them; what follows z is unbounded.
_ROOM = 0x2000
# Ends a level; lower than every weight.
_END = "\x01"
# Accents, then cases, break ties between equal levels before them. "Plain" is the weight of no accent.
_PLAIN, _LOWER, _UPPER = "\x20", "\x02", "\x08"
_PRIMARY = {ord(char): chr(_ROOM * rank) for rank, lower in enumerate(_ASCII, 1) for char in (lower, lower.upper())}
_CASES = {ord(char): _UPPER if char.isupper() else _LOWER for lower in _ASCII for char in (lower, lower.upper())}


@lru_cache(maxsize=1 << 17)
def id_order(identity: str) -> str:
    """Return a key that sorts ids as ``localeCompare`` does in the plugin; keys are equal where that returns 0.

    A key is only good for comparing with other keys; it is not readable text.
    """
    if not (identity.isascii() and identity.isprintable()):
        return _unicode_order(identity)
    primary = identity.translate(_PRIMARY)
    # Without capitals there is no further level to compare, which is the case for most ids.
    return primary if identity == identity.lower() else _joined(primary, "", identity.translate(_CASES))


def _joined(primary: str, accents: str, cases: str) -> str:
    """Join the levels into one key. Trailing plain weights are the lowest of their level, so they are left out."""
    accents, cases = accents.rstrip(_PLAIN), cases.rstrip(_LOWER)
    return f"{primary}{_END}{accents}{_END}{cases}" if accents or cases else primary


def _unicode_order(identity: str) -> str:
    elements = _collator().collation_elements(normalize("NFD", identity))
    # A weight of 0 means none: control characters have no weight at all, accents none on the first level.
    primary, accents, cases = ([element[level] for element in elements if element[level]] for level in range(3))
    return _joined("".join(map(_between, primary)), "".join(map(chr, accents)), "".join(map(chr, cases)))


def _between(weight: int) -> str:
    """Return a primary weight as a character that follows the last ASCII character it is not below."""
    weights = _ascii_weights()
    rank = bisect_right(weights, weight)
    return chr(_ROOM * rank + weight - (weights[rank - 1] if rank else 0))


@cache
def _ascii_weights() -> list[int]:
    return [_collator().collation_elements(char)[0][0] for char in _ASCII]


@cache
def _collator() -> Collator_10_0_0:
    # Loading the tables takes a fifth of a second, and hardly any run needs them.
    from pyuca.collator import Collator_10_0_0

    return Collator_10_0_0()
