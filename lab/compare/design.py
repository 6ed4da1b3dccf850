"""What a golden set could detect, before anything is replayed: its probes and conversations put into a formula."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from lab.compare.statistics import t_quantile
from lab.golden.model import GoldenSet

# Assumed of any two policies where none has been measured: how alike the probes of one conversation are, and for which
# shares of probes whose hit changes the answer is given.
ALIKE = 0.05
CHANGED = (0.1, 0.25, 0.4)


@dataclass(frozen=True, slots=True)
class Power:
    """The probes with gold that a set has, and by share of probes that change the smallest difference it would find.

    ``detectable`` is the true difference of a hit rate that a two-sided test at 5 % finds four times in five; empty
    where there is one conversation or none. ``design_effect`` is what the probes of one conversation being alike costs.
    """

    probes: int
    conversations: int
    design_effect: float | None
    detectable: dict[float, float]

    def as_json(self) -> dict[str, Any]:
        """Plain values; shares are keys in percent."""
        found = {f"{share:.0%}": value for share, value in self.detectable.items()}
        return asdict(self) | {"alike": ALIKE, "detectable": found}


def power(golden: GoldenSet) -> Power:
    """The power of a set's design.

    Over ``n`` probes in ``C`` conversations of sizes ``m``, each probe's difference -1, 0 or 1 and a share ``d`` of
    them not 0: ``(t(.975) + t(.8)) sqrt(d deff / n)``, t with C - 1 degrees of freedom, and the design effect of Kish
    ``deff = 1 + (sum m² / n - 1) ALIKE``.
    """
    sizes = Counter(probe.conversation for probe in golden.probes if probe.relevant)
    n, conversations = sizes.total(), len(sizes)
    if conversations < 2:
        return Power(n, conversations, None, {})
    effect = 1 + (sum(size * size for size in sizes.values()) / n - 1) * ALIKE
    reach = t_quantile(0.975, conversations - 1) + t_quantile(0.8, conversations - 1)
    return Power(n, conversations, effect, {share: reach * math.sqrt(share * effect / n) for share in CHANGED})
