"""The list of measures: every file in :mod:`lab.measures.definitions` is one, and nothing else names them.

Listing them loads no numpy.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from typing import TypeVar, get_args

from lab.measures import definitions
from lab.measures.model import Direction, Measure, RankMeasure, TurnMeasure, Unit, name_over_probes

Kind = TypeVar("Kind", bound=Measure)


def listed() -> tuple[Measure, ...]:
    """Return the measure of every file, by unit, order and name.

    Raises :class:`TypeError` for a file without a ``MEASURE``, and for two that share a name or an alias.
    """
    measures = []
    for file in pkgutil.iter_modules(definitions.__path__, f"{definitions.__name__}."):
        measure = getattr(import_module(file.name), "MEASURE", None)
        if not isinstance(measure, Measure):
            raise TypeError(f"{file.name}: a file of this package defines MEASURE, an object of lab.measures.model")
        measures.append(measure)
    units = get_args(Unit)
    measures.sort(key=lambda one: (units.index(one.unit), one.order, one.name))
    names: set[str] = set()
    for one in measures:
        own = {one.name.lower(), *one.aliases}
        if own & names:
            raise TypeError(f"two measures are called {min(own & names)!r}")
        names |= own
    return tuple(measures)


def of_kind(kind: type[Kind]) -> tuple[Kind, ...]:
    """Return the measures of a kind, in order."""
    return tuple(one for one in MEASURES if isinstance(one, kind))


def _with_variants(measures: Iterable[Measure]) -> Iterable[Measure]:
    for one in measures:
        yield one
        if isinstance(one, TurnMeasure) and one.over_probes is not None:
            yield replace(one, name=name_over_probes(one.name), definition=one.over_probes, aliases=())


MEASURES = listed()
# With NAME(probes), which has a name of its own and no file.
CATALOGUE = tuple(_with_variants(MEASURES))
BY_NAME = {one.name: one for one in CATALOGUE}
RANKED = {one.name: one for one in of_kind(RankMeasure)}
ALIASES = {alias: one.name for one in MEASURES for alias in one.aliases}


def entry_of(measure: str) -> Measure | None:
    """Return what is said of a measure, by its name with or without a cutoff and a level; None if there is none."""
    stem = measure.partition("@")[0]
    return BY_NAME.get(stem) or BY_NAME.get(stem.partition("(rel=")[0])


def canonical(name: str) -> str:
    """Return the name of a measure that may be called by an alias: ``hit@5`` is Success@5, ``MRR`` is RR."""
    stem, at, k = name.partition("@")
    return f"{ALIASES.get(stem.lower(), stem)}{at}{k}"


def direction(measure: str) -> Direction:
    """Return which way a measure is better, by its name with or without a cutoff; an unknown one is neither."""
    entry = entry_of(measure)
    return entry.better if entry else "neither"


def is_better(measure: str, low: float, high: float) -> bool | None:
    """Return whether a change whose interval is ``low`` to ``high`` is an improvement; None if that is open."""
    better = direction(measure)
    if low <= 0 <= high or better == "neither":
        return None
    return (high < 0) == (better == "lower")
