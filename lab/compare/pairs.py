"""The values of a measure in two arms, paired by probe or turn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from lab.measures.catalogue import entry_of
from lab.runs.scores import Scores, Values


class Pairs(NamedTuple):
    """The probes or turns at which a measure compares two arms, with their conversation and both values.

    The lists have equal lengths; ``at`` holds the key of each probe or turn. If a value is missing in one arm only, the
    measure's entry in the catalogue may provide a substitute: ``filled_baseline`` and ``filled_candidate`` count the
    substitutes in each arm. ``left_out`` counts the probes or turns without a substitute, which are not in the lists.
    """

    measure: str
    at: list[str]
    conversation: list[str]
    baseline: list[float]
    candidate: list[float]
    filled_baseline: int = 0
    filled_candidate: int = 0
    left_out: int = 0

    def at_rows(self, rows: Sequence[int]) -> Pairs:
        """Return the pairs at some rows of the lists, without the counts, which are those of all pairs."""
        return Pairs(
            self.measure,
            [self.at[row] for row in rows],
            [self.conversation[row] for row in rows],
            [self.baseline[row] for row in rows],
            [self.candidate[row] for row in rows],
        )


NO_VALUES = Values([], [], [])


def pairs_by_measure(
    base: Scores, base_arm: str, cand: Scores, cand_arm: str, equal: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Pairs], dict[str, str]]:
    """Return the pairs of each measure that has values in both arms, and the side without values for the others.

    Measures are in the baseline's order; a side is ``baseline`` or ``candidate``. ``equal`` maps the name of each
    duplicated conversation to the name of its cluster.
    """
    befores, afters = base.all_of_arm(base_arm), cand.all_of_arm(cand_arm)
    paired, lacking = [], {}
    for measure in {**befores, **afters}:
        before, after = befores.get(measure, NO_VALUES), afters.get(measure, NO_VALUES)
        sides_of = {"baseline": before, "candidate": after}
        sides = [side for side, values in sides_of.items() if all(map(math.isnan, values.value))]
        if len(sides) == 1:
            lacking[measure] = sides[0]
        elif not sides and (pairs := pairs_of(measure, before, after)).at:
            paired.append(pairs._replace(conversation=[equal.get(name, name) for name in pairs.conversation]))
    return paired, lacking


def pairs_of(measure: str, before: Values, after: Values) -> Pairs:
    """Pair the values of ``before`` with those of ``after`` at the same probe or turn.

    A value missing on one side only is replaced by the catalogue's value for missing ones; if it has none, the pair is
    left out.
    """
    entry = entry_of(measure)
    missing = entry.missing if entry else None
    after_values = dict(zip(after.at, after.value, strict=True))
    pairs = Pairs(measure, [], [], [], [])
    filled_baseline = filled_candidate = left_out = 0
    for at, conversation, old in zip(*before, strict=True):
        new = after_values.get(at, math.nan)
        # NaN does not equal itself.
        if old != old or new != new:
            if old != old and new != new:
                continue
            if missing is None:
                left_out += 1
                continue
            filled_baseline += old != old
            filled_candidate += new != new
            old, new = (missing if value != value else value for value in (old, new))
        pairs.at.append(at)
        pairs.conversation.append(conversation)
        pairs.baseline.append(old)
        pairs.candidate.append(new)
    return pairs._replace(filled_baseline=filled_baseline, filled_candidate=filled_candidate, left_out=left_out)


def by_conversation(pairs: Pairs) -> dict[str, list[float]]:
    """Return the differences (candidate minus baseline) of all probes or turns, by conversation."""
    groups: dict[str, list[float]] = {}
    for conversation, before, after in zip(pairs.conversation, pairs.baseline, pairs.candidate, strict=True):
        groups.setdefault(conversation, []).append(after - before)
    return groups
