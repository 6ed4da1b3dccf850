"""The page of ``lab memory ledger drift``: label shares by period, and by scope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import write_atomically
from lab.base.formatting import counted
from lab.memory.ledger.drift import Drift, Part, nouns
from lab.recordings.model import TIER_OF, UNKNOWN
from lab.report import charts
from lab.report.build import page_script, render
from lab.report.charts import INKS, TIERS
from lab.report.units import percent

MARK = b"<!-- drift page of lab memory ledger drift -->"
# Periods that a page shows, the newest, and scopes that its chart shows, the largest.
PERIODS, SCOPES = 60, 30
# The labels in the order of the report's legends.
LABELS = {tier: next(label for label, name in TIER_OF.items() if name == tier) for tier in TIERS}
GRADED = "Grades of heuristic-v1 on the texts. The sidecar's threshold is 0.80; nice_to_have begins at 0.50."


def write_page(found: Drift, name: str, path: Path) -> Path:
    """Write the page as one HTML file; refuse to replace a file that is no such page."""
    if path.exists() and MARK not in path.read_bytes():
        raise UnusableInput(f"{path}: exists and is not a page of `lab memory ledger drift`; choose another file")
    periods, scopes, thresholds = found.periods[-PERIODS:], found.scopes[:SCOPES], found.thresholds
    noun = _noun(found)
    older, smaller = len(found.periods) - len(periods), len(found.scopes) - len(scopes)
    model = {
        "title": f"Label drift of {name}",
        "facts": _facts(found),
        "labels": list(LABELS),
        "head_of_rows": nouns(found.kind),
        "parts": [
            (name, heading, note, [_row(part) for part in rows], _bars(parts, noun))
            for name, heading, note, rows, parts in (
                (found.by, f"By {found.by}", _rest("newest", periods, older), periods[::-1], periods),
                ("scope", "By scope", _rest("largest", scopes, smaller), found.scopes, scopes),
                ("threshold", "If must_remember began at another score", GRADED, thresholds, thresholds),
            )
            if parts
        ],
        "legend": charts.legend(charts.areas(TIERS)),
        "script": page_script(),
    }
    write_atomically(path, render("drift.html.j2", model))
    return path


def _facts(found: Drift) -> list[str]:
    total = sum(part.total for part in found.scopes)
    unknown = sum(part.labels[UNKNOWN] for part in found.scopes)
    noun = _noun(found)
    facts = [f"{counted(total, noun)}, {percent(unknown / total)} labelled unknown."]
    if found.periods:
        newest = found.periods[-1]
        facts.append(f"{newest.name}: {counted(newest.total, noun)}, {percent(newest.share(UNKNOWN))} unknown.")
    if found.change is not None:
        facts.append(
            f"The labels of the newest {found.by} differ from those before by {percent(found.change.distance)} (total "
            f"variation distance, p\N{NO-BREAK SPACE}{found.change.p:.3f})."
        )
    if found.undated:
        facts.append(f"{counted(found.undated, noun)} without a time are in no {found.by}.")
    return facts


def _rest(which: str, shown: list[Part], left: int) -> str:
    return f"The chart shows the {which} {len(shown)} of {len(shown) + left}." if left else ""


def _row(part: Part) -> dict[str, Any]:
    shares = [percent(part.share(label)) for label in LABELS.values()]
    return {"name": part.name, "memories": part.total, "shares": shares}


def _noun(found: Drift) -> str:
    return "observation" if found.kind == "ledger" else "memory"


def _bars(parts: list[Part], noun: str) -> str:
    rows = [
        charts.Bar(part.name, {tier: part.share(label) for tier, label in LABELS.items()}, counted(part.total, noun))
        for part in parts
    ]
    return charts.bars(charts.Bars(rows, TIERS, 1.0, INKS))
