"""The page of a night: one model of what is shown, as a self-contained HTML page and as its Markdown twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.files import write_whole
from lab.gate.line import PASS, SKIPPED
from lab.gate.outputs import gravest_first, reason
from lab.nightly.night import Night, SetNight
from lab.report.build import render

SAID = {
    "pass": "Nothing changed that must not, and nothing is shown to be worse.",
    "fail": "Something changed that must not, or is shown to be worse.",
    "inconclusive": "Something could not be decided.",
    "error": "Something could not be measured.",
}


def write_pages(night: Night) -> list[Path]:
    """Write ``night.html`` and ``night.md``; return their paths, the page first."""
    model = {
        "title": f"Night of {night.date}: {night.status}",
        "sentence": f"{SAID[night.status]} {night.about}",
        "facts": {"plan": night.plan, "commit": night.commit or "no repository"},
        "sets": [_set(one) for one in night.sets],
    }
    files = {
        night.folder / "night.html": render("night.html.j2", model),
        night.folder / "night.md": render("night.md.j2", model),
    }
    for path, data in files.items():
        write_whole(path, data)
    return list(files)


def _set(one: SetNight) -> dict[str, Any]:
    lines = [*gravest_first(one.verdict.lines), *(line for line in one.verdict.lines if line.status in (PASS, SKIPPED))]
    shown = {
        critical: [
            {"status": line.status, "name": line.name, "why": reason(line)}
            for line in lines
            if line.critical == critical
        ]
        for critical in (True, False)
    }
    return {
        "name": one.name,
        "status": one.verdict.status,
        "again": f"{one.again.changed} of {one.again.turns}" if one.again else "–",
        "changed": f"{one.exact.changed} of {one.exact.turns}" if one.exact else "–",
        "blessed": one.blessed[:12] if one.blessed else "–",
        "lines": shown[True],
        "told": shown[False],
        "moved": list(one.exact.moved) if one.exact and one.exact.changed else [],
        "first": one.exact.first() if one.exact else [],
        "columns": list(one.primary),
        "table": [[arm, *(means.get(name) for name in one.primary)] for arm, means in one.means.items()],
    }
