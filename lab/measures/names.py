"""Parse measure names (``NAME@k``, ``NAME(rel=2)@k``), and suggest known names for unknown ones."""

from __future__ import annotations

import difflib
import re
import sys
from typing import NamedTuple

from lab.base.errors import UnusableInput
from lab.measures.catalogue import BY_NAME, RANKED, canonical
from lab.measures.model import RankMeasure

NAME = re.compile(r"([A-Za-z]+)(?:\(rel=([1-9][0-9]*)\))?(?:@([1-9][0-9]*))?")


class ParsedMeasure(NamedTuple):
    """A rank measure, the lowest grade that counts as relevant, and its cutoff."""

    measure: RankMeasure
    level: int
    k: int


def parse(name: str) -> ParsedMeasure:
    """Parse the name of a rank measure, such as ``nDCG@10``; without a cutoff, ``k`` exceeds every ranking.

    Raises :class:`UnusableInput` for any other name.
    """
    uncut = [known for known, measure in RANKED.items() if not measure.needs_cutoff]
    graded = [known for known, measure in RANKED.items() if measure.graded]
    matched = NAME.fullmatch(name)
    if matched:
        stem, level, cutoff = matched.groups()
        if stem in (RANKED if cutoff else uncut) and (not level or stem in graded):
            return ParsedMeasure(RANKED[stem], int(level or 1), int(cutoff or sys.maxsize))
    raise UnusableInput(
        f"unknown measure {name!r}; known with a cutoff, as in P@10: {', '.join(RANKED)}; without: {', '.join(uncut)}; "
        f"with a level, as in P(rel=2)@10: {', '.join(graded)}"
    )


def is_ranked(name: str) -> bool:
    """Return whether a name is a rank measure with a cutoff."""
    try:
        return "@" in name and parse(name) is not None
    except UnusableInput:
        return False


def is_measure(name: str) -> bool:
    """Return whether a name is a measure of runs, with a cutoff if and only if it takes one."""
    stem, at, cutoff = name.partition("@")
    entry = BY_NAME.get(stem)
    if entry is not None:
        return entry.cut == bool(at) and (not at or _is_cutoff(cutoff))
    return is_ranked(name)


def require_measure(name: str, where: str) -> None:
    """Raise :class:`UnusableInput`, with similar names, for a name that is not a measure of runs."""
    if not is_measure(name):
        similar = " or ".join(map(repr, _similar(name)))
        hint = f"did you mean {similar}?" if similar else "see lab score --list"
        raise UnusableInput(f"{where}: unknown measure {name!r}; {hint}")


def _is_cutoff(text: str) -> bool:
    return text.isascii() and text.isdigit() and not text.startswith("0")


def _similar(name: str) -> list[str]:
    stem, _, cutoff = canonical(name).partition("@")
    by_lower = {known.lower(): known for known in BY_NAME}
    matches = difflib.get_close_matches(stem.partition("(rel=")[0].lower(), by_lower, 3, 0.6)
    k = cutoff if _is_cutoff(cutoff) else "6"
    return [f"{by_lower[match]}@{k}" if BY_NAME[by_lower[match]].cut else by_lower[match] for match in matches]
