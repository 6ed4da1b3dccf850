"""The page of a study: its charts and its tables in one HTML file, with the same figures as slides on demand.

Every study goes the same way: it makes points, :func:`lab.runs.tables.write_points` writes them, a :class:`Study` says
what they show, and ``lab.cli.study.finish`` writes the page and prints the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.files import write_atomically
from lab.base.formatting import number

if TYPE_CHECKING:
    from lab.report.charts import Chart


class Part(NamedTuple):
    """A table of a study, with the sentence above it and those below; ``left`` columns are names."""

    lead: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    left: int = 1
    notes: Sequence[str] = ()


class Study(NamedTuple):
    """What a study found: its charts by file name, its tables, and what explains them.

    ``name`` is the name of the page, ``about`` what stands above the tables and ``notes`` what stands below. ``data``
    is what ``--json`` prints, ``trial`` why the result is a trial, and ``next`` the command that is of use now.
    ``command`` is the command that made the study, if it is not ``lab study NAME``.
    """

    name: str
    charts: Mapping[str, Chart]
    parts: Sequence[Part]
    data: Mapping[str, Any]
    about: Sequence[str] = ()
    notes: Sequence[str] = ()
    trial: Sequence[str] = ()
    next: str = ""
    command: str = ""


def write_study(study: Study, folder: Path, *, slides: bool = False) -> tuple[Path, list[Path]]:
    """Write ``NAME.html`` into a folder, and with ``slides`` ``figures/``; return the page and the slides."""
    # What draws a page is loaded here, so that a command can name a part at no cost.
    from lab.report.build import page_script, render, write_slides
    from lab.report.charts import html
    from lab.report.sections import Table

    model = {
        "title": study.command or f"lab study {study.name}",
        "about": [*(f"trial: {reason}" for reason in study.trial), *study.about],
        "charts": [(name, html(chart), chart.words) for name, chart in study.charts.items()],
        "parts": [
            (
                part.left,
                Table(part.lead or study.name, part.headers, [[*map(_cell, row)] for row in part.rows]),
                part.notes,
            )
            for part in study.parts
        ],
        "notes": study.notes,
        "next": study.next,
        "has_slides": slides,
        "script": page_script(),
    }
    page = folder / f"{study.name}.html"
    write_atomically(page, render("study.html.j2", model))
    return page, write_slides(folder, study.charts) if slides else []


def _cell(value: object) -> str:
    return number(value) if isinstance(value, float) else "–" if value is None else str(value)
