"""The table of arms: every mean with its interval, the best of each column, and those that it does not differ from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.compare.arms import ArmMean
from lab.measures.catalogue import direction
from lab.report.contrasts import Contrasts
from lab.report.units import between, mean_of
from lab.runs.directory import RunDirectory


class Cell(NamedTuple):
    """A mean and its interval as text, the number to sort by, and whether it is ``best`` or ``level`` with the best."""

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
    """Return the means of all arms; an arm that reads the golden set is never the best.

    Marks are those of :func:`lab.compare.arms.arm_means`, as in the viewer.
    """
    means = contrasts.means(measures, [arm for arm in run.arms if not run.manifest.arm(arm).needs_gold])
    columns = [[_cell(measure, means[measure].get(arm)) for arm in run.arms] for measure in measures]
    rows = [(arm, [column[place] for column in columns]) for place, arm in enumerate(run.arms)]
    marked = any(cell.mark for _, cells in rows for cell in cells)
    return ArmsTable([(measure, direction(measure)) for measure in measures], rows, marked)


def _cell(measure: str, mean: ArmMean | None) -> Cell:
    if mean is None:
        return Cell("–")
    interval = "" if mean.low is None or mean.high is None else between(measure, mean.low, mean.high)
    return Cell(mean_of(measure, mean.mean), interval, mean.mean, mean.standing)
