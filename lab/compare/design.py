"""The minimum detectable effect of a golden set, computed from its probes and conversations before any replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.compare.power import design_error, detectable
from lab.compare.statistics import LEAST_CLUSTERS
from lab.golden.model import GoldenSet

# Assumptions, because no two policies have been measured yet: the intra-cluster correlation of the probes of one
# conversation, and the shares of probes whose hit changes for which the effect is computed.
INTRA_CLUSTER_CORRELATION = 0.05
CHANGED_SHARES = (0.1, 0.25, 0.4)


@dataclass(frozen=True, slots=True)
class Power:
    """The statistical power of a golden set's design.

    ``probes`` counts the probes with relevant memories. ``detectable`` maps a share of probes whose hit changes to the
    minimum detectable effect: the true difference in hit rate that a two-sided test at 5 % detects with 80 % power. It
    is empty below six conversations, where no test can reach 5 %. ``design_effect`` is the factor by which correlation
    within conversations inflates the variance.
    """

    probes: int
    conversations: int
    design_effect: float | None
    detectable: dict[float, float]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON; shares become keys in percent."""
        by_percent = {f"{share:.0%}": effect for share, effect in self.detectable.items()}
        return asdict(self) | {"alike": INTRA_CLUSTER_CORRELATION, "detectable": by_percent}


def power(golden: GoldenSet) -> Power:
    """Return the power of a golden set's design; see :func:`power_of`."""
    return power_of(Counter(probe.conversation for probe in golden.probes if probe.relevant))


def power_of(sizes: Mapping[str, int]) -> Power:
    """Return the power of a design with so many probes with relevant memories in each conversation.

    For ``n`` probes in ``C`` conversations of sizes ``m``, with differences of -1, 0 or 1 per probe and a share ``d``
    of them not 0, the standard error is ``sqrt(d deff / n)`` with Kish's design effect
    ``deff = 1 + (sum m² / n - 1) INTRA_CLUSTER_CORRELATION``; :mod:`lab.compare.power` has the rest.
    """
    n, conversations = sum(sizes.values()), len(sizes)
    if conversations < LEAST_CLUSTERS:
        return Power(n, conversations, None, {})
    effect = 1 + (sum(size * size for size in sizes.values()) / n - 1) * INTRA_CLUSTER_CORRELATION
    effects = {share: detectable(design_error(share, effect, n), conversations) for share in CHANGED_SHARES}
    return Power(n, conversations, effect, effects)
