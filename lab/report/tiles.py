"""The four tiles of the first screen: benefit, harm, against hybrid, against random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.base.formatting import counted, sentence
from lab.compare.paired import Comparison, Difference
from lab.gate.line import FAIL
from lab.gate.verdict import Verdict
from lab.measures.catalogue import direction, in_words
from lab.report import charts
from lab.report.contrasts import Contrast, Contrasts
from lab.report.units import change_of, is_share, mean_of, span_of

HARMS = (
    *("StaleRecall", "FalseRecall", "HardRules", "WrongScope"),
    *("Leaks", "EchoShare", "Future", "Unescaped", "Duplicates"),
)
CONTROLS = ("hybrid", "random")


class Tile(NamedTuple):
    """One tile: what it is about, the change as a large number, what it means, its interval, and its distribution."""

    title: str
    measure: str = ""
    change: str = "–"
    word: str = "not measured"
    state: str = ""
    says: str = ""
    interval: str = ""
    chart: str = ""


def harms_at(cutoff: int) -> tuple[str, ...]:
    """Return the measures that count as harms, at a cutoff where they have one."""
    return (f"Forbidden@{cutoff}", *HARMS)


def harm_of(comparison: Comparison, verdict: Verdict | None) -> Difference | None:
    """Return the harm to show: the first that fails the policy, else the largest that is shown, else the largest."""
    known = {
        difference.measure: difference
        for difference in comparison.differences
        if difference.measure in harms_at(comparison.cutoff)
    }
    failing = (line for line in (verdict.lines if verdict else ()) if line.critical and line.status == FAIL)
    for line in failing:
        if line.measure in known and not line.against and not line.slice:
            return known[line.measure]
    return max(known.values(), key=lambda one: (one.is_better is False, _harm(one)), default=None)


def tiles_of(
    arms: Sequence[str], comparison: Comparison | None, contrasts: Contrasts, harm: Difference | None
) -> list[Tile]:
    """Return the tiles; one that cannot be filled says why."""
    if comparison is None:
        return []
    base, cand = comparison.baseline, comparison.candidate
    hits = f"Success@{comparison.cutoff}"
    shown = {difference.measure: difference for difference in comparison.differences}
    benefit = Tile("Benefit", says=f"No probe has relevant memories in both arms, so {hits} has no value.")
    if hits in shown:
        contrast = contrasts.of(base, cand, hits)
        benefit = _tile("Benefit", shown[hits], contrast)
    worst = Tile("Harm", says="The run has no value of any harm: no memory is judged misleading, superseded or hard.")
    if harm:
        number = sum(difference.measure in harms_at(comparison.cutoff) for difference in comparison.differences)
        worst = _tile("Harm", harm, contrasts.of(base, cand, harm.measure), f"largest of {counted(number, 'harm')}")
    return [benefit, worst, *(_against(control, arms, cand, hits, contrasts) for control in CONTROLS)]


def _against(control: str, arms: Sequence[str], candidate: str, measure: str, contrasts: Contrasts) -> Tile:
    title = f"Against {control}"
    if control == candidate:
        return Tile(title, word="the candidate itself", says=f"{control} is the candidate of this comparison.")
    if control not in arms:
        return Tile(title, word="not in this run", says=f"Add it to the replay with --arm {control}.")
    contrast = contrasts.of(control, candidate, measure)
    if contrast is None:
        return Tile(title, says=f"{measure} has no value in both arms.")
    return _tile(title, contrast.difference, contrast)


def _tile(title: str, difference: Difference, contrast: Contrast | None, about: str = "") -> Tile:
    measure, estimate = difference.measure, difference.estimate
    word = {True: "better", False: "worse", None: "no difference shown"}[difference.is_better]
    if estimate.low is None and (difference.wins or difference.losses):
        word = "too few conversations"
    elif not difference.wins and not difference.losses:
        word = "identical everywhere"
    state = {True: "better", False: "worse", None: ""}[difference.is_better]
    clause = in_words(measure, difference.candidate, difference.baseline)
    means = f"{mean_of(measure, difference.candidate)} against {mean_of(measure, difference.baseline)}"
    side = "" if direction(measure) == "neither" else f", {direction(measure)} is better"
    says = sentence(clause) if clause else f"{means}{side}."
    interval = f"{counted(difference.conversations, 'conversation')}: no interval"
    if estimate.low is not None:
        interval = f"95 % interval {span_of(measure, estimate.low, estimate.high)}"
    chart = ""
    if contrast:
        values = list(contrast.by_conversation.values())
        chart = charts.strip(values, estimate.mean, estimate.low, estimate.high, difference.is_better)
    change = change_of(measure, estimate.mean, unit=is_share(measure))
    return Tile(title, f"{measure}{f', {about}' if about else ''}", change, word, state, says, interval, chart)


def _harm(difference: Difference) -> float:
    mean = difference.estimate.mean
    return -mean if direction(difference.measure) == "higher" else mean
