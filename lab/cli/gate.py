"""``lab gate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table
from lab.errors import UnusableInput

KEPT = ("keep", "pass", "fail")


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("gate")(gate)


def gate(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    policy: Annotated[str, typer.Option(help="A shipped policy (rollout), or a TOML file.")],
    inconclusive_as: Annotated[
        str, typer.Option("--inconclusive-as", help="keep, pass or fail: what an inconclusive verdict ends with.")
    ] = "keep",
    as_json: Json = False,
) -> None:
    """Turn a comparison and a policy into a verdict.

    Exit codes: 0 pass, 1 fail, 3 inconclusive, 4 could not measure. Writes verdict.json, verdict.xml (JUnit) and
    verdict.prom (OpenMetrics) into the run; a GitHub step summary where one is asked for by the environment.
    """
    from lab.gate.outputs import summary, told, workflow_commands, write_verdict
    from lab.gate.policy import read_policy
    from lab.gate.verdict import EXIT, INCONCLUSIVE, judge
    from lab.replay.run_directory import open_run

    if inconclusive_as not in KEPT:
        raise UnusableInput(f"--inconclusive-as {inconclusive_as!r}: known are {', '.join(KEPT)}")
    verdict = judge(read_policy(policy), open_run(run))
    files = write_verdict(verdict, run)
    step = os.environ.get("GITHUB_STEP_SUMMARY")
    if step:
        with Path(step).open("a", encoding="utf-8") as opened:
            opened.write(summary(verdict))
        for command in workflow_commands(verdict):
            announce(command)
    if as_json:
        emit_json(verdict.as_json())
    else:
        emit(f"{verdict.status.upper()}: {verdict.policy}, {verdict.candidate} against {verdict.baseline}")
        emit_table(
            ["rule", "measure", "verdict", "base", "cand", "diff", "90 % interval"],
            [
                [
                    line.kind,
                    line.measure,
                    line.status if line.critical else f"({line.status})",
                    line.baseline,
                    line.candidate,
                    None if line.difference is None else f"{line.difference:+.3f}",
                    None if line.low is None or line.high is None else f"{line.low:+.3f} … {line.high:+.3f}",
                ]
                for line in verdict.lines
            ],
            left=3,
        )
        for line in verdict.lines:
            if line.status != "pass":
                emit_folded(told(line))
        if any(not line.critical for line in verdict.lines):
            emit("in brackets: told, and decides nothing")
        emit(f"{files[0]}, {files[1].name}, {files[2].name}")
    treated = inconclusive_as if verdict.status == INCONCLUSIVE and inconclusive_as != "keep" else verdict.status
    raise typer.Exit(EXIT[treated])
