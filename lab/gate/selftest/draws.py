"""A/A draws: arms swapped at random by conversation, so that neither is better, and judged by a policy.

Any failure here is a false alarm. Only scores are swapped; no file is read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.compare.paired import Pairs
from lab.gate.evidence import Evidence
from lab.gate.line import GRAVITY, SKIPPED
from lab.gate.measures import judge_compared
from lab.gate.policy import Policy
from lab.gate.selftest.trial import Clean, decisive, paired


class Swapped(NamedTuple):
    """The two arms that are swapped."""

    replay: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Draws:
    """The results of the draws: the count of each status by pair of arms, and the rules that failed."""

    draws: int
    statuses: Mapping[Swapped, Mapping[str, int]]
    rules: Mapping[str, int]

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
        }


def sample_labels(clean: Mapping[str, Clean], pairs: Sequence[Swapped], policy: Policy, draws: int, seed: int) -> Draws:
    """Judge ``draws`` swaps of each pair by the guards of a policy; a seeded fair coin decides each conversation."""
    import numpy as np

    rules_judged = decisive(policy, ("guard",))
    statuses: dict[Swapped, Mapping[str, int]] = {}
    rules = Counter[str]()
    for number, pair in enumerate(pairs):
        first, second = (clean[pair.replay].values[arm] for arm in (pair.first, pair.second))
        by_measure = paired(first, second, {rule.measure for rule in rules_judged})
        conversations = sorted({name for pairs_ in by_measure.values() for name in pairs_.conversation})
        coins = np.random.default_rng([seed, number]).integers(0, 2, (draws, len(conversations)), dtype=bool)
        counted = Counter[str]()
        for row in coins.tolist():
            swapped = {name for name, coin in zip(conversations, row, strict=True) if coin}
            pairs_of = {measure: _swap(pairs_, swapped) for measure, pairs_ in by_measure.items()}
            lines = list(judge_compared(policy, rules_judged, Evidence({}, pairs_of, {})))
            decided = [line for line in lines if line.critical and line.status != SKIPPED]
            counted[min((line.status for line in decided), key=GRAVITY.index)] += 1
            rules.update(f"{line.kind} {line.measure}" for line in decided if line.status == "fail")
        statuses[pair] = dict(sorted(counted.items()))
    return Draws(draws, statuses, dict(rules))


def _swap(pairs: Pairs, conversations: set[str]) -> Pairs:
    """Return the pairs with the arms swapped in some conversations."""
    rows = [
        (after, before) if name in conversations else (before, after)
        for name, before, after in zip(pairs.conversation, pairs.baseline, pairs.candidate, strict=True)
    ]
    return pairs._replace(baseline=[before for before, _ in rows], candidate=[after for _, after in rows])
