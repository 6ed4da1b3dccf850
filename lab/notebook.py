"""Access to a run from a notebook: tables as pandas frames; comparisons, figures and explanations that render as HTML.

Data is read on first use and cached. All HTML is escaped. Texts of turns and memories appear only with ``with_text``.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.base.formatting import counted
from lab.runs.directory import RunDirectory
from lab.runs.directory import open_run as open_directory
from lab.runs.manifest import Manifest
from lab.runs.notes import trial, trial_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from lab.compare.paired import Comparison
    from lab.replay.explain import Explanation
    from lab.report.charts import Chart

# Pixels per inch at which a figure is shown. The image has twice as many, so that it is sharp on dense screens.
SHOWN_DPI = 72


class Run:
    """A run directory opened for reading.

    Each access to a frame returns a new copy, so changing a frame does not affect the next access.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._read: dict[str, pd.DataFrame] = {}

    @property
    def path(self) -> Path:
        """Path of the run directory."""
        return self.directory.path

    @property
    def manifest(self) -> Manifest:
        """The arguments, the resolved settings and the versions of the run, as in ``manifest.json``."""
        return self.directory.manifest

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in the order in which they were given."""
        return self.directory.arms

    @property
    def conversations(self) -> list[str]:
        """Ids of the conversations."""
        return self.directory.conversations

    def __repr__(self) -> str:
        warning = trial_line(trial(self.manifest))
        return (
            f"Run({str(self.path)!r}: {self.manifest.status}, {counted(len(self.conversations), 'conversation')}, "
            f"arms {', '.join(self.arms)}{f', {warning}' if warning else ''})"
        )

    @property
    def turns(self) -> pd.DataFrame:
        """One row per arm and recall point; see :func:`lab.report.frames.turns_frame` for the columns."""
        return self._frame("turns")

    @property
    def items(self) -> pd.DataFrame:
        """One row per returned memory; see :func:`lab.report.frames.items_frame` for the columns."""
        return self._frame("items")

    @property
    def scores(self) -> pd.DataFrame:
        """Every value of every measure; see :func:`lab.report.frames.scores_frame` for the columns."""
        return self._frame("scores")

    @property
    def latency(self) -> pd.DataFrame:
        """Times by stage; see :func:`lab.report.frames.latency_frame` for the columns."""
        return self._frame("latency")

    @property
    def figures(self) -> Figures:
        """The figures of the report, by name."""
        return self._figures

    def figure(self, name: str) -> Drawing:
        """Return a figure by name.

        Raises :class:`lab.base.errors.UnusableInput`, listing the names, if there is none.
        """
        from lab.base.errors import UnusableInput

        if name not in self._figures:
            raise UnusableInput(f"{self.path}: has no figure {name!r}; it has: {', '.join(self._figures)}")
        return self._figures[name]

    def compare(
        self,
        baseline: str,
        candidate: str,
        *,
        primary: Sequence[str] = (),
        slices: bool = False,
        every: bool = False,
    ) -> Compared:
        """Compare two arms over the same turns, like ``lab compare``. An arm may be one of another run (``DIR:ARM``).

        With ``every``, all measures are shown, not only the primary ones. Raises the errors of
        :func:`lab.compare.paired.compare_arms`.
        """
        from lab.compare.paired import compare_arms

        return Compared(compare_arms(self.directory, baseline, candidate, primary=primary, slices=slices), every)

    def explain(self, turn: str, arm: str | None = None, *, with_text: bool = False, full: bool = False) -> Explained:
        """Explain the rank of each memory at one turn, like ``lab explain``. The arm defaults to the first.

        The recording must still be at its path. Texts of the turn and its memories are shown only ``with_text``.
        """
        from lab.replay.explain import explain

        return Explained(explain(self.directory, turn, arm or self.arms[0]), with_text, full)

    def _frame(self, name: str) -> pd.DataFrame:
        """Return a copy of a frame of :mod:`lab.report.frames`, which is read once."""
        from lab.report import frames

        if name not in self._read:
            self._read[name] = getattr(frames, f"{name}_frame")(self.directory)
        return self._read[name].copy(deep=False)

    @cached_property
    def _figures(self) -> Figures:
        from lab.compare.paired import compare_arms
        from lab.measures.score import score_run, summarise
        from lab.report.comparison import choose_pair
        from lab.report.drawings import drawings
        from lab.runs.scores import read_gold

        baseline, candidate = choose_pair(self.directory, None, None)
        summary = summarise(score_run(self.directory), read_gold(self.directory), self.arms)
        comparison = (
            compare_arms(self.directory, baseline, candidate, slices=True, tested_slices=False) if candidate else None
        )
        found = drawings(self.directory, summary, comparison)
        return Figures({name: Drawing(name, one.chart, one.figure.caption) for name, one in found.items()})


class Compared:
    """A comparison that renders as text or HTML. ``comparison`` is the record, ``frame`` the table of its measures."""

    def __init__(self, comparison: Comparison, every: bool = False) -> None:
        self.comparison = comparison
        self._every = every

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per measure, shown or not; see :func:`lab.report.frames.comparison_frame`."""
        from lab.report.frames import comparison_frame

        return comparison_frame(self.comparison)

    @cached_property
    def figure(self) -> Drawing:
        """The primary measures with their intervals."""
        from lab.report.comparison import shown, worse
        from lab.report.drawings import CAPTIONS
        from lab.report.figures_arms import forest_chart

        arms = self.comparison.baseline, self.comparison.candidate
        chart = forest_chart(shown(self.comparison), *arms, beyond=worse(self.comparison))
        return Drawing("forest", chart, CAPTIONS["forest"])

    def __repr__(self) -> str:
        from lab.report.comparison import comparison_text, shown

        return comparison_text(self.comparison, shown(self.comparison, every=self._every))

    def _repr_html_(self) -> str:
        from lab.report.comparison import comparison_html, shown

        return comparison_html(self.comparison, shown(self.comparison, every=self._every))


