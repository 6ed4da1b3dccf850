"""What ``lab init`` prints: what is in a home, and after a replay what was done, left out and found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lab.base.formatting import counted
from lab.cli.output import emit, emit_folded, emit_notes, emit_suspects, emit_table, emit_trial

if TYPE_CHECKING:
    from lab.gate.verdict import Verdict
    from lab.host.home import Home
    from lab.host.snapshot import Snapshot
    from lab.replay.run import Outcome


def show_home(home: Home) -> None:
    """Print what a home contains, what of it is used, and what is missing."""
    rows = [
        [part.what, part.where, f"damaged: {part.problem}" if part.problem else part.contains, _use(part.used)]
        for part in home.parts
    ]
    emit_table([str(home.path), "where", "contains", "used"], rows, left=4)
    for text in home.lacks:
        emit_folded(f"missing: {text}")
    for text in home.off:
        emit_folded(f"warning: {text}")
    emit()


def _use(used: bool) -> str:
    return "yes" if used else "no"


def show_outcome(
    outcome: Outcome,
    snapshot: Snapshot,
    verdicts: dict[str, Verdict],
    page: Path,
    plan: Path,
    named: Mapping[str, Path | None],
) -> None:
    """Print what was done; ``named`` are the paths for the names in commands."""
    from lab.cli.verdict_tables import emit_verdict
    from lab.host.home import in_bytes
    from lab.runs.notes import config_notes, trial

    run = outcome.run
    emit_trial(trial(run.manifest))
    if "change" not in verdicts:
        # The verdict has these notes as well.
        emit_notes(config_notes(run.manifest.resolved))
    recalls = sum(run.manifest.recall_points.values())
    emit(f"Snapshot {snapshot.path}: {counted(len(snapshot.files), 'file')}, {in_bytes(snapshot.size)}")
    emit(f"  sha256 {snapshot.sha256}")
    emit_folded(
        f"replayed: {counted(len(run.conversations), 'conversation')}, {counted(recalls, 'recall')} of each arm"
        + (f", {counted(snapshot.rows, 'memory')}" if snapshot.rows is not None else "")
    )
    _show_left_out(outcome, snapshot)
    for name, verdict in verdicts.items():
        emit()
        emit(f"── {name} ──")
        emit_verdict(verdict, named=named)
    emit()
    emit(f"Open {page}")
    emit(f"Daily: lab nightly run --plan {plan}")


def _show_left_out(outcome: Outcome, snapshot: Snapshot) -> None:
    """Print what was left out of the replay by kind and count: conversations, files, and entries of transcripts."""
    from lab.recordings.inventory import notable

    origins = outcome.run.manifest.origins
    out = origins.left_out if origins else {}
    rows: list[list[object]] = [[f"conversations of {name} (--origin {name})", count] for name, count in out.items()]
    rows += [[f"{name}: {why}", 1] for name, why in snapshot.left_out.items()]
    rows += [[f"{name}: bytes of a line that was being written", size] for name, size in snapshot.cut.items()]
    rows += [[skipped.what, skipped.count] for skipped in notable(outcome.passed)]
    # The table has the first note, if something was left out.
    for note in outcome.run.manifest.origin_notes[bool(out) :]:
        emit_folded(note)
    if rows:
        emit()
        emit_table(["left out", "count"], rows)
    emit_suspects(outcome.suspects)
