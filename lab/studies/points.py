"""The points of studies: what each one measures, as records that are written to Parquet, read by a page and drawn.

A study makes points (:mod:`lab.studies`), :func:`lab.runs.tables.write_points` writes them, and
:mod:`lab.report.study` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

# The files of points that a run may hold, beside those of ``lab missed``.
SATURATION, SCALE, SILENCE = "saturation.parquet", "scale.parquet", "silence.parquet"
# How the must_remember share is increased (:mod:`lab.studies.draws`).
MODES = ("distractors", "independent")
# The policies whose grading is studied, and arms without tiers for reference.
POLICIES, REFERENCES = ("tier_first_v1", "tier_quota_v1"), ("hybrid", "random")
# tier_first_v1 counts as saturated if this share of its recalls injects must_remember memories alone.
SATURATED = 0.9
# Arms for reference as the must_remember share increases.
UNTIERED = ("hybrid", "oracle")


class SaturationPoint(NamedTuple):
    """The scores of one arm under one sample of labels, over all conversations.

    ``must`` is the mean number of must memories at the end of a conversation. References (``share`` None) have none.
    """

    mode: str
    share: float | None
    seed: int | None
    arm: str
    must: float | None
    hit: float
    gold_nice: float | None
    repeat: float | None


def means(points: Sequence[SaturationPoint]) -> dict[tuple[str, str], list[float | None]]:
    """Return the means over seeds of must memories, hits, GoldNice and repeats, by ``(mode and share, arm)``."""
    groups: dict[tuple[str, str], list[SaturationPoint]] = {}
    for point in points:
        name = point.mode if point.share is None else f"{point.mode} {point.share:.2f}"
        groups.setdefault((name, point.arm), []).append(point)
    return {
        key: [_mean(values) for values in zip(*(one[4:] for one in some), strict=True)] for key, some in groups.items()
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


class GovernancePoint(NamedTuple):
    """The scores of one arm under one threshold, over all conversations.

    ``must``, ``nice``, ``ignored`` and ``unknown`` are shares of all memories. ``full`` is the share of recalls that
    inject must_remember memories alone. ``conversations`` is their number. References have a ``must_from`` of None,
    because they ignore labels.
    """

    grader: str
    must_from: float | None
    arm: str
    must: float | None
    nice: float | None
    ignored: float | None
    unknown: float | None
    hit: float
    repeat: float | None
    full: float | None
    conversations: int


def saturated(points: Sequence[GovernancePoint], grader: str) -> GovernancePoint | None:
    """Return the highest threshold at which tier_first_v1 is saturated, if there is any."""
    return next(
        (
            point
            for point in points
            if (point.grader, point.arm) == (grader, POLICIES[0]) and (point.full or 0.0) >= SATURATED
        ),
        None,
    )


def grading_finding(points: Sequence[GovernancePoint], grader: str) -> str:
    """Return in one sentence where grading alone saturates recall, and what the quotas change there."""
    point = saturated(points, grader)
    if point is None:
        return f"No threshold of {grader} saturates tier_first_v1"
    other = next(
        one for one in points if (one.grader, one.must_from, one.arm) == (grader, point.must_from, POLICIES[1])
    )
    return (
        f"Graded by {grader}, tier_first_v1 is saturated from a threshold of {point.must_from:g} on "
        f"({point.must:.0%} must_remember, {point.ignored:.0%} ignored): it hits on {point.hit:.0%} of the probes, "
        f"tier_quota_v1 on {other.hit:.0%}"
    )


def distinct(points: Sequence[GovernancePoint], grader: str) -> list[GovernancePoint]:
    """Return the points of a grader, without thresholds that label as the threshold before does, then references."""
    shown: list[GovernancePoint] = []
    for point in points:
        same = [one for one in shown if (one.grader, one.arm) == (grader, point.arm)][-1:]
        if point.grader == grader and not (same and same[0][3:] == point[3:]):
            shown.append(point)
    return [*shown, *(point for point in points if not point.grader)]


class ScalePoint(NamedTuple):
    """The means of one arm with a haystack of ``memories``, and the quantiles of its turns in milliseconds.

    ``in_reach`` is the mean number of memories that a probe can recall. A value is None if no probe or turn has one.
    """

    memories: int
    arm: str
    in_reach: float | None
    hit: float | None
    clean_hit: float | None
    repeat: float | None
    p50: float | None
    p95: float | None


class SilencePoint(NamedTuple):
    """One threshold: hit rate over probes with gold, and false recall over those without, in a part of the probes."""

    embedder: str
    language: str
    arm: str
    signal: str
    threshold: float
    hit: float
    false_recall: float


class Chosen(NamedTuple):
    """A threshold that was chosen on one half of the conversations, and its effect on the other half.

    ``rule`` is ``cost`` or ``loss``. The values before and after the arrow are without and with the threshold.
    """

    embedder: str
    language: str
    arm: str
    signal: str
    rule: str
    auroc: float
    with_gold: int
    without_gold: int
    threshold: float
    hit: tuple[float, float]
    false_recall: tuple[float, float]


class Configuration(NamedTuple):
    """One configuration.

    ``measures`` are means over all probes or turns and over the draws of labels. ``lowest`` and ``highest`` are its hit
    rates in its worst and best conversation. ``behind`` is its hit rate minus that of the untiered hybrid, in the draw
    where this is lowest; ``repeats`` its highest repeat rate over the draws, None if it has none.
    """

    number: int
    knobs: dict[str, Any]
    measures: dict[str, float | None]
    lowest: float
    highest: float
    behind: float
    repeats: float | None
    on_front: bool
