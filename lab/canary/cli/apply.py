"""``lab canary apply``: what a verdict changes in a gateway's configuration, printed and not written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.base.config_env import config_if_named
from lab.base.formatting import together
from lab.cli.output import Json, emit, emit_folded, emit_json


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("apply")(apply)


def apply(
    path: Annotated[
        Path, typer.Argument(metavar="VERDICT", help="A verdict.json, or its folder: a judged run, or a canary.")
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            callback=lambda given: config_if_named(given),
            help="The gateway's openclaw.json or its folder, to see the lines that change. [default: the one that "
            "OPENCLAW_CONFIG_PATH or OPENCLAW_STATE_DIR names]",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the configuration patch that follows from a verdict.

    After a pass: what was judged, as a JSON merge patch of openclaw.json and, with --config, as the edited lines.
    After anything else: how to set back what a canary switched, if the file still has it. Writes nothing. Exit codes
    are those of the verdict.
    """
    import json

    from lab.canary.rollout.change import resolved_host
    from lab.canary.rollout.run import applied, patch_of, verdict_at
    from lab.gate.outputs import headline

    verdict, folder = verdict_at(path)
    before = None
    if config is not None:
        before = resolved_host(config).value
    patch = patch_of(verdict, folder, before)
    edited = applied(config, patch) if config is not None else None
    if as_json:
        emit_json(
            {
                "status": verdict.status,
                "why": patch.why,
                "trial": list(verdict.trial),
                "patch": patch.merge_patch(),
                "lines": list(edited.lines) if edited else None,
                "already": list(edited.already) if edited else None,
                "refused": list(edited.refused) if edited else None,
            }
        )
        raise typer.Exit(verdict.exit_code)
    emit_folded(headline(verdict))
    emit_folded(f"{patch.why[0].upper()}{patch.why[1:]}.")
    if patch.values:
        emit()
        emit(json.dumps(patch.merge_patch(), indent=2, ensure_ascii=False))
    if edited:
        emit()
        if edited.lines:
            emit(f"{config}, which is not changed by this command:")
        for line in edited.lines:
            emit(line)
        if edited.already:
            emit_folded(f"Set already: {together(edited.already)}.")
        for problem in edited.refused:
            emit_folded(f"warning: {problem}")
    raise typer.Exit(verdict.exit_code)
