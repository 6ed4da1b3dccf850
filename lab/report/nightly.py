"""The pages of a nightly run: one model, rendered as a self-contained HTML page and as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.files import write_atomically
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS
from lab.gate.outputs import deciding_first, reason
from lab.nightly.nightly_run import NightlyRun, SetResult
from lab.report.build import render
from lab.runs.trial import trial_line

SUMMARIES = {
    PASS: "No change that the policy forbids, and no measure is shown to be worse.",
    INCONCLUSIVE: "At least one rule is inconclusive.",
    ERROR: "At least one rule could not be measured.",
}
# The summary of a failure by the kind of the failed rule; all other kinds are limits.
FAILURES = {
    "exact": "Receipts changed.",
    "guard": "A measure is shown to be worse.",
    "improve": "A measure is shown not to be better.",
}
BEYOND = "A limit is violated."


def write_pages(nightly_run: NightlyRun) -> list[Path]:
    """Write ``nightly.html`` and ``nightly.md``; return their paths, HTML first."""
    trial = trial_line(nightly_run.trial)
    model = {
        "title": f"Nightly run of {nightly_run.date}: {nightly_run.status}" + (f" ({trial})" if trial else ""),
        "sentence": _summary(nightly_run),
        "facts": {
            "plan": nightly_run.plan,
            "the plan requires": nightly_run.about,
            "commit": nightly_run.commit or "no repository",
        },
        "approve": nightly_run.approve_all,
        "sets": [_set(result) for result in nightly_run.sets],
    }
    files = {
        nightly_run.folder / "nightly.html": render("nightly.html.j2", model),
        nightly_run.folder / "nightly.md": render("nightly.md.j2", model),
    }
    for path, data in files.items():
        write_atomically(path, data)
    return list(files)


def _summary(nightly_run: NightlyRun) -> str:
    lines = [
        line for result in nightly_run.sets for line in result.verdict.lines if line.critical and line.status == FAIL
    ]
    failed = {FAILURES.get(line.kind, BEYOND) for line in lines}
    # In a fixed order, independent of the order of the sets.
    sentences = " ".join(sentence for sentence in (*FAILURES.values(), BEYOND) if sentence in failed)
    return sentences if nightly_run.status == FAIL else SUMMARIES[nightly_run.status]


def _set(result: SetResult) -> dict[str, Any]:
    lines = deciding_first(result.verdict.lines)
    shown = {
        critical: [
            {"status": line.status, "name": line.name, "why": reason(line)}
            for line in lines
            if line.critical == critical
        ]
        for critical in (True, False)
    }
    return {
        "name": result.name,
        "status": result.verdict.status,
        "again": f"{result.again.changed} of {result.again.turns}" if result.again else "–",
        "changed": f"{result.exact.changed} of {result.exact.turns}" if result.exact else "–",
        "approved": result.approved[:12] if result.approved else "–",
        "lines": shown[True],
        "advisory": shown[False],
        "moved": list(result.exact.moved) if result.exact and result.exact.changed else [],
        "first": result.exact.first() if result.exact else [],
        "columns": list(result.primary),
        "table": [[arm, *(means.get(name) for name in result.primary)] for arm, means in result.means.items()],
    }
