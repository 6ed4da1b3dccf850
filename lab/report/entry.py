"""The entry of a figure in the report, and the data that it draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.base.formatting import counted
from lab.compare.paired import Comparison
from lab.measures.latency import Stage
from lab.report.charts import Chart
from lab.report.material import TierShares
from lab.runs.directory import RunDirectory


class Material(NamedTuple):
    """The data of a run that figures and tables share."""

    shares: TierShares
    stages: list[Stage]


@dataclass(frozen=True, slots=True)
class ReportData:
    """The data of a report: a run, its means (``summary``), and the comparison of two arms, if it has two."""

    run: RunDirectory
    summary: dict[str, Any]
    comparison: Comparison | None
    material: Material

    @property
    def measures(self) -> dict[str, dict[str, float | None]]:
        """The mean of each measure by arm."""
        return {arm: means["measures"] for arm, means in self.summary["arms"].items()}

    @property
    def pair(self) -> list[str]:
        """The compared arms, or the only arm."""
        return [self.comparison.baseline, self.comparison.candidate] if self.comparison else self.run.arms[:1]

    @property
    def source(self) -> str:
        """The source line of a figure: run, recordings, labels, haystack, model."""
        return source_of(self.run)


def source_of(run: RunDirectory) -> str:
    """Return the source line of a figure: run, recordings, labels, haystack, model."""
    resolved = run.manifest.resolved
    return (
        f"recall lab, run {run.manifest.run_key[:12]}: {resolved.format} recordings, "
        f"{counted(len(run.conversations), 'conversation')}, labels {run.labels}, "
        f"{run.haystack}, {resolved.embedder_model}"
    )


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A figure of the report.

    ``section`` is a key of ``lab.report.build.SECTIONS``; the figure has the ``heading`` there, if any. ``draw``
    returns the charts: none if the run has no data for one. The first is saved as ``name``, the next as ``name-2``.
    ``repeatable`` is False if equal runs have different figures, as with timings; ``report.md`` omits them.
    """

    name: str
    section: str
    heading: str
    caption: str
    draw: Callable[[ReportData], Sequence[Chart]]
    repeatable: bool = True
