"""The result of a run or of a comparison in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.base.formatting import counted
from lab.compare.paired import Comparison, Difference
from lab.measures.catalogue import MEASURES, entry_of, in_words
from lab.measures.score import headlines
from lab.report.comparison import judged, shown, worse
from lab.report.units import change_of, is_share, mean_of, span_of
from lab.runs.directory import RunDirectory

# Harms in the sentence; the figure has all of them.
MOST_HARMS = 4


def alone(run: RunDirectory, summary: Mapping[str, Any]) -> str:
    """Return the result of a run with one arm in one sentence."""
    ((arm, means),) = summary["arms"].items()
    # The sentences for two arms, cut before the part on the other arm.
    parts = [
        entry.sentence.partition(" against")[0].rstrip(",").format(candidate=value)
        for name in headlines(run.cutoff)
        if (entry := entry_of(name)) and entry.sentence and (value := means["measures"].get(name)) is not None
    ]
    results = f": {'; '.join(parts)}" if parts else ""
    return (
        f"{arm} alone, {counted(len(run.conversations), 'conversation')}, labels {run.labels}, {run.haystack}{results}."
    )


def sentence(comparison: Comparison, labels: str) -> str:
    """Return the result in one sentence: each primary measure with its interval, then other measures that got worse.

    ``labels`` names the source of the importance labels, and the haystack.
    """
    primary = {difference.measure.partition("@")[0]: difference for difference in shown(comparison)}
    conversations = max((difference.conversations for difference in comparison.differences), default=0)
    parts = [
        entry.sentence.format(candidate=primary[entry.name].candidate, baseline=primary[entry.name].baseline)
        + (f" ({_interval(primary[entry.name])})" if conversations > 1 else "")
        for entry in MEASURES
        if entry.sentence and entry.name in primary
    ]
    if not parts:
        return (
            f"{comparison.candidate} against {comparison.baseline}: no primary measure has values in both arms. Hits "
            "need a golden set; repeats need an arm that injects at two recall turns."
        )
    harms = [_harm(difference) for difference in worse(comparison) if is_share(difference.measure)]
    if harms:
        more = f" and {len(harms) - MOST_HARMS} more" if len(harms) > MOST_HARMS else ""
        parts.append(f"but worse outside the primary measures: {', '.join(harms[:MOST_HARMS])}{more}")
    beside = judged(comparison) if comparison.apart else ""
    return (
        f"{comparison.candidate} against {comparison.baseline}{beside}, {counted(conversations, 'conversation')}"
        f"{', so the result does not generalise' if conversations == 1 else ''}, labels {labels}: {'; '.join(parts)}."
    )


def _harm(difference: Difference) -> str:
    clause = in_words(difference.measure, difference.candidate, difference.baseline)
    means = (mean_of(difference.measure, value) for value in (difference.baseline, difference.candidate))
    return f"{clause} ({difference.measure})" if clause else f"{difference.measure} {' → '.join(means)}"


def _interval(difference: Difference) -> str:
    low, high = difference.estimate.low, difference.estimate.high
    if low is None or high is None:
        return f"no interval for {counted(difference.conversations, 'conversation')}"
    side = {None: "not significant", True: "better", False: "worse"}[difference.is_better]
    change = change_of(difference.measure, difference.estimate.mean, unit=is_share(difference.measure))
    return f"{side}: {change}, 95 % interval {span_of(difference.measure, low, high)}"
