"""``lab rollback``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table
from lab.cli.replay_options import TURNS, takes_replay_options
from lab.errors import CheckFailed, NotComparable

if TYPE_CHECKING:
    from lab.replay.plan import ReplayRequest


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("rollback")(rollback)


@takes_replay_options(
    *("labels", "hard_rules", "categories", "seed", *TURNS),
    *("profile", "memories", "memories_from", "config", "embedder", "vectors"),
    fixed=True,
)
def rollback(request: ReplayRequest, *, as_json: Json = False) -> None:
    """Check that switching the policy back undoes the switch.

    Each conversation is replayed under --config with tier_first_v1 throughout, and
    with tier_quota_v1 in its middle third. After that third, every answer must be
    equal byte for byte: injected text, receipt, items and log. Exit code 1 if one
    differs, 3 if the switch changed nothing, so that there was nothing to undo.
    """
    from lab.canary.rollback import PHASES
    from lab.canary.rollback import rollback as check

    result = check(request, announce=announce)
    if as_json:
        emit_json(result.as_json())
    else:
        policies = dict(zip(PHASES, ("tier_first_v1", "tier_quota_v1", "tier_first_v1"), strict=True))
        rows = [[phase, policies[phase], result.recalls[phase], result.differ[phase]] for phase in PHASES]
        emit_table(["phase", "policy", "recalls", "differ"], rows, left=2)
        emit()
        if result.short:
            emit_folded(f"Left out, because they have fewer than 3 recalls: {result.short} conversations.")
        emit(f"{result.verdict.upper()}: autoRecall.selectionMode switched back to tier_first_v1")
        emit_folded(result.reason[0].upper() + result.reason[1:] + ".")
    if result.verdict == "fail":
        raise CheckFailed(f"rollback: {result.reason}")
    if result.verdict == "inconclusive":
        raise NotComparable(f"rollback: {result.reason}")
