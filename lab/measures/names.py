"""The grammar of measure names: ``NAME@k``, ``NAME(rel=2)@k``; which names are known, and what others may mean."""

from __future__ import annotations

import difflib
import re
import sys
from typing import NamedTuple

from lab.errors import UnusableInput
from lab.measures.catalogue import BY_NAME, RANKED, canonical
from lab.measures.model import RankMeasure

NAME = re.compile(r"([A-Za-z]+)(?:\(rel=([1-9][0-9]*)\))?(?:@([1-9][0-9]*))?")


class ParsedMeasure(NamedTuple):
    """A rank measure, the grade from which on a memory is relevant to it, and its cutoff."""

    measure: RankMeasure
    level: int
    k: int


def parse(name: str) -> ParsedMeasure:
    """Return ``nDCG@10`` as a measure and its cutoff; without one, the cutoff is beyond every ranking.

    Raises :class:`UnusableInput` for a name that is no rank measure's.
    """
    whole = [known for known, one in RANKED.items() if not one.needs_cutoff]
    graded = [known for known, one in RANKED.items() if one.graded]
    matched = NAME.fullmatch(name)
    if matched:
        stem, level, cutoff = matched.groups()
        if stem in (RANKED if cutoff else whole) and (not level or stem in graded):
            return ParsedMeasure(RANKED[stem], int(level or 1), int(cutoff or sys.maxsize))
    raise UnusableInput(
        f"no measure {name!r}; known with a cutoff, as in P@10: {', '.join(RANKED)}; without: {', '.join(whole)}; "
        f"with a level, as in P(rel=2)@10: {', '.join(graded)}"
    )


def is_ranked(name: str) -> bool:
    """Return whether a name is that of a rank measure at a cutoff."""
    try:
        return "@" in name and parse(name) is not None
    except UnusableInput:
        return False


def is_measure(name: str) -> bool:
    """Return whether a run has such a measure: with a cutoff where it takes one, and a level where it may."""
    stem, at, cutoff = name.partition("@")
    entry = BY_NAME.get(stem)
    if entry is not None:
        return entry.cut == bool(at) and (not at or _is_cutoff(cutoff))
    return is_ranked(name)


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
