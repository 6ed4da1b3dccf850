"""The result in one sentence, and the first screen of a report: the verdict, why, what to do, and the evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.formatting import counted, sentence
from lab.base.regex import regex
from lab.compare.paired import Comparison, Difference
from lab.gate.action import POOLED, Action, action_of, judge_command, why
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, Line, deciding
from lab.gate.outputs import read_verdict
from lab.gate.policy import DIFFERENCES, read_policy
from lab.gate.verdict import Verdict
from lab.measures.catalogue import MEASURES, entry_of, in_words
from lab.measures.score import headlines
from lab.replay.command import arguments
from lab.report.comparison import judged, shown, worse
from lab.report.contrasts import Changed
from lab.report.units import change_of, is_share, mean_of, percent, span_of
from lab.runs.directory import VERDICT, RunDirectory
from lab.runs.notes import of_host
from lab.runs.scores import read_gold

NOT_JUDGED = "none"
WORDS = {
    PASS: "PASS",
    FAIL: "FAIL",
    INCONCLUSIVE: "INCONCLUSIVE",
    ERROR: "ERROR",
    NOT_JUDGED: "NOT JUDGED",
}
# What each word means, in plain words, beside it.
MEANS = {
    PASS: "every critical rule is shown to hold",
    FAIL: "a critical rule is shown to be broken",
    INCONCLUSIVE: "too little evidence to decide",
    ERROR: "something was not measured",
    NOT_JUDGED: "no gate has judged this run",
}
_NUMBERS = regex(r"([A-Za-z]+(?:@\d+)?)( \[[^\]]*\])? \((-?[\d.,]+) against (-?[\d.,]+)\)")


class Opening(NamedTuple):
    """The texts of the first screen; ``beside`` are findings that stand beside the verdict."""

    state: str
    word: str
    means: str
    subject: str
    policy: str
    why: str
    action: Action
    sure: str
    beside: Sequence[str]
    basis: Sequence[tuple[str, str]]


def opening_of(
    run: RunDirectory, verdict: Verdict | None, comparison: Comparison | None, first: Changed | None, probes: int
) -> Opening:
    """Return the first screen; ``first`` is where the harm became worse, ``probes`` the number of probes with gold."""
    candidate, baseline = (comparison.candidate, comparison.baseline) if comparison else (run.arms[0], None)
    basis = _basis(run, verdict, comparison, probes)
    if verdict is None:
        about = f"{candidate} against {baseline}" if baseline else f"{candidate} alone"
        word, means = _names(NOT_JUDGED)
        if (run.path / VERDICT).is_file():
            means = "the verdict of this run is stale"
        return Opening(NOT_JUDGED, word, means, about, "", "", _unjudged(run), _sure([], comparison), (), basis)
    if comparison and is_another_pair(verdict, comparison, run):
        # Its own pair, and the verdict beside it: a word of the gate would be read as one on these arms.
        about = f"{candidate} against {baseline}"
        said = f"{_names(verdict.status)[0]}, policy {verdict.policy}"
        act = Action(f"The verdict of this run is on {_subject(verdict)} ({said}). To see it:", "lab report DIR")
        word = _names(NOT_JUDGED)[0]
        basis = _basis(run, None, comparison, probes)
        return Opening(
            NOT_JUDGED, word, "no gate has judged this pair", about, "", "", act, _sure([], comparison), (), basis
        )
    turn = first.worse[0] if first and first.worse else None
    about = _subject(verdict) or candidate
    policy = verdict.policy
    clause = why(verdict)
    judged = verdict.judged or {}
    beside = [
        *([sentence(in_percent(verdict.control.sentence))] if verdict.control else []),
        *([verdict.turning] if verdict.turning else []),
        *(["The arms are not judged alike: see Judged in the table of arms."] if judged.get("apart") else []),
    ]
    act = action_of(verdict, arguments(run.manifest), turn)
    word, means = _names(verdict.status)
    if verdict.passes_measured:
        # What could not be measured is in the reason, beside it.
        means = "on what was measured" if verdict.status == PASS else "everything that was measured passes"
    return Opening(
        verdict.status,
        word,
        means,
        about,
        policy,
        sentence(clause),
        act,
        _sure(deciding(verdict.lines, verdict.status), comparison),
        beside,
        basis,
    )


def pair_of(verdict: Verdict, run: RunDirectory) -> tuple[str | None, str | None]:
    """Return the baseline and the candidate of a verdict that are arms of a run; None for any other."""
    named = (None if verdict.against else verdict.baseline, verdict.candidate)
    base, cand = (name if name in run.arms else None for name in named)
    return base, cand


def is_another_pair(verdict: Verdict, comparison: Comparison, run: RunDirectory) -> bool:
    """Return whether a verdict is on other arms of a run than those compared."""
    shown_pair = (comparison.baseline, comparison.candidate)
    return any(name not in (None, arm) for name, arm in zip(pair_of(verdict, run), shown_pair, strict=True))


def _unjudged(run: RunDirectory) -> Action:
    """Return what to do with a run whose verdict is stale, or that has none; policy rollout needs its two arms."""
    if run.manifest.failed:
        names = " and ".join(run.manifest.failed)
        return Action(f"Mend {names}, and replay again: a gate judges no run with failed recalls.")
    if (stale := run.path / VERDICT).is_file():
        return Action("Judge this run again.", judge_command(read_verdict(stale), "DIR"))
    if not read_gold(run):
        judge = "No turn is judged, and so no policy can decide. Judge some, and replay with --golden."
        return Action(judge, "lab golden judge POOL --out GOLDEN" if of_host(run.manifest.resolved) else POOLED)
    policy = read_policy("rollout")
    if {policy.baseline, policy.candidate} <= set(run.arms):
        return Action("Let a policy judge this run.", "lab gate DIR --policy rollout")
    write = "Write a policy for these arms, starting from the one that this command shows, and judge the run by it."
    return Action(write, "lab gate policies --show rollout")


def _names(state: str) -> tuple[str, str]:
    return WORDS[state], MEANS[state]


def _subject(verdict: Verdict) -> str:
    """Return what was compared, with the names of runs and without their folders."""
    if verdict.candidate is None:
        return "live receipts"
    if verdict.against:
        return f"{verdict.candidate} against the same arm of {Path(verdict.against).name}"
    return f"{verdict.candidate} against {verdict.baseline}" if verdict.baseline else verdict.candidate


def in_percent(text: str) -> str:
    """Return a sentence of the gate with the shares in it in percent."""

    def in_unit(match: re.Match[str]) -> str:
        values = [float(match[group].replace(",", "")) for group in (3, 4)]
        shown = " against ".join(mean_of(match[1], value) for value in values)
        return f"{match[1]}{match[2] or ''} ({shown})"

    return _NUMBERS.sub(in_unit, text)


def _sure(lines: Sequence[Line], comparison: Comparison | None) -> str:
    """Return the intervals of the rules that decide, or of the first primary measure without a verdict."""
    parts = [
        f"{line.measure}{f' against {line.against}' if line.against else ''} changed by "
        f"{change_of(line.measure, line.difference, unit=True)} "
        f"({100 * (line.confidence or 0.9):g} % interval {span_of(line.measure, line.low, line.high)})"
        for line in sorted(lines, key=lambda line: line.kind != "improve")
        if line.low is not None and line.difference is not None
    ][:2]
    conversations = max((line.conversations or 0 for line in lines), default=0)
    if parts:
        return f"Over {counted(conversations, 'conversation')}: {'; '.join(parts)}."
    compared = [line for line in lines if line.kind in DIFFERENCES]
    if compared and all(" identical at all " in f" {line.reason}" for line in compared):
        return f"{counted(conversations, 'conversation')}: both arms have the same value wherever they were compared."
    if lines or comparison is None:
        few = f"{counted(conversations, 'conversation')}: " if conversations else ""
        return f"{few}no interval decides this." if few else "No interval decides this."
    first = next((difference for difference in comparison.differences if difference.p_holm is not None), None)
    if first is None:
        return "No primary measure has values in both arms."
    over = counted(first.conversations, "conversation")
    if first.estimate.low is None:
        return f"{over} {'is' if first.conversations == 1 else 'are'} too few for an interval."
    return (
        f"Over {over}: {first.measure} changed by {change_of(first.measure, first.estimate.mean, unit=True)} "
        f"(95 % interval {span_of(first.measure, first.estimate.low, first.estimate.high)})."
    )


def _basis(
    run: RunDirectory, verdict: Verdict | None, comparison: Comparison | None, probes: int
) -> list[tuple[str, str]]:
    resolved = run.manifest.resolved
    shares = dict(comparison.judged) if comparison else {}
    cutoff = comparison.cutoff if comparison else run.cutoff
    judged = ", ".join(f"{percent(share)} {arm}" for arm, share in shares.items())
    if verdict and verdict.judged:
        shares = {Path(name).name.rpartition(":")[2] or name: share for name, share in verdict.judged["shares"].items()}
        judged, cutoff = ", ".join(f"{percent(share)} {arm}" for arm, share in shares.items()), verdict.judged["k"]
    return [
        ("conversations", f"{len(run.conversations):,}"),
        ("probes with gold", f"{probes:,}"),
        (f"Judged@{cutoff}", judged or "nothing was judged"),
        ("embedder", Path(str(resolved.embedder_model)).name),
        ("haystack", run.haystack),
        ("labels", run.labels),
    ]


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


def result_sentence(comparison: Comparison, labels: str) -> str:
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
