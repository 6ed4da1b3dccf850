"""The list of measures: one for each file in :mod:`lab.measures.definitions`, with no other registration.

Listing them loads no numpy.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from typing import TypeVar, get_args

from lab.measures import definitions
from lab.measures.model import NET, SHARE, YES, Direction, Measure, RankMeasure, TurnMeasure, Unit, name_over_probes

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
    return BY_NAME.get(stem) or BY_NAME.get(stem.partition("(rel=")[0])


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
    return {SHARE: 1.0, YES: 1.0, NET: 2.0}.get(entry.range) if entry else None


def is_better(measure: str, low: float, high: float) -> bool | None:
    """Return whether a change with the interval ``low`` to ``high`` is an improvement; None if undecided."""
    better = direction(measure)
    if low <= 0 <= high or better == "neither":
        return None
    return (high < 0) == (better == "lower")
