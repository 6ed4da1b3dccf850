"""Draws of labels: the requested ones, or every must_remember share, increased in two ways.

* ``distractors``: relevant memories stay nice or unknown, and only irrelevant ones become must_remember.
* ``independent``: labels are independent of relevance. At a share of 1 every memory is must_remember, and tier_first_v1
  recovers.
"""

from __future__ import annotations

from typing import NamedTuple

from lab.replay.labels import NICE_OF_REST, Labels
from lab.replay.plan import Plan
from lab.studies.points import MODES

SHARES = (0.01, 0.03, 0.06, 0.10, 0.20, 0.30, 0.45, 0.60, 0.80, 0.90, 1.0)


class Draw(NamedTuple):
    """A way to increase the must_remember share, the share (None: labels as requested), and a seed."""

    mode: str = "as asked"
    share: float | None = None
    seed: int = 0

    def labels(self, asked: Labels) -> Labels:
        """Return how the labels of this draw are made."""
        if self.share is None:
            return asked
        mode = "distractors" if self.mode == "distractors" else "sampled"
        return Labels(mode, self.share, NICE_OF_REST * (1 - self.share), self.seed)


def saturating(plan: Plan, seeds: int) -> tuple[Draw, ...]:
    """Return every share in both modes, with ``seeds`` draws of each.

    Shares that a mode cannot reach are left out: relevant memories never become must_remember under ``distractors``.
    """
    probes = [probe for recording in plan.recordings for probe in plan.probes(recording)]
    relevant = {judgement.memory for probe in probes for judgement in probe.relevant}
    total = sum(len(recording.memories) for recording in plan.recordings)
    highest = {"distractors": 1 - len(relevant) / total, "independent": 1.0}
    return tuple(
        Draw(mode, share, seed) for mode in MODES for share in SHARES if share <= highest[mode] for seed in range(seeds)
    )
