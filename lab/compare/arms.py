"""The arms of a run side by side.

For all arms: the mean of a measure with its interval, the best arm, and those level with it. For the steps of an
ablation: the means of every step, and its paired differences from the previous one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from lab.compare.paired import Difference, Pairs, by_conversation, paired_differences, pairs_of
from lab.compare.statistics import clustered, is_shown, sign_flips
from lab.measures.catalogue import direction, entry_of
from lab.measures.model import SHARE, YES
from lab.runs.scores import Scores, Values
from lab.systems.openclaw.presets import ABLATION

BEST, LEVEL = "best", "level"


class ArmMean(NamedTuple):
    """The mean of a measure for one arm over ``n`` probes or turns.

    ``low`` and ``high`` bound its 95 % interval, clustered by conversation; None below six conversations. ``standing``
    is ``best``, ``level`` (not shown to differ from the best), or empty.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    standing: str


def arm_means(
    measures: Sequence[str],
    values: Mapping[str, Mapping[str, Values]],
    contenders: Collection[str],
    equal: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, dict[str, ArmMean]]:
    """Return the mean of each measure by arm, without arms that have no value.

    ``values`` are those of :meth:`lab.runs.scores.Scores.of_arm` by arm. Only ``contenders`` can be best, and none is
    best where neither direction is better, or where all are equal. An arm is level with the best if a paired
    comparison by conversation shows no difference (:func:`lab.compare.statistics.is_shown`; exploratory, without a
    correction for several arms), over enough conversations to show one. Arms without a common probe are not compared.
    ``equal`` maps duplicated conversations to the name of their cluster.
    """
    tables = {measure: _means(measure, values, equal) for measure in measures}
    pairs = []
    for measure, means in tables.items():
        leader = _leader(measure, {arm: mean for arm, mean in means.items() if arm in contenders})
        if leader is not None:
            first = [arm for arm in means if arm in contenders and means[arm].mean == means[leader].mean]
            means |= {arm: means[arm]._replace(standing=BEST) for arm in first}
            others = [arm for arm in means if arm in contenders and arm not in first]
            paired = {arm: pairs_of(measure, values[leader][measure], values[arm][measure]) for arm in others}
            pairs += [(measure, arm, _clusters(pair, equal)) for arm, pair in paired.items() if pair.at]
    # One call, because measures over the same conversations share the drawn signs.
    p_values = sign_flips([[sum(group) for group in groups.values()] for _, _, groups in pairs])
    for (measure, arm, groups), p in zip(pairs, p_values, strict=True):
        estimate = clustered(groups)
        is_identical = not any(value for group in groups.values() for value in group)
        if is_identical or (estimate.low is not None and not is_shown(estimate, p)):
            tables[measure][arm] = tables[measure][arm]._replace(standing=LEVEL)
    return tables


def _means(measure: str, values: Mapping[str, Mapping[str, Values]], equal: Mapping[str, str]) -> dict[str, ArmMean]:
    entry = entry_of(measure)
    is_share = entry is not None and entry.range in (SHARE, YES)
    means = {}
    for arm, of_arm in values.items():
        if measure not in of_arm:
            continue
        groups: dict[str, list[float]] = {}
        for conversation, value in zip(of_arm[measure].conversation, of_arm[measure].value, strict=True):
            groups.setdefault(equal.get(conversation, conversation), []).append(value)
        estimate = clustered(groups)
        low, high = estimate.low, estimate.high
        if is_share and low is not None and high is not None:
            low, high = max(low, 0.0), min(high, 1.0)
        means[arm] = ArmMean(estimate.mean, low, high, len(of_arm[measure].value), "")
    return means


def _leader(measure: str, means: Mapping[str, ArmMean]) -> str | None:
    better = direction(measure)
    if better == "neither" or len({mean.mean for mean in means.values()}) < 2:
        return None
    choose = max if better == "higher" else min
    return choose(means, key=lambda arm: means[arm].mean)


def _clusters(pair: Pairs, equal: Mapping[str, str]) -> dict[str, list[float]]:
    return by_conversation(pair._replace(conversation=[equal.get(name, name) for name in pair.conversation]))


@dataclass(frozen=True, slots=True)
class StepResult:
    """One ablation step: the means of its arm, and differences from the previous step by measure, if any."""

    arm: str
    adds: str
    means: dict[str, float | None]
    changes: dict[str, Difference]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "arm": self.arm,
            "adds": self.adds,
            "means": self.means,
            "changes": {name: change.estimate._asdict() | {"p": change.p} for name, change in self.changes.items()},
        }


def measures_shown(cutoff: int) -> dict[str, str]:
    """Return the measures of an ablation with their short column headings."""
    return {
        f"Success@{cutoff}": f"hit@{cutoff}",
        f"Present@{cutoff}": "present",
        "RepeatRate": "repeat",
        "RepeatDominance": "domin.",
        "NicePresence": "nice",
        "BackboneDuplication": "dupl.",
        "HardRules": "hard",
        "InjectedChars": "chars",
    }


def ablation(
    scores: Scores, means: dict[str, Any], cutoff: int, equal: Mapping[str, str] = MappingProxyType({})
) -> list[StepResult]:
    """Return the ablation of a scored run; steps whose arm is not in the run are left out.

    ``means`` is ``summarise(...)["arms"]``. ``equal`` maps duplicated conversations to the name of their cluster.
    """
    shown = measures_shown(cutoff)
    steps = [step for step in ABLATION if step.arm in means]
    results = []
    for index, step in enumerate(steps):
        changes = paired_differences(scores, steps[index - 1].arm, step.arm, (), equal) if index else {}
        results.append(
            StepResult(
                step.arm,
                step.adds,
                {name: means[step.arm]["measures"].get(name) for name in shown},
                {name: changes[name] for name in shown if name in changes},
            )
        )
    return results
