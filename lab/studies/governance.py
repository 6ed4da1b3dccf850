"""Grading thresholds and the recall that follows from them: where grading alone saturates recall.

A grader gives each memory a score of importance; two thresholds turn scores into labels (seed 001, E-2). As the
threshold of must_remember falls, more memories get that label, and tier_first_v1 fills its slots with nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from lab.base.errors import UnusableInput
from lab.recordings.model import Memory, Recording
from lab.replay.command import require_gold
from lab.replay.plan import make_plan
from lab.runs.request import ReplayRequest
from lab.studies.points import POLICIES, REFERENCES, GovernancePoint
from lab.studies.relabelled import Assignment, Tally, relabelled, total
from lab.systems.openclaw.capture.candidates import IMPORTANCE
from lab.systems.openclaw.memory import MUST_FROM, NICE_FROM, label_of_score
from lab.systems.sidecar import grade_observation

STEPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3)


@lru_cache(maxsize=1 << 16)
def _heuristic(text: str) -> float:
    return grade_observation({"summary": text}).score


# The score of a memory; None if the grader has none, which makes it unknown.
GRADERS: dict[str, Callable[[Memory], float | None]] = {
    "heuristic-v1": lambda memory: _heuristic(memory.text),
    "category": lambda memory: IMPORTANCE.get(memory.category),
}


@dataclass(frozen=True, slots=True)
class Grading:
    """Labels from the scores of a grader: must_remember from ``must_from``, nice_to_have from ``nice_from``."""

    grader: str
    must_from: float = MUST_FROM
    nice_from: float = NICE_FROM

    def of(self, recording: Recording, _: Iterable[str], /) -> dict[str, str]:
        """Return labels by memory key; relevance plays no part."""
        score = GRADERS[self.grader]
        return {memory.key: self.label(score(memory)) for memory in recording.memories}

    def label(self, score: float | None) -> str:
        """Return the label of a score; below both thresholds it is ``ignore``, which automatic recall never reads."""
        return label_of_score(score, self.must_from, self.nice_from)


def governance(
    request: ReplayRequest,
    *,
    graders: Sequence[str] = ("heuristic-v1",),
    thresholds: Sequence[float] = STEPS,
    nice_from: float = NICE_FROM,
    jobs: int = 1,
    announce: Callable[[str], None] = lambda _: None,
) -> list[GovernancePoint]:
    """Score both policies at every threshold of every grader, and arms that ignore labels once.

    Raises :class:`UnusableInput` for an unknown grader, and without a golden set.
    """
    for name in graders:
        if name not in GRADERS:
            raise UnusableInput(f"--grader {name!r} is unknown; known: {', '.join(GRADERS)}")
    for threshold in (*thresholds, nice_from):
        if not 0 <= threshold <= 1:
            raise UnusableInput(f"threshold {threshold} is not from 0 to 1")
    plan = make_plan(replace(request, arms=(*POLICIES, *REFERENCES)))
    require_gold(plan)
    gradings = tuple(
        Assignment(grading, grading)
        for name in graders
        for threshold in sorted(set(thresholds), reverse=True)
        for grading in (Grading(name, threshold, min(nice_from, threshold)),)
    )
    return [_point(*key, parts) for key, parts in relabelled(plan, gradings, jobs, announce).items()]


def _point(grading: Grading | None, arm: str, parts: Sequence[Tally]) -> GovernancePoint:
    tally, graded = total(parts), grading is not None

    def share(count: int) -> float | None:
        return count / tally.memories if graded and tally.memories else None

    return GovernancePoint(
        grading.grader if grading else "",
        grading.must_from if grading else None,
        arm,
        share(tally.must),
        share(tally.nice),
        share(tally.ignored),
        share(tally.memories - tally.must - tally.nice - tally.ignored),
        tally.hits / tally.probes if tally.probes else 0.0,
        tally.repeat / tally.turns if tally.turns else None,
        tally.full / tally.recalls if graded and tally.recalls else None,
        len(parts),
    )
