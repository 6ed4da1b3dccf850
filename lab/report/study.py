"""The page of a study: its charts and its tables in one HTML file, with the same figures as slides on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.files import write_atomically
from lab.base.formatting import number
from lab.report.build import page_script, render, write_slides
from lab.report.charts import Chart, html
from lab.report.sections import Table


class Part(NamedTuple):
    """A table of a study, with the sentence above it; ``left`` columns are names."""

    lead: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    left: int = 1


class Study(NamedTuple):
    """What a study found: its charts by file name, its tables, and what explains them.

    ``data`` is what ``--json`` prints, and ``trial`` why the result is a trial.
    """

    name: str
    charts: Mapping[str, Chart]
    parts: Sequence[Part]
    data: Mapping[str, Any]
    about: str = ""
    notes: Sequence[str] = ()
    trial: Sequence[str] = ()


def write_study(study: Study, folder: Path, *, slides: bool = False) -> tuple[Path, list[Path]]:
    """Write ``NAME.html`` into a folder, and with ``slides`` ``figures/``; return the page and the slides."""
    model = {
        "title": f"lab study {study.name}",
        "about": [*(f"trial: {reason}" for reason in study.trial), *([study.about] if study.about else [])],
        "charts": [(name, html(chart), chart.words) for name, chart in study.charts.items()],
        "parts": [
            (part.left, Table(part.lead or study.name, part.headers, [[*map(_cell, row)] for row in part.rows]))
            for part in study.parts
        ],
        "notes": study.notes,
        "has_slides": slides,
        "script": page_script(),
    }
    page = folder / f"{study.name}.html"
    write_atomically(page, render("study.html.j2", model))
    return page, write_slides(folder, study.charts) if slides else []


def _cell(value: object) -> str:
    return number(value) if isinstance(value, float) else "–" if value is None else str(value)
