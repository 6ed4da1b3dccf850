"""A/A draws: arm labels swapped at random by conversation, so that no arm is better, judged by a policy.

Whatever fails here is a false alarm. Scores are swapped, and no file is read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.compare.paired import Pairs
from lab.gate.compared import Evidence, judge_compared
from lab.gate.line import GRAVITY, SKIPPED
from lab.gate.policy import Policy
from lab.gate.selftest.trial import Clean, decisive, paired


class Swapped(NamedTuple):
    """Two arms whose labels are swapped."""

    replay: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Draws:
    """How draws were judged: by pair of arms, how many of each status, and the rules that failed."""

    draws: int
    statuses: Mapping[Swapped, Mapping[str, int]]
    rules: Mapping[str, int]

    @property
    def failed(self) -> int:
        """Draws that failed, of all pairs."""
        return sum(found.get("fail", 0) + found.get("error", 0) for found in self.statuses.values())

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "draws": self.draws,
            "failed": self.failed,
            "pairs": [{**pair._asdict(), **found} for pair, found in self.statuses.items()],
            "rules": dict(self.rules),
        }


def sample_labels(clean: Mapping[str, Clean], pairs: Sequence[Swapped], policy: Policy, draws: int, seed: int) -> Draws:
    """Judge ``draws`` swaps of each pair by the guards of a policy; a fair coin a conversation, seeded."""
    import numpy as np

    asked = decisive(policy, ("guard",))
    statuses: dict[Swapped, Mapping[str, int]] = {}
    rules = Counter[str]()
    for number, pair in enumerate(pairs):
        one, other = (clean[pair.replay].values[arm] for arm in (pair.first, pair.second))
        known = paired(one, other, {rule.measure for rule in asked})
        conversations = sorted({name for found in known.values() for name in found.conversation})
        coins = np.random.default_rng([seed, number]).integers(0, 2, (draws, len(conversations)), dtype=bool)
        counted = Counter[str]()
        for row in coins.tolist():
            swapped = {name for name, coin in zip(conversations, row, strict=True) if coin}
            pairs_of = {measure: _swap(found, swapped) for measure, found in known.items()}
            lines = list(judge_compared(policy, asked, Evidence({}, pairs_of, {})))
            decided = [line for line in lines if line.critical and line.status != SKIPPED]
            counted[min((line.status for line in decided), key=GRAVITY.index)] += 1
            rules.update(f"{line.kind} {line.measure}" for line in decided if line.status == "fail")
        statuses[pair] = dict(sorted(counted.items()))
    return Draws(draws, statuses, dict(rules))


def _swap(pairs: Pairs, conversations: set[str]) -> Pairs:
    """The pairs with both sides changed over in some conversations."""
    rows = [
        (after, before) if name in conversations else (before, after)
        for name, before, after in zip(pairs.conversation, pairs.baseline, pairs.candidate, strict=True)
    ]
    return pairs._replace(baseline=[one for one, _ in rows], candidate=[other for _, other in rows])
