"""A run in a notebook: its tables as pandas frames, its comparisons, figures and explanations as what shows itself.

Everything is read when it is first asked for and kept. Whatever shows itself as HTML is escaped; texts of turns and
memories are shown where they are asked for, and nowhere else.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.formatting import counted
from lab.runs.directory import RunDirectory
from lab.runs.directory import open_run as open_directory
from lab.runs.manifest import Manifest
from lab.runs.trial import trial, trial_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from lab.compare.paired import Comparison
    from lab.replay.explain import Explanation
    from lab.report.entry import Draw

# Pixels that an inch of a figure takes on a page; the picture has twice as many, and is sharp on any screen.
SHOWN_DPI = 72


class Run:
    """A finished run; ``directory`` is what the functions of the lab take as one.

    A frame that was handed out is yours to change: the next one that is asked for is as it was on disk.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.directory.path

    @property
    def manifest(self) -> Manifest:
        """What was asked and resolved, with versions and code; see ``manifest.json``."""
        return self.directory.manifest

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in the order in which they were asked for."""
        return self.directory.arms

    @property
    def conversations(self) -> list[str]:
        """Conversations by id."""
        return self.directory.conversations

    def __repr__(self) -> str:
        said = trial_line(trial(self.manifest))
        return (
            f"Run({str(self.path)!r}: {self.manifest.status}, {counted(len(self.conversations), 'conversation')}, "
            f"arms {', '.join(self.arms)}{f', {said}' if said else ''})"
        )

    @property
    def turns(self) -> pd.DataFrame:
        """What happened: a row an arm and moment; columns as :func:`lab.report.frames.turns_frame` says."""
        return self._turns.copy(deep=False)

    @property
    def items(self) -> pd.DataFrame:
        """What came back: a row a returned memory; columns as :func:`lab.report.frames.items_frame` says."""
        return self._items.copy(deep=False)

    @property
    def scores(self) -> pd.DataFrame:
        """Every value of every measure; columns as :func:`lab.report.frames.scores_frame` says."""
        return self._scores.copy(deep=False)

    @property
    def latency(self) -> pd.DataFrame:
        """Times by stage; columns as :func:`lab.report.frames.latency_frame` says."""
        return self._latency.copy(deep=False)

    @property
    def figures(self) -> Figures:
        """The figures of the report, by name."""
        return self._figures

    def figure(self, name: str) -> Drawing:
        """One of the figures; :class:`lab.errors.UnusableInput` names those there are."""
        from lab.errors import UnusableInput

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
        """Two arms over the same turns, of this run or of another (``DIR:ARM``), as ``lab compare`` does it.

        ``every`` shows all measures and not the primary ones alone. Raises what
        :func:`lab.compare.paired.compare_arms` raises.
        """
        from lab.compare.paired import compare_arms

        return Compared(compare_arms(self.directory, baseline, candidate, primary=primary, slices=slices), every)

    def explain(self, turn: str, arm: str | None = None, *, with_text: bool = False, full: bool = False) -> Explained:
        """Why each memory has its place in one turn, as ``lab explain`` tells it; the first arm by default.

        The recording must be where it was. Texts of the turn and of memories are shown ``with_text`` alone.
        """
        from lab.replay.explain import explain

        return Explained(explain(self.directory, turn, arm or self.arms[0]), with_text, full)

    @cached_property
    def _turns(self) -> pd.DataFrame:
        from lab.report.frames import turns_frame

        return turns_frame(self.directory)

    @cached_property
    def _items(self) -> pd.DataFrame:
        from lab.report.frames import items_frame

        return items_frame(self.directory)

    @cached_property
    def _scores(self) -> pd.DataFrame:
        from lab.report.frames import scores_frame

        return scores_frame(self.directory)

    @cached_property
    def _latency(self) -> pd.DataFrame:
        from lab.report.frames import latency_frame

        return latency_frame(self.directory)

    @cached_property
    def _figures(self) -> Figures:
        from lab.compare.paired import compare_arms
        from lab.measures.score import score_run, summarise
        from lab.report.drawings import drawings
        from lab.report.pair import choose_pair
        from lab.runs.gold import read_gold

        baseline, candidate = choose_pair(self.directory, None, None)
        summary = summarise(score_run(self.directory), read_gold(self.directory), self.arms)
        comparison = (
            compare_arms(self.directory, baseline, candidate, slices=True, tested_slices=False) if candidate else None
        )
        found = drawings(self.directory, summary, comparison)
        return Figures({name: Drawing(name, one.draw, one.figure.caption) for name, one in found.items()})


class Compared:
    """A comparison that shows itself. ``found`` is all there is to it, ``frame`` its measures as a table."""

    def __init__(self, found: Comparison, every: bool = False) -> None:
        self.found = found
        self._every = every

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row a measure, whether shown or not; see :func:`lab.report.frames.comparison_frame`."""
        from lab.report.frames import comparison_frame

        return comparison_frame(self.found)

    @cached_property
    def figure(self) -> Drawing:
        """The primary measures with their intervals."""
        from functools import partial

        from lab.report.comparison import shown, worse
        from lab.report.drawings import CAPTIONS
        from lab.report.figures import forest_figure

        beyond = [one.measure for one in worse(self.found)]
        draw = partial(forest_figure, shown(self.found), self.found.baseline, self.found.candidate, beyond=beyond)
        return Drawing("forest", draw, CAPTIONS["forest"])

    def __repr__(self) -> str:
        from lab.report.comparison import comparison_text, shown

        return comparison_text(self.found, shown(self.found, every=self._every))

    def _repr_html_(self) -> str:
        from lab.report.comparison import comparison_html, shown

        return comparison_html(self.found, shown(self.found, every=self._every))


