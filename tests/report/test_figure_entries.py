"""An entry in FIGURES is all that a figure needs to be in the report and to be removed with the run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cli.runs import rm as remove
from lab.compare.paired import compare_arms
from lab.measures.score import score_run, summarise
from lab.report import drawings
from lab.report.build import SECTIONS, build_report
from lab.report.charts import Chart, Words
from lab.report.material import ReportFigure
from lab.report.slides import draw, rendered
from lab.runs.directory import RunDirectory, open_run
from lab.runs.scores import read_gold

MakeRun = Callable[..., RunDirectory]


@pytest.fixture(scope="module")
def run(make_run: MakeRun) -> RunDirectory:
    """A run of two arms, without a report."""
    return make_run("one", "two")


@pytest.fixture(scope="module")
def found(run: RunDirectory) -> dict[str, drawings.Drawing]:
    """The figures that the run has data for."""
    comparison = compare_arms(run, *run.arms, slices=True, tested_slices=False)
    return drawings.drawings(run, summarise(score_run(run), read_gold(run), run.arms), comparison)


def _entry(name: str, section: str, **changes: object) -> ReportFigure:
    words = Words(f"The finding of {name} in a full sentence", "What is shown.")
    entry = ReportFigure(name, section, f"Heading of {name}", f"Caption of {name}.", lambda _: [])
    return replace(entry, draw=lambda _: [Chart(words, [])], **changes)


def test_entries_name_each_figure_once_and_a_section_of_the_report() -> None:
    names = [figure.name for figure in drawings.FIGURES]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z_-]*", name)] == []
    assert {figure.section for figure in drawings.FIGURES} <= set(SECTIONS)


def test_figures_of_a_report_are_slides_with_a_finding_and_equal_bytes(found: dict[str, drawings.Drawing]) -> None:
    for name, drawing in found.items():
        figure = draw(drawing.chart)
        width, height = figure.get_size_inches()
        assert (width / height, name) == (pytest.approx(16 / 9), name)
        words = drawing.chart.words
        assert len(words.title) > 20, name
        assert words.source.startswith("recall lab, run ")
        assert rendered(figure, "svg") == rendered(draw(drawing.chart), "svg"), name


@pytest.mark.parametrize("arms", [1, 2])
def test_entry_of_any_section_stands_in_the_pages_and_is_removed(
    make_run: MakeRun,
    run: RunDirectory,
    copy_of: Callable[[RunDirectory], Path],
    monkeypatch: pytest.MonkeyPatch,
    arms: int,
) -> None:
    folder = copy_of(run if arms == 2 else make_run("one", arms=("hybrid",), sessions=2))
    added = [_entry(f"added-{section}", section) for section in SECTIONS]
    timing = _entry("added-timing", "latency", repeatable=False)
    # Those of the project are in test_report.py.
    monkeypatch.setattr(drawings, "FIGURES", (*added, timing))
    build_report(open_run(folder), slides=True)
    html, markdown = ((folder / name).read_text("utf-8") for name in ("report.html", "report.md"))
    files = {file.stem for file in (folder / "figures").iterdir()}
    assert {figure.name for figure in (*added, timing)} == files
    # The page links each figure once.
    assert sorted(re.findall(r'href="figures/(\S+)\.svg"', html)) == sorted(files)
    assert set(re.findall(r"\(figures/(\S+)\.svg\)", markdown)) == files - {"added-timing"}
    for figure in added:
        position = html.index(f'<h2 id="{figure.section}">')
        later = html.find("<h2 ", position + 1)
        assert f"<h3>Heading of {figure.name}</h3>" in html[position : later if later > 0 else None]
        assert f"Caption of {figure.name}." in html
        assert f"Caption of {figure.name}." in markdown.replace("\\", "")
    remove(folder, write=True)
    assert not folder.exists()
