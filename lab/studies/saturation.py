"""Recall as the share of must_remember memories increases: the failure of E-14 that the quotas of E-15 answer.

The samples of labels come from :mod:`lab.studies.draws`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lab.replay.command import require_gold
from lab.replay.plan import make_plan
from lab.runs.request import ReplayRequest
from lab.studies.draws import Draw, saturating
from lab.studies.points import UNTIERED, SaturationPoint
from lab.studies.relabelled import Assignment, Tally, relabelled, total
from lab.systems.registry import policies


def saturation(
    request: ReplayRequest,
    *,
    seeds: int = 3,
    jobs: int = 1,
    announce: Callable[[str], None] = lambda _: None,
) -> list[SaturationPoint]:
    """Score every policy at every share, mode and seed, with hybrid and oracle for reference.

    The arms and labels of the request are replaced. Shares that a mode cannot reach are left out: in ``distractors``
    relevant memories never become must. Raises :class:`UnusableInput` without a golden set.
    """
    asked = replace(request, arms=(*policies(), *UNTIERED), labels="sampled")
    plan = make_plan(asked)
    require_gold(plan)
    draws = tuple(Assignment(draw, draw.labels(plan.labels)) for draw in saturating(plan, seeds))
    return [_point(*key, parts) for key, parts in relabelled(plan, draws, jobs, announce).items()]


def _point(draw: Draw | None, arm: str, parts: Sequence[Tally]) -> SaturationPoint:
    mode, share, seed = draw or ("reference", None, None)
    tally = total(parts)
    return SaturationPoint(
        mode,
        share,
        seed,
        arm,
        tally.must / len(parts) if share is not None else None,
        tally.hits / tally.probes if tally.probes else 0.0,
        tally.nice_hits / tally.nice_probes if tally.nice_probes else None,
        tally.repeat / tally.turns if tally.turns else None,
    )
