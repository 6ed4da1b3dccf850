"""The order of ids where scores tie: JavaScript's ``localeCompare``, which is the ICU root collation (E-4).

Ids of the usual kinds (UUIDs, ``working_set:global``) are printable ASCII and need one table. Any other goes through
the Unicode Collation Algorithm (pyuca), whose weights are laid between those of the ASCII characters, so that all keys
compare with one another. Its tables are those of Unicode 10: younger characters stand behind all others.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from unicodedata import normalize

if TYPE_CHECKING:
    from pyuca.collator import Collator_10_0_0

# Printable ASCII in the order of the collation; a letter stands for both of its cases.
_ASCII = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz"
# Between two neighbours in ASCII there is room for all other weights that lie there; there is more behind z.
_ROOM = 0x2000
# Ends a level: it is below every weight.
_END = "\x01"
# Accents, then cases, are compared where all before is equal. These are the weights of none, and of lower case.
_PLAIN, _LOWER, _UPPER = "\x20", "\x02", "\x08"
_PRIMARY = {ord(one): chr(_ROOM * place) for place, lower in enumerate(_ASCII, 1) for one in (lower, lower.upper())}
_CASES = {ord(one): _UPPER if one.isupper() else _LOWER for lower in _ASCII for one in (lower, lower.upper())}


@lru_cache(maxsize=1 << 17)
def id_order(identity: str) -> str:
    """A key under which ids sort as ``localeCompare`` sorts them in the plugin; where that answers 0, keys are equal.

    A key is for comparing with other keys, and is no text.
    """
    if not (identity.isascii() and identity.isprintable()):
        return _unicode_order(identity)
    primary = identity.translate(_PRIMARY)
    # Without capitals there is nothing to tell apart behind it: for most ids this one step is all.
    return primary if identity == identity.lower() else _joined(primary, "", identity.translate(_CASES))


def _joined(primary: str, accents: str, cases: str) -> str:
    """The levels in one key. Plain weights at the end of a level are the lowest there, so they can be left out."""
    accents, cases = accents.rstrip(_PLAIN), cases.rstrip(_LOWER)
    return f"{primary}{_END}{accents}{_END}{cases}" if accents or cases else primary


def _unicode_order(identity: str) -> str:
    elements = _collator().collation_elements(normalize("NFD", identity))
    # A weight of 0 is none: control characters have no weight at all, an accent none on the first level.
    primary, accents, cases = ([element[level] for element in elements if element[level]] for level in range(3))
    return _joined("".join(map(_between, primary)), "".join(map(chr, accents)), "".join(map(chr, cases)))


def _between(weight: int) -> str:
    """A primary weight as a character: behind the last ASCII character that it is not below."""
    weights = _ascii_weights()
    place = bisect_right(weights, weight)
    return chr(_ROOM * place + weight - (weights[place - 1] if place else 0))


@cache
def _ascii_weights() -> list[int]:
    return [_collator().collation_elements(one)[0][0] for one in _ASCII]


@cache
def _collator() -> Collator_10_0_0:
    # Reading its tables takes a fifth of a second, which nearly nobody has to wait for.
    from pyuca.collator import Collator_10_0_0

    return Collator_10_0_0()
