"""``lab gate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table
from lab.errors import UnusableInput

KEPT = ("keep", "pass", "fail")
JUDGE = "judge"


class Verbs(TyperGroup):
    """A group that takes a first argument which is none of its verbs for one of :data:`JUDGE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """``lab gate DIR`` is ``lab gate judge DIR``."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else [JUDGE, *args])


class Judge(TyperCommand):
    """The verb that is meant where none is named: its help names the others."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options, and the verbs of the group."""
        super().format_options(ctx, formatter)
        if ctx.parent is not None and isinstance(ctx.parent.command, Verbs):
            ctx.parent.command.format_commands(ctx.parent, formatter)


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    group = typer.Typer(cls=Verbs, help="A verdict by a policy; policies, schemas.")
    group.command(JUDGE, cls=Judge)(judge)
    group.command("policies")(policies)
    app.add_typer(group, name="gate")


def policies(
    show: Annotated[str | None, typer.Option(help="Print this one, to be copied and changed.")] = None,
    as_json: Json = False,
) -> None:
    """List the policies that come with the lab."""
    from lab.files import read_text
    from lab.gate.policy import SHIPPED, read_policy, shipped_policies

    if show is not None:
        if show not in shipped_policies():
            raise UnusableInput(f"--show {show!r}: there are: {', '.join(shipped_policies())}")
        text = read_text(SHIPPED / f"{show}.toml")
        if as_json:
            emit_json({"policy": show, "text": text})
        else:
            emit(text.rstrip("\n"))
        return
    found = [read_policy(name) for name in shipped_policies()]
    if as_json:
        emit_json({"policies": [{"policy": one.name, "about": one.about, "rules": len(one.rules)} for one in found]})
    else:
        emit_table(["policy", "what passing means"], [[one.name, one.about] for one in found], left=2)


def judge(
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
    from lab.gate import verdict as gate
    from lab.gate.outputs import summary, told, workflow_commands, write_verdict
    from lab.gate.policy import read_policy
    from lab.gate.verdict import EXIT, INCONCLUSIVE
    from lab.replay.run_directory import open_run

    if inconclusive_as not in KEPT:
        raise UnusableInput(f"--inconclusive-as {inconclusive_as!r}: known are {', '.join(KEPT)}")
    verdict = gate.judge(read_policy(policy), open_run(run))
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
