"""Whether a name is one of a measure that runs are scored by, and what was probably meant where it is none."""

from __future__ import annotations

import difflib

from lab.errors import UnusableInput
from lab.measures.batch import parse
from lab.measures.catalogue import BY_NAME
from lab.measures.score import canonical


def is_measure(name: str) -> bool:
    """Whether it is of the catalogue: with a cutoff where it has one, and a level where it may have one."""
    stem, at, cutoff = name.partition("@")
    entry = BY_NAME.get(stem)
    if entry is not None:
        return entry.cut == bool(at) and (not at or _is_cutoff(cutoff))
    try:
        return bool(at) and parse(name) is not None
    except UnusableInput:
        return False


def require_measure(name: str, where: str) -> None:
    """Raise :class:`UnusableInput`, which names near ones, for what is no measure of a run."""
    if not is_measure(name):
        near = ", ".join(_near(name))
        raise UnusableInput(f"{where}: unknown measure {name!r}; {f'near: {near}; ' if near else ''}see lab measures")


def _is_cutoff(text: str) -> bool:
    return text.isascii() and text.isdigit() and not text.startswith("0")


def _near(name: str) -> list[str]:
    stem, _, cutoff = canonical(name).partition("@")
    by_lower = {known.lower(): known for known in BY_NAME}
    own, bracket, _ = stem.partition("(rel=")
    asked = own if bracket else stem
    found = difflib.get_close_matches(asked.lower(), by_lower, 3, 0.6)
    k = cutoff if _is_cutoff(cutoff) else "6"
    return [f"{by_lower[one]}@{k}" if BY_NAME[by_lower[one]].cut else by_lower[one] for one in found]
