"""The list of measures, and their names: one measure for each file in :mod:`lab.measures.definitions`.

Listing them loads no numpy.

A name is ``NAME@k`` or ``NAME(rel=2)@k``; known names are suggested for an unknown one.
"""

from __future__ import annotations

import difflib
import pkgutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple, TypeVar, get_args

from lab.base.errors import UnusableInput
from lab.base.regex import regex
from lab.measures import definitions
from lab.measures.model import (
    NET,
    SHARE,
    SIGNED,
    YES,
    Direction,
    Measure,
    RankMeasure,
    TurnMeasure,
    Unit,
    name_over_probes,
)

Kind = TypeVar("Kind", bound=Measure)


def listed() -> tuple[Measure, ...]:
    """Return the measures of all files, sorted by unit, order and name.

    Raises :class:`TypeError` for a file without ``MEASURE``, and for two measures that share a name or an alias.
    """
    measures = []
    for file in pkgutil.iter_modules(definitions.__path__, f"{definitions.__name__}."):
        measure = getattr(import_module(file.name), "MEASURE", None)
        if not isinstance(measure, Measure):
            raise TypeError(f"{file.name}: a file of this package defines MEASURE, an object of lab.measures.model")
        measures.append(measure)
    units = get_args(Unit)
    measures.sort(key=lambda measure: (units.index(measure.unit), measure.order, measure.name))
    names: set[str] = set()
    for measure in measures:
        own_names = {measure.name.lower(), *measure.aliases}
        if own_names & names:
            raise TypeError(f"two measures are called {min(own_names & names)!r}")
        names |= own_names
    return tuple(measures)


def of_kind(kind: type[Kind]) -> tuple[Kind, ...]:
    """Return the measures of a kind, in order."""
    return tuple(measure for measure in MEASURES if isinstance(measure, kind))


def _with_variants(measures: Iterable[Measure]) -> Iterable[Measure]:
    for measure in measures:
        yield measure
        if isinstance(measure, TurnMeasure) and measure.over_probes is not None:
            yield replace(measure, name=name_over_probes(measure.name), definition=measure.over_probes, aliases=())


MEASURES = listed()
# With NAME(probes), variants without a file.
CATALOGUE = tuple(_with_variants(MEASURES))
BY_NAME = {measure.name: measure for measure in CATALOGUE}
RANKED = {measure.name: measure for measure in of_kind(RankMeasure)}
ALIASES = {alias: measure.name for measure in MEASURES for alias in measure.aliases}


def entry_of(measure: str) -> Measure | None:
    """Return a measure by its name, with or without a cutoff and a level; None if it is unknown."""
    stem = measure.partition("@")[0]
    return BY_NAME.get(measure) or BY_NAME.get(stem) or BY_NAME.get(stem.partition("(rel=")[0])


def in_words(measure: str, candidate: float | None, baseline: float | None) -> str | None:
    """Return the means of two arms as a clause; None if the measure has no sentence."""
    entry = entry_of(measure)
    return entry.sentence.format(candidate=candidate, baseline=baseline) if entry and entry.sentence else None


def canonical(name: str) -> str:
    """Return the name of a measure given by name or alias: ``hit@5`` is Success@5, ``MRR`` is RR."""
    stem, at, k = name.partition("@")
    return f"{ALIASES.get(stem.lower(), stem)}{at}{k}"


def direction(measure: str) -> Direction:
    """Return which direction of a measure is better, by name; ``neither`` for an unknown one."""
    entry = entry_of(measure)
    return entry.better if entry else "neither"


def widest(measure: str) -> float | None:
    """Return the largest possible difference of two values of a measure; None if its range has no upper end."""
    entry = entry_of(measure)
    return {SHARE: 1.0, YES: 1.0, NET: 2.0, SIGNED: 2.0}.get(entry.range) if entry else None


def is_better(measure: str, low: float, high: float) -> bool | None:
    """Return whether a change with the interval ``low`` to ``high`` is an improvement; None if undecided."""
    better = direction(measure)
    if low <= 0 <= high or better == "neither":
        return None
    return (high < 0) == (better == "lower")


NAME = regex(r"([A-Za-z]+)(?:\(rel=([1-9][0-9]*)\))?(?:@([1-9][0-9]*))?")


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
    # AnswerRecall@block has its end in its name, and no cutoff.
    if name in BY_NAME and at:
        return True
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
