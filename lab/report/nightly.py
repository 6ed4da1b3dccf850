"""The page of a nightly run: one model of what is shown, as a self-contained HTML page and as its Markdown twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.files import write_atomically
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS
from lab.gate.outputs import deciding_first, reason
from lab.nightly.nightly_run import NightlyRun, SetResult
from lab.report.build import render
from lab.runs.trial import trial_line

SAID = {
    PASS: "Nothing changed that must not, and nothing is shown to be worse.",
    INCONCLUSIVE: "Something could not be decided.",
    ERROR: "Something could not be measured.",
}
# What a fail is, by the kind of rule that failed; of any other kind, a limit was passed.
FAILED = {
    "exact": "Something changed that must not.",
    "guard": "Something is shown to be worse.",
    "improve": "Something is shown not to be better.",
}
BEYOND = "Something is beyond its limit."


def write_pages(nightly_run: NightlyRun) -> list[Path]:
    """Write ``nightly.html`` and ``nightly.md``; return their paths, the page first."""
    said = trial_line(nightly_run.trial)
    model = {
        "title": f"Night of {nightly_run.date}: {nightly_run.status}" + (f" ({said})" if said else ""),
        "sentence": f"{_said(nightly_run)} What is guarded: {nightly_run.about}",
        "facts": {"plan": nightly_run.plan, "commit": nightly_run.commit or "no repository"},
        "approve": nightly_run.approve_all,
        "sets": [_set(one) for one in nightly_run.sets],
    }
    files = {
        nightly_run.folder / "nightly.html": render("nightly.html.j2", model),
        nightly_run.folder / "nightly.md": render("nightly.md.j2", model),
    }
    for path, data in files.items():
        write_atomically(path, data)
    return list(files)


def _said(nightly_run: NightlyRun) -> str:
    lines = [line for one in nightly_run.sets for line in one.verdict.lines if line.critical and line.status == FAIL]
    failed = {FAILED.get(line.kind, BEYOND) for line in lines}
    # In one order, whatever the order of the sets.
    told = " ".join(one for one in (*FAILED.values(), BEYOND) if one in failed)
    return told if nightly_run.status == FAIL else SAID[nightly_run.status]


def _set(one: SetResult) -> dict[str, Any]:
    lines = deciding_first(one.verdict.lines)
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
        "approved": one.approved[:12] if one.approved else "–",
        "lines": shown[True],
        "told": shown[False],
        "moved": list(one.exact.moved) if one.exact and one.exact.changed else [],
        "first": one.exact.first() if one.exact else [],
        "columns": list(one.primary),
        "table": [[arm, *(means.get(name) for name in one.primary)] for arm, means in one.means.items()],
    }
