"""``lab gate``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from lab.cli import self_test
from lab.cli.output import Json, announce, command_ci, emit, emit_json, emit_table
from lab.cli.verdict_tables import emit_verdict
from lab.errors import UnusableInput

KEPT = ("keep", "pass", "fail")
JUDGE = "judge"


class Commands(TyperGroup):
    """A group that takes a first argument which is none of its commands for one of :data:`JUDGE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """``lab gate DIR`` is ``lab gate judge DIR``."""
        return super().parse_args(ctx, args if args and args[0] in self.commands else [JUDGE, *args])


class Judge(TyperCommand):
    """The command that is meant where none is named: its help names the others."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options, and the commands of the group."""
        super().format_options(ctx, formatter)
        if ctx.parent is not None and isinstance(ctx.parent.command, Commands):
            ctx.parent.command.format_commands(ctx.parent, formatter)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(cls=Commands, help="A verdict by a policy; policies, schemas.")
    group.command(JUDGE, cls=Judge)(judge)
    group.command("policies")(policies)
    group.command("schema")(schema)
    self_test.add_to(group)
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


def schema(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="verdict or policy.")],
    as_json: Json = False,
) -> None:
    """Print the JSON Schema (2020-12) of verdict.json or of a policy."""
    from lab.gate.schema import SCHEMAS

    if what not in SCHEMAS:
        raise UnusableInput(f"{what!r}: there is a schema of: {', '.join(SCHEMAS)}")
    found = SCHEMAS[what]()
    if as_json:
        emit_json(found)
    else:
        emit(json.dumps(found, indent=2, ensure_ascii=False))


def judge(
    run: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A run directory, where the policy asks for one.")
    ] = None,
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            help="A shipped policy (see lab gate policies), or a TOML file. "
            "[default: stage-b where --receipts is given, else rollout]"
        ),
    ] = None,
    receipts: Annotated[
        Path | None,
        typer.Option(metavar="AUDIT", help="What lab receipts audit --out wrote, where the policy asks for it."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="DIR2", help="Compare the candidate with the arm of its name in this run."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the verdict goes. [default: DIR, else the folder of AUDIT]")
    ] = None,
    inconclusive_as: Annotated[
        str, typer.Option("--inconclusive-as", help="keep, pass or fail: what an inconclusive verdict ends with.")
    ] = "keep",
    as_json: Json = False,
) -> None:
    """Judge a run, an audit of live receipts, or both, by a policy.

    Exit codes: 0 pass, 1 fail, 2 unusable policy or input, 3 inconclusive, 4 could not measure. Writes verdict.json,
    verdict.xml (JUnit) and verdict.prom (OpenMetrics); a GitHub step summary where one is asked for by the environment.
    A folder that is called like one of the commands below is given as ./NAME.
    """
    from lab.files import cannot_write
    from lab.gate import verdict as gate
    from lab.gate.line import INCONCLUSIVE
    from lab.gate.outputs import policy_of, summary, workflow_commands, write_verdict
    from lab.gate.policy import read_policy
    from lab.gate.receipts import read_audit
    from lab.runs.directory import open_run

    if inconclusive_as not in KEPT:
        raise UnusableInput(f"--inconclusive-as {inconclusive_as!r}: known are {', '.join(KEPT)}")
    asked = read_policy(policy or ("stage-b" if receipts else "rollout"))
    verdict = gate.judge(
        asked,
        open_run(run) if run else None,
        against=open_run(against) if against else None,
        audit=read_audit(receipts) if receipts else None,
    )
    if run and not against and any(rule.kind == "exact" for rule in asked.rules):
        announce(
            f"policy {asked.name} is meant for --against DIR2; without it {asked.candidate} is compared with "
            f"{asked.baseline}, another arm of the same run"
        )
    folder = out or run or (receipts.parent if receipts else Path())
    before = policy_of(folder)
    files = write_verdict(verdict, folder)
    if before not in (None, verdict.policy):
        announce(f"{folder}: replaces the verdict of policy {before}; --out keeps them apart")
    step = os.environ.get("GITHUB_STEP_SUMMARY")
    if step:
        try:
            with Path(step).open("a", encoding="utf-8", errors="replace") as opened:
                opened.write(summary(verdict))
        except OSError as error:
            raise cannot_write(Path(step), error) from error
        for command in workflow_commands(verdict):
            command_ci(command)
    if as_json:
        emit_json(verdict.as_json())
    else:
        emit_verdict(verdict)
        emit(f"{files[0]}, {files[1].name}, {files[2].name}")
    treated = inconclusive_as if verdict.status == INCONCLUSIVE and inconclusive_as != "keep" else verdict.status
    if treated != verdict.status:
        announce(
            f"exit code {gate.EXIT[treated]}, not {verdict.exit_code}: the verdict is inconclusive, "
            f"and --inconclusive-as {inconclusive_as} was given"
        )
    raise typer.Exit(gate.EXIT[treated])
