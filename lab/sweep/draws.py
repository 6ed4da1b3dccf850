"""Draws of labels: the ones that were asked for, or every size of the must pool, grown in two ways.

* ``distractors``: gold memories stay nice or unknown and the pool grows from the others. Nothing in the pool is ever
  wanted.
* ``independent``: labels ignore relevance, so the pool holds its share of what is wanted. At the right edge all is
  must, and tier_first_v1 recovers.
"""

from __future__ import annotations

from typing import NamedTuple

from lab.replay.labels import NICE_OF_REST, Labels
from lab.replay.plan import Plan

MODES = ("distractors", "independent")
SHARES = (0.01, 0.03, 0.06, 0.10, 0.20, 0.30, 0.45, 0.60, 0.80, 0.90, 1.0)


class Draw(NamedTuple):
    """A way of growing the must pool, its share of all memories (None: labels are as asked), and a seed."""

    mode: str = "as asked"
    share: float | None = None
    seed: int = 0

    def labels(self, asked: Labels) -> Labels:
        """How the labels of this draw are made."""
        if self.share is None:
            return asked
        mode = "distractors" if self.mode == "distractors" else "sampled"
        return Labels(mode, self.share, NICE_OF_REST * (1 - self.share), self.seed)


def saturating(plan: Plan, seeds: int) -> tuple[Draw, ...]:
    """Every share in both modes, ``seeds`` draws of each.

    Shares that a mode cannot reach are left out: gold memories never become must among ``distractors``.
    """
    probes = [probe for recording in plan.recordings for probe in plan.probes(recording)]
    wanted = {judgement.memory for probe in probes for judgement in probe.relevant}
    total = sum(len(recording.memories) for recording in plan.recordings)
    reach = {"distractors": 1 - len(wanted) / total, "independent": 1.0}
    return tuple(
        Draw(mode, share, seed) for mode in MODES for share in SHARES if share <= reach[mode] for seed in range(seeds)
    )
