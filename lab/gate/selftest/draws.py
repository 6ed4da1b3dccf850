"""A/A draws: arms swapped at random by conversation, so that neither is better, and judged by a policy.

Any failure here is a false alarm. Only scores are swapped; no file is read again. The same draws give the null rate of
each rule: how often it alone, with a margin of 0, says at the 5 % level that the candidate is worse (guard, slice) or
better (improve, worth).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lab.compare.pairs import Pairs
from lab.compare.statistics import LEVEL
from lab.gate.evidence import Evidence
from lab.gate.line import FAIL, GRAVITY, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.measures import CLAIMS, judge_compared
from lab.gate.policy import DIFFERENCES, Policy, Rule
from lab.gate.selftest.trial import Clean, paired
from lab.runs.gold import read_gold


class Swapped(NamedTuple):
    """The two arms that are swapped, and the arm that stands for the policy's control, if the run has one."""

    replay: str
    first: str
    second: str
    control: str | None = None


@dataclass(frozen=True, slots=True)
class Draws:
    """The results of the draws: the count of each status by pair of arms, and the rules that failed.

    ``nulls`` counts, by rule, the draws in which the rule alone is significant at 5 %.
    """

    draws: int
    statuses: Mapping[Swapped, Mapping[str, int]]
    rules: Mapping[str, int]
    nulls: Mapping[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Return the number of failed draws over all pairs."""
        return sum(counts.get("fail", 0) + counts.get("error", 0) for counts in self.statuses.values())

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "draws": self.draws,
            "failed": self.failed,
            "pairs": [{**pair._asdict(), **counts} for pair, counts in self.statuses.items()],
            "rules": dict(self.rules),
            "nulls": dict(self.nulls),
        }


def judge_swaps(clean: Mapping[str, Clean], pairs: Sequence[Swapped], policy: Policy, draws: int, seed: int) -> Draws:
    """Judge ``draws`` swaps of each pair by the rules of a policy; a seeded fair coin decides each conversation."""
    statuses: dict[Swapped, Mapping[str, int]] = {}
    failures, nulls = Counter[str](), Counter[str]()
    single = replace(policy, level=LEVEL, fail_level=LEVEL)
    for number, pair in enumerate(pairs):
        data = _evidence(clean[pair.replay], pair, policy)
        rules = _judged(policy, data)
        alone = list(_alone(rules, data)) if pair.first != pair.second else []
        counted = Counter[str]()
        for drawn in _drawn(data, draws, [seed, number]):
            lines = judge_compared(policy, rules, drawn)
            decided = [line for line in lines if line.critical and line.status != SKIPPED]
            # A slice or a worth rule decides nothing unless it fails.
            counted[min((line.status for line in decided), key=GRAVITY.index, default=INCONCLUSIVE)] += 1
            failures.update(line.name for line in decided if line.status == FAIL)
            for rule in alone:
                nulls.update({line.name: _is_significant(line) for line in judge_compared(single, [rule], drawn)})
        statuses[pair] = dict(sorted(counted.items()))
    return Draws(draws, statuses, dict(failures), dict(nulls))


def _judged(policy: Policy, data: Evidence) -> list[Rule]:
    """Return the rules of differences that decide and have values, without exploratory slices."""
    return [
        replace(rule, slices=())
        for rule in policy.rules
        if rule.kind in DIFFERENCES and rule.critical and data.paired(rule) is not None
    ]


def _alone(rules: Sequence[Rule], data: Evidence) -> Iterator[Rule]:
    """Yield each rule with a margin of 0, and a slice rule for each of its values."""
    for rule in rules:
        values: list[tuple[str, ...]] = [()]
        if rule.kind == "slice":
            key = str(rule.of)
            known = sorted({slices[key] for slices in data.slices.values() if key in slices})
            values = [(value,) for value in rule.values or known]
        yield from (replace(rule, margin=0.0, by=0.0, values=each) for each in values)


def _is_significant(line: Line) -> bool:
    return line.status == (PASS if line.kind in CLAIMS else FAIL)


def _evidence(clean: Clean, pair: Swapped, policy: Policy) -> Evidence:
    measures = {rule.measure for rule in policy.rules if rule.kind in DIFFERENCES}
    first, second = clean.values[pair.first], clean.values[pair.second]
    against = paired(clean.values[pair.control], second, measures) if pair.control else {}
    slices = {probe: gold.slices for probe, gold in read_gold(clean.run).items()}
    return Evidence({}, paired(first, second, measures), slices, control=against)


def _drawn(data: Evidence, draws: int, seed: Sequence[int]) -> Iterator[Evidence]:
    """Yield the evidence with both arms of each comparison swapped in conversations that a coin chooses."""
    import numpy as np

    every = [*data.pairs.values(), *data.control.values()]
    conversations = sorted({name for pairs in every for name in pairs.conversation})
    coins = np.random.default_rng(seed).integers(0, 2, (draws, len(conversations)), dtype=bool)
    for row in coins.tolist():
        swapped = {name for name, coin in zip(conversations, row, strict=True) if coin}
        pairs, control = (
            {measure: _swap(pairs, swapped) for measure, pairs in side.items()} for side in (data.pairs, data.control)
        )
        yield replace(data, pairs=pairs, control=control)


def _swap(pairs: Pairs, conversations: set[str]) -> Pairs:
    """Return the pairs with the arms swapped in some conversations."""
    rows = [
        (after, before) if name in conversations else (before, after)
        for name, before, after in zip(pairs.conversation, pairs.baseline, pairs.candidate, strict=True)
    ]
    return pairs._replace(baseline=[before for before, _ in rows], candidate=[after for _, after in rows])
