"""Keys of turns and memories that are too long for a line, shortened so that they stay distinct."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from rich.cells import cell_len

CUT = "…"
# The marks between the parts of a key; they are kept.
_MARKS = re.compile(r"([/:#])")
# A part is not cut to fewer columns than this.
_LEAST = 4


def shortened(keys: Iterable[str], room: int) -> dict[str, str]:
    """Return what to show for each key, in at most ``room`` columns: the key with ``…`` in its longest parts.

    No two keys get the same text: keys whose beginnings are alike keep their ends, and if these are alike as well, or
    nothing more can be cut, a key stays whole. ``lab explain`` takes a turn as it is shown here.
    """
    whole = list(dict.fromkeys(keys))
    shown = {key: key for key in whole}
    for cut in (_before, _after):
        counts = Counter(shown.values())
        tried = {
            key: _fitted(key, room, cut)
            for key in whole
            if (cell_len(shown[key]) > room if cut is _before else counts[shown[key]] > 1)
        }
        shown |= tried
    counts = Counter(shown.values())
    return {key: key if counts[text] > 1 else text for key, text in shown.items()}


def is_short_for(short: str, key: str) -> bool:
    """Return whether a text with ``…`` in it, or the last parts of a key, can stand for the key."""
    if CUT in short:
        return re.fullmatch(".+".join(map(re.escape, short.split(CUT))), key) is not None
    return key.endswith(f"/{short}")


def _fitted(key: str, room: int, cut: Callable[[str], str]) -> str:
    parts = _MARKS.split(key)
    while cell_len("".join(parts)) > room:
        place = max(range(len(parts)), key=lambda at: cell_len(parts[at]))
        if cell_len(parts[place]) <= _LEAST:
            return key
        parts[place] = cut(parts[place])
    return "".join(parts)


def _before(part: str) -> str:
    """Take a character from the end of a part."""
    return part.removesuffix(CUT)[:-1] + CUT


def _after(part: str) -> str:
    """Take a character from the beginning of a part."""
    return CUT + part.removeprefix(CUT)[1:]
