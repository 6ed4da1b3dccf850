"""The table of arms: every mean with its interval, the best of each column, and those that it does not differ from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.measures.catalogue import direction
from lab.report.contrasts import Contrasts
from lab.report.units import between, is_share, mean_of
from lab.runs.directory import RunDirectory

BEST, EQUAL = "best", "equal"


class Cell(NamedTuple):
    """A mean as text, its interval as text, the number to sort by, and whether it is best or equal to the best."""

    text: str
    interval: str = ""
    value: float | None = None
    mark: str = ""


class ArmsTable(NamedTuple):
    """The columns with the direction that is better, and one row of cells for each arm."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    is_marked: bool


def arms_table(run: RunDirectory, contrasts: Contrasts, measures: Sequence[str]) -> ArmsTable:
    """Return the means of all arms; an arm that reads the golden set is never the best."""
    real = [arm for arm in run.arms if not run.manifest.arm(arm).needs_gold]
    columns = [_column(run.arms, real, contrasts, measure) for measure in measures]
    rows = [(arm, [column[place] for column in columns]) for place, arm in enumerate(run.arms)]
    marked = any(cell.mark for _, cells in rows for cell in cells)
    return ArmsTable([(measure, direction(measure)) for measure in measures], rows, marked)


def _column(arms: Sequence[str], real: Sequence[str], contrasts: Contrasts, measure: str) -> list[Cell]:
    means = {arm: contrasts.mean(arm, measure) for arm in arms}
    known = {arm: estimate.mean for arm in real if (estimate := means[arm])}
    better = direction(measure)
    best = None
    if len(known) > 1 and better != "neither" and measure.partition("@")[0] != "Judged":
        best = (min if better == "lower" else max)(known, key=lambda arm: known[arm])
    cells = []
    for arm in arms:
        estimate = means[arm]
        if estimate is None:
            cells.append(Cell("–"))
            continue
        low, high = estimate.low, estimate.high
        if is_share(measure) and low is not None and high is not None:
            low, high = max(low, 0.0), min(high, 1.0)
        mark = (
            BEST if arm == best else EQUAL if best and arm in known and _is_equal(contrasts, best, arm, measure) else ""
        )
        interval = "" if low is None else between(measure, low, high)
        cells.append(Cell(mean_of(measure, estimate.mean), interval, estimate.mean, mark))
    return cells


def _is_equal(contrasts: Contrasts, best: str, arm: str, measure: str) -> bool:
    """Return whether no difference of an arm from the best is shown, over enough conversations to show one."""
    contrast = contrasts.of(best, arm, measure)
    if contrast is None:
        return False
    difference = contrast.difference
    return not difference.wins + difference.losses or (difference.estimate.low is not None and not difference.is_shown)