class Explained:
    """An explanation that renders as text or HTML. ``explanation`` is the record."""

    def __init__(self, explanation: Explanation, with_text: bool, full: bool) -> None:
        self.explanation = explanation
        self._with_text = with_text
        self._full = full

    def __repr__(self) -> str:
        from lab.report.explanation import explanation_text

        return explanation_text(self.explanation, with_text=self._with_text, full=self._full)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.3">{escape(repr(self))}</pre>'

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``lab explain --json`` prints."""
        from lab.report.explanation import explanation_json

        return explanation_json(self.explanation, with_text=self._with_text)


class Drawing:
    """A figure that renders as an image. It is drawn on first use."""

    def __init__(self, name: str, chart: Chart, caption: str) -> None:
        self.name = name
        self.caption = caption
        self.chart = chart

    @cached_property
    def figure(self) -> Figure:
        """The matplotlib figure."""
        from lab.report.slides import draw

        return draw(self.chart)

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write ``path.svg`` and ``path.png`` and return both paths. The suffix of ``path`` is ignored."""
        from lab.report.slides import save

        return save(self.figure, Path(path).with_suffix(""))

    def __repr__(self) -> str:
        return f"Drawing({self.name!r}: {self.caption or 'no caption'})"

    @cached_property
    def _png(self) -> bytes:
        from lab.report.slides import rendered

        return rendered(self.figure, "png")

    def _repr_png_(self) -> bytes:
        return self._png

    def _repr_html_(self) -> str:
        # PNG rather than SVG: notebook front ends differ in how they render SVG.
        width = round(self.figure.get_figwidth() * SHOWN_DPI)
        picture = b64encode(self._png).decode()
        return (
            f'<figure style="margin: 0">'
            f'<img src="data:image/png;base64,{picture}" width="{width}" alt="{escape(self.name)}">'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


class Figures(Mapping[str, Drawing]):
    """Figures by name. They render one below the other."""

    def __init__(self, drawings: Mapping[str, Drawing]) -> None:
        self._drawings = dict(drawings)

    def __getitem__(self, name: str) -> Drawing:
        return self._drawings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._drawings)

    def __len__(self) -> int:
        return len(self._drawings)

    def __repr__(self) -> str:
        return f"Figures({', '.join(self)})"

    def _repr_html_(self) -> str:
        return "\n".join(drawing._repr_html_() for drawing in self.values())


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory. Raises :class:`lab.base.errors.NotARun` if the folder has no manifest."""
    return Run(open_directory(Path(path)))
