"""Two arms over the same probes and turns: differences, their uncertainty, and the turns that flipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.compare.statistics import Estimate, clustered, holm, sign_flip
from lab.errors import NotComparable, UnusableInput
from lab.measures.score import headlines, score_run
from lab.measures.table import Scores
from lab.replay.run_directory import RunDirectory, open_run

# What two runs must share, in the order in which differences are told.
COMPARABLE = (
    *("format", "memories", "memories_from", "recordings", "golden", "conversations"),
    *("labels", "hard_rules", "categories", "scope", "recall_turns"),
)


class Pairs(NamedTuple):
    """The places where both arms have a value of a measure, with its conversation and both values."""

    measure: str
    at: list[str]
    conversation: list[str]
    baseline: list[float]
    candidate: list[float]


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
    pairs = pairs_by_measure(base_scores, base_arm, cand_scores, cand_arm)
    hits = [
        (at, after - before)
        for pair in pairs
        if pair.measure == primary[0]
        for at, before, after in zip(pair.at, pair.baseline, pair.candidate, strict=True)
    ]
    return Comparison(
        baseline,
        candidate,
        cutoff,
        primary,
        _differences(pairs, primary),
        tuple(at for at, change in hits if change > 0),
        tuple(at for at, change in hits if change < 0),
    )


def paired_differences(scores: Scores, baseline: str, candidate: str, primary: Sequence[str]) -> dict[str, Difference]:
    """Differences of two arms of one run by measure, over the places where both have a value."""
    found = _differences(pairs_by_measure(scores, baseline, scores, candidate), primary)
    return {one.measure: one for one in found}


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


def pairs_by_measure(base: Scores, base_arm: str, cand: Scores, cand_arm: str) -> list[Pairs]:
    """By measure, in the order in which the baseline has them; places in its order, too."""
    others = cand.of_arm(cand_arm)
    found = []
    for measure, values in base.of_arm(base_arm).items():
        after = {at: value for at, _, value in zip(*others.get(measure, ((), (), ())), strict=True)}
        rows = [(*row, after[row[0]]) for row in zip(*values, strict=True) if row[0] in after]
        if rows:
            found.append(Pairs(measure, *map(list, zip(*rows, strict=True))))
    return found


def _differences(pairs: Sequence[Pairs], primary: Sequence[str]) -> tuple[Difference, ...]:
    found = [_difference(pair) for pair in pairs]
    adjusted = holm({one.measure: one.p for one in found if one.measure in primary})
    return tuple(replace(one, p_holm=adjusted.get(one.measure)) for one in found)


def _difference(pairs: Pairs) -> Difference:
    changes = [after - before for before, after in zip(pairs.baseline, pairs.candidate, strict=True)]
    groups: dict[str, list[float]] = {}
    for conversation, change in zip(pairs.conversation, changes, strict=True):
        groups.setdefault(conversation, []).append(change)
    return Difference(
        pairs.measure,
        len(changes),
        len(groups),
        sum(pairs.baseline) / len(changes),
        sum(pairs.candidate) / len(changes),
        clustered(groups),
        sign_flip([sum(values) for values in groups.values()]),
        None,
        sum(change > 0 for change in changes),
        sum(change == 0 for change in changes),
        sum(change < 0 for change in changes),
    )
