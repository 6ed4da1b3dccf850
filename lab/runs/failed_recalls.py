"""The recalls of a run that failed, in one sentence: how many, where first, why, and what mends it."""

from __future__ import annotations

from lab.runs.directory import RunDirectory, failed_summary
from lab.systems.external.remedies import remedy


def why_failed(run: RunDirectory) -> str:
    """Return how many recalls of which arms failed, and the place, reason and remedy of the first one."""
    summary = failed_summary(run.manifest.failed)
    first = next(iter(run.failed_recalls()), None)
    if first is None:
        return summary
    mended = remedy(first.failure, first.arm)
    at = f"probe {first.probe} at {first.turn}" if first.probe else first.turn
    return f"{summary}; first at {at}: {first.failure}" + (f"; {mended}" if mended else "")
