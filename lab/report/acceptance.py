"""The page of ``lab acceptance``: one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.base.files import write_atomically
from lab.base.formatting import number, signed
from lab.gate.line import Line
from lab.report.build import render
from lab.runs.notes import trial_line
from lab.studies.acceptance.criteria import CRITERIA, M1, Result, Test
from lab.studies.acceptance.verdict import HEADERS, Acceptance, headline, readings_table, shown_status

PAGE = "acceptance.html"


def write_page(acceptance: Acceptance, folder: Path) -> Path:
    """Write ``acceptance.html`` into a folder and return its path."""
    trial = trial_line(acceptance.trial)
    arms = list(dict.fromkeys(result.arm for result in acceptance.results if result.criterion != M1.id))
    by = {(result.criterion, result.arm): result for result in acceptance.results}
    model = {
        "title": f"Acceptance: {acceptance.status}" + (f" ({trial})" if trial else ""),
        "sentence": headline(acceptance),
        "about": acceptance.about,
        "large": acceptance.large,
        "runs": acceptance.runs,
        "arms": arms,
        "readings": acceptance.readings,
        "floor": acceptance.floor,
        "compared": {"headers": HEADERS, "rows": readings_table(acceptance)},
        "criteria": [
            {
                "id": criterion.id,
                "title": criterion.title,
                "source": criterion.source,
                "cells": [_status(by[criterion.id, arm]) for arm in arms],
                "results": [_result(by[criterion.id, arm]) for arm in arms],
            }
            for criterion in CRITERIA
        ],
        "m1": {"title": M1.title, "source": M1.source, "result": _result(acceptance.results[-1])},
    }
    path = folder / PAGE
    write_atomically(path, render("acceptance.html.j2", model))
    return path


def _status(result: Result) -> dict[str, str]:
    """Return the status in words, and the class of its colour."""
    return {"status": shown_status(result), "kind": result.status if result.applies else ""}


def _result(result: Result) -> dict[str, Any]:
    return {
        "arm": result.arm,
        **_status(result),
        "reason": result.reason,
        "settles": result.settles,
        "tests": [_test(test) for test in result.tests],
    }


def _reference(line: Line) -> str:
    if line.baseline is None:
        return line.limit or "–"
    return number(line.baseline) + (f" ({line.against})" if line.against else "")


def _test(test: Test) -> dict[str, str]:
    line = test.line
    interval = f"{signed(line.low)} to {signed(line.high)}" if line.low is not None and line.high is not None else "–"
    return {
        "about": test.about + (" (check)" if test.is_check else ""),
        "status": line.status,
        "measure": line.measure,
        "candidate": number(line.candidate) if line.candidate is not None else "–",
        "reference": _reference(line),
        "difference": signed(line.difference) if line.difference is not None else "–",
        "interval": interval,
        "n": f"{line.n} / {line.conversations}" if line.n is not None else "–",
        "turns": test.turns.bounds if test.turns else "–",
    }
