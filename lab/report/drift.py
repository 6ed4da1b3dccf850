"""The page of ``lab ledger drift``: label shares by period, and by scope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.canary.drift import Drift, Part
from lab.errors import UnusableInput
from lab.files import write_atomically
from lab.formatting import counted
from lab.recordings.model import IGNORE, LABELS, MUST, NICE, UNKNOWN
from lab.report import charts
from lab.report.build import page_script, render
from lab.report.units import percent

MARK = b"<!-- drift page of lab ledger drift -->"
COLOURS = {MUST: "#0072B2", NICE: "#56B4E9", IGNORE: "#999999", UNKNOWN: "#D55E00"}
# Periods that a page shows; older ones are in the JSON.
SHOWN = 60


def write_page(found: Drift, name: str, path: Path) -> Path:
    """Write the page as one HTML file; refuse to replace a file that is no such page."""
    if path.exists() and MARK not in path.read_bytes():
        raise UnusableInput(f"{path}: exists and is not a page of `lab ledger drift`; choose another file")
    periods = found.periods[-SHOWN:]
    model = {
        "title": f"Label drift of {name}",
        "facts": _facts(found),
        "labels": LABELS,
        "parts": [
            (found.by, f"By {found.by}", [_row(part) for part in reversed(periods)], _bars(periods)),
            ("scope", "By scope", [_row(part) for part in found.scopes], _bars(found.scopes)),
        ],
        "legend": charts.areas(COLOURS),
        "script": page_script(),
    }
    write_atomically(path, render("drift.html.j2", model))
    return path


def _facts(found: Drift) -> list[str]:
    total = sum(part.total for part in found.scopes)
    unknown = sum(part.labels[UNKNOWN] for part in found.scopes)
    facts = [f"{counted(total, 'memory')}, {percent(unknown / total)} labelled unknown."]
    if found.periods:
        newest = found.periods[-1]
        facts.append(f"{newest.name}: {counted(newest.total, 'memory')}, {percent(newest.share(UNKNOWN))} unknown.")
    if found.change is not None:
        facts.append(
            f"The labels of the newest {found.by} differ from those before by {percent(found.change.distance)} (total "
            f"variation distance, p {found.change.p:.3f})."
        )
    if found.undated:
        facts.append(f"{counted(found.undated, 'memory')} without a time are in no {found.by}.")
    return facts


def _row(part: Part) -> dict[str, Any]:
    shares = [percent(part.share(label)) for label in LABELS]
    return {"name": part.name, "memories": part.total, "shares": shares}


def _bars(parts: list[Part]) -> str:
    rows = [
        charts.Bar(part.name, {label: part.share(label) for label in LABELS if part.labels[label]}, f"{part.total}")
        for part in parts
    ]
    return charts.bars(rows, COLOURS, 1.0)
