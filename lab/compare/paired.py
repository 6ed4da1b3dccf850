"""Two arms over the same probes and turns: differences, their uncertainty, and the turns that flipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lab.compare.statistics import Estimate, clustered, holm, sign_flip
from lab.errors import NotComparable, UnusableInput
from lab.measures.score import Score, headlines, score_run
from lab.replay.run_directory import RunDirectory, open_run

LOWER_IS_BETTER = {
    "RepeatRate",
    "RepeatRate(probes)",
    "RepeatDominance",
    "Jaccard",
    "WrongScope",
    "LongestStreak",
    "InjectedChars",
    "BackboneDuplication",
}
# What two runs must share, in the order in which differences are told.
COMPARABLE = (
    *("format", "memories", "memories_from", "recordings", "golden", "conversations"),
    *("labels", "hard_rules", "categories", "scope", "recall_turns"),
)
# Conversation and value, by place and measure.
Values = dict[tuple[str, str], tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure, candidate minus baseline, over the places where both have a value."""

    measure: str
    n: int
    conversations: int
    baseline: float
    candidate: float
    estimate: Estimate
    p: float
    p_holm: float | None
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that a comparison found. ``gained`` and ``lost`` are the probes whose hit at the cutoff changed.

    ``primary`` are the measures that were declared beforehand: Holm's correction covers these and no others.
    """

    baseline: str
    candidate: str
    cutoff: int
    primary: tuple[str, ...]
    differences: tuple[Difference, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "baseline": self.baseline,
            "candidate": self.candidate,
            "cutoff": self.cutoff,
            "primary": list(self.primary),
            "differences": {
                one.measure: {name: value for name, value in asdict(one).items() if name not in ("measure", "estimate")}
                | one.estimate._asdict()
                for one in self.differences
            },
            "gained": list(self.gained),
            "lost": list(self.lost),
        }


def compare_arms(run: RunDirectory, baseline: str, candidate: str) -> Comparison:
    """Compare two arms of one run, or of two (``DIR:ARM``).

    Raises :class:`NotComparable` where two runs differ in recordings, gold, labels, scopes or turns, and
    :class:`UnusableInput` for an unknown arm.
    """
    base_run, base_arm = locate(run, baseline)
    cand_run, cand_arm = locate(run, candidate)
    if (base_run.path.resolve(), base_arm) == (cand_run.path.resolve(), cand_arm):
        raise UnusableInput(f"baseline and candidate are both {baseline!r}: nothing to compare")
    require_comparable(base_run, cand_run)
    cutoff = min(base_run.max_items[base_arm], cand_run.max_items[cand_arm])
    primary = headlines(cutoff)
    base_scores = score_run(base_run)
    cand_scores = base_scores if cand_run is base_run else score_run(cand_run)
    base, cand = _of_arm(base_scores, base_arm), _of_arm(cand_scores, cand_arm)
    differences = _differences(base, cand, primary)
    flips = [
        (at, cand[at, primary[0]][1] - value)
        for (at, measure), (_, value) in base.items()
        if measure == primary[0] and (at, measure) in cand
    ]
    return Comparison(
        baseline,
        candidate,
        cutoff,
        primary,
        differences,
        tuple(at for at, change in flips if change > 0),
        tuple(at for at, change in flips if change < 0),
    )


def paired_differences(
    scores: Sequence[Score], baseline: str, candidate: str, primary: Sequence[str]
) -> dict[str, Difference]:
    """Differences of two arms of one run by measure, over the places where both have a value."""
    found = _differences(_of_arm(scores, baseline), _of_arm(scores, candidate), primary)
    return {one.measure: one for one in found}


def lower_is_better(measure: str) -> bool:
    """Whether less of a measure is more."""
    return measure in LOWER_IS_BETTER or measure.startswith("Forbidden@")


def locate(run: RunDirectory, name: str) -> tuple[RunDirectory, str]:
    """``ARM`` of this run, or ``DIR:ARM`` of another."""
    if name in run.arms:
        return run, name
    folder, _, arm = name.rpartition(":")
    if not folder:
        raise UnusableInput(f"{run.path}: has no arm {name!r}; it has: {', '.join(run.arms)}")
    other = run if Path(folder).resolve() == run.path.resolve() else open_run(Path(folder))
    if arm not in other.arms:
        raise UnusableInput(f"{other.path}: has no arm {arm!r}; it has: {', '.join(other.arms)}")
    return other, arm


def require_comparable(one: RunDirectory, other: RunDirectory) -> None:
    """Refuse two runs that did not judge the same things."""
    if one.manifest["comparable_key"] == other.manifest["comparable_key"]:
        return
    left, right = one.manifest["resolved"], other.manifest["resolved"]
    reasons = [key for key in COMPARABLE if left.get(key) != right.get(key)]
    raise NotComparable(f"{one.path} and {other.path} cannot be compared: they differ in {', '.join(reasons)}")


def _of_arm(scores: Sequence[Score], arm: str) -> Values:
    """Value and conversation by place and measure, where there is a value."""
    return {
        (one.at, one.measure): (one.conversation, one.value)
        for one in scores
        if one.arm == arm and one.value is not None
    }


def _differences(base: Values, cand: Values, primary: Sequence[str]) -> tuple[Difference, ...]:
    measures = dict.fromkeys(measure for _, measure in base)
    found = [one for measure in measures if (one := _difference(measure, base, cand))]
    adjusted = holm({one.measure: one.p for one in found if one.measure in primary})
    return tuple(replace(one, p_holm=adjusted.get(one.measure)) for one in found)


def _difference(measure: str, base: Values, cand: Values) -> Difference | None:
    shared = [(key, *base[key]) for key in base if key[1] == measure and key in cand]
    if not shared:
        return None
    groups: dict[str, list[float]] = {}
    for key, conversation, value in shared:
        groups.setdefault(conversation, []).append(cand[key][1] - value)
    flat = [value for values in groups.values() for value in values]
    return Difference(
        measure,
        len(shared),
        len(groups),
        sum(value for *_, value in shared) / len(shared),
        sum(cand[key][1] for key, *_ in shared) / len(shared),
        clustered(groups),
        sign_flip([sum(values) for values in groups.values()]),
        None,
        sum(value > 0 for value in flat),
        sum(value == 0 for value in flat),
        sum(value < 0 for value in flat),
    )
