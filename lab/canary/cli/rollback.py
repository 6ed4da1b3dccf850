"""``lab canary rollback``: check that switching the policy back undoes the switch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CheckFailed, NotComparable
from lab.base.formatting import counted, sentence
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_notes, emit_table, emit_trial
from lab.cli.replay_options import TURNS, takes_replay_options

if TYPE_CHECKING:
    from lab.replay.plan import ReplayRequest


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("rollback")(rollback)


@takes_replay_options(
    *("labels", "hard_rules", "categories", "seed", *TURNS),
    *("profile", "memories", "memories_from", "embedder", "vectors"),
    fixed=True,
)
def rollback(
    request: ReplayRequest,
    *,
    config: Annotated[
        Path, typer.Option("--config", help="Engine configuration (JSON or YAML) to switch.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Check that switching the policy back undoes the switch.

    Each conversation is replayed under --config with tier_first_v1 throughout, and
    with tier_quota_v1 in its middle third. After that third, every answer must be
    equal byte for byte: injected text, receipt, items and log. Exit code 1 if one
    differs, 3 if the switch changed nothing, so that there was nothing to undo. A
    complete openclaw.json that its host refuses is unusable.
    """
    from dataclasses import replace

    from lab.replay.rollback import PHASES
    from lab.replay.rollback import rollback as check

    result = check(replace(request, config=str(config)), announce=announce)
    if as_json:
        emit_json(result.as_json())
    else:
        emit_trial(result.trial)
        emit_notes(result.notes)
        policies = dict(zip(PHASES, ("tier_first_v1", "tier_quota_v1", "tier_first_v1"), strict=True))
        rows = [[phase, policies[phase], result.recalls[phase], result.differ[phase]] for phase in PHASES]
        emit_table(["phase", "policy", "recalls", "differ"], rows, left=2)
        emit()
        if result.short:
            emit_folded(f"Left out, with fewer than 3 recalls: {counted(result.short, 'conversation')}.")
        emit(f"{result.verdict.upper()}: autoRecall.selectionMode switched back to tier_first_v1")
        emit_folded(sentence(result.reason))
    if result.verdict != "pass":
        raise typer.Exit((CheckFailed if result.verdict == "fail" else NotComparable).exit_code)