class Explained:
    """An explanation that shows itself on one screen. ``found`` is all there is to it."""

    def __init__(self, found: Explanation, with_text: bool, full: bool) -> None:
        self.found = found
        self._with_text = with_text
        self._full = full

    def __repr__(self) -> str:
        from lab.report.explanation import explanation_text

        return explanation_text(self.found, with_text=self._with_text, full=self._full)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height: 1.3">{escape(repr(self))}</pre>'

    def as_json(self) -> dict[str, Any]:
        """Plain values, as ``lab explain --json`` prints them."""
        from lab.report.explanation import explanation_json

        return explanation_json(self.found, with_text=self._with_text)


class Drawing:
    """A figure that shows itself; it is drawn when it is first looked at."""

    def __init__(self, name: str, draw: Draw, caption: str) -> None:
        self.name = name
        self.caption = caption
        self._draw = draw

    @cached_property
    def figure(self) -> Figure:
        """The matplotlib figure."""
        return self._draw()

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write ``path.svg`` and ``path.png``; an ending of the path is not looked at."""
        from lab.report.figures import save

        return save(self.figure, Path(path).with_suffix(""))

    def __repr__(self) -> str:
        return f"Drawing({self.name!r}: {self.caption or 'no caption'})"

    @cached_property
    def _png(self) -> bytes:
        from lab.report.figures import rendered

        return rendered(self.figure, "png")

    def _repr_png_(self) -> bytes:
        return self._png

    def _repr_html_(self) -> str:
        # A picture and no SVG: what a notebook shows of others' SVG differs from one to the next.
        width = round(self.figure.get_figwidth() * SHOWN_DPI)
        picture = b64encode(self._png).decode()
        return (
            f'<figure style="margin: 0">'
            f'<img src="data:image/png;base64,{picture}" width="{width}" alt="{escape(self.name)}">'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


class Figures(Mapping[str, Drawing]):
    """Figures by name, which show themselves one below the other."""

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
        return "\n".join(one._repr_html_() for one in self.values())


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory; a folder without a manifest of ours is :class:`lab.errors.NotARun`."""
    return Run(open_directory(Path(path)))
