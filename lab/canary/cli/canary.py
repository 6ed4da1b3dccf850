"""``lab canary run`` and ``recover``: switch a live gateway for a limited time, judge it, and always roll back.

Without ``--write`` both print what they would do (CN-2).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CheckFailed, LabError, UnusableInput
from lab.base.formatting import counted, duration
from lab.canary.cli import canary_plan, canary_watch
from lab.canary.cli.canary_options import (
    TIMEOUT,
    Check,
    Config,
    Restart,
    Timeout,
    log_file,
    require_command,
    seconds_of,
)
from lab.cli import completion
from lab.cli.output import Json, announce, emit, emit_change, emit_folded

if TYPE_CHECKING:
    from lab.canary.rollout.change import Change
    from lab.canary.rollout.recover import Found
    from lab.canary.rollout.run import Outcome, Plan

INTERRUPTED = 130
STATES = {
    "original": "is as before",
    "switched": "is still switched",
    "back": "was edited and is not switched any more",
    "edited": "was edited and is still switched",
}
Write = Annotated[bool, typer.Option("--write", help="Do it. [default: print what would happen]")]
KeepEdits = Annotated[
    bool,
    typer.Option(
        "--keep-edits", help="If CONFIG was edited meanwhile, set the one value back in it. [default: change nothing]"
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("run")(run)
    app.command("recover")(recover)
    app.command("watch")(canary_watch.watch)
    app.command("plan")(canary_plan.plan)


def run(
    config: Config,
    *,
    restart: Restart,
    slot: Annotated[
        str | None, typer.Option("--slot", help="Set plugins.slots.memory to this plugin, as openclaw-mem-engine.")
    ] = None,
    selection: Annotated[
        str | None,
        typer.Option("--selection", help="Set the engine's autoRecall.selectionMode to this policy instead."),
    ] = None,
    check: Check = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", help="The gateway's log; a * stands for its date. [default: logging.file of CONFIG]"),
    ] = None,
    recalls: Annotated[
        int, typer.Option("--recalls", min=1, help="Answered recalls that end the window, at least.")
    ] = 300,
    period: Annotated[str, typer.Option("--for", help="The longest window: 90s, 30m, 4h.")] = "4h",
    golden: Annotated[
        str | None,
        typer.Option("--golden", help="A command that runs while switched; exit codes 0 pass, 1 fail, 3 inconclusive."),
    ] = None,
    policy: Annotated[
        str, typer.Option("--policy", autocompletion=completion.policies, help="The gate policy for the receipts.")
    ] = "stage-b",
    timeout: Timeout = TIMEOUT,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for receipts, audit and verdict. [default: reports/canary/TIME]"),
    ] = None,
    keep_edits: KeepEdits = False,
    guard: Annotated[
        bool, typer.Option("--guard/--no-guard", help="Run a process that rolls back if this one is killed.")
    ] = True,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Run a canary on a live gateway: Stage B of the rollout.

    Backs up CONFIG, changes one value in it, restarts the gateway, waits for recalls, judges their receipts, and puts
    CONFIG back byte for byte, whatever happened. A journal beside CONFIG is written before every step; if the canary
    is killed, a guard rolls back, and lab canary recover does it at any later time. Without --write it prints what it
    would do. Exit codes: 0 pass, 1 fail, 3 inconclusive, 2 unusable input, 4 no verdict, or not rolled back.
    """
    from lab.canary.rollout.follow import Follower, log_files
    from lab.canary.rollout.journal import State, real
    from lab.canary.rollout.run import Plan, require_unswitched, run_canary
    from lab.gate.policy import read_policy
    from lab.gate.verdict import EXIT

    # An interrupted canary says more than what it left.
    require_unswitched(State(real(config)))
    change = _change(config, slot, selection)
    found = log_file(log, change.resolved)
    require_command(restart)
    plan = Plan(
        change,
        found,
        restart,
        read_policy(policy),
        out or Path("reports/canary") / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
        check=check,
        golden=golden,
        recalls=recalls,
        seconds=seconds_of(period, "--for"),
        timeout=seconds_of(timeout, "--timeout"),
        keep_edits=keep_edits,
        guard=guard,
    )
    if not Follower(log_files(found)).as_json():
        announce(f"{found}: does not exist yet; without receipts in it there is no verdict")
    if not write:
        _emit_dry_run(plan, as_json)
        return
    for note in change.notes:
        announce(f"warning: {note}")
    outcome = run_canary(plan, tell=announce)
    _write_page(outcome, plan.out)
    if as_json:
        emit_change("canary run", change.config, outcome.as_json(plan), write=True)
    else:
        _emit_outcome(outcome, plan)
    if outcome.interrupted and not outcome.stuck:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(EXIT[outcome.status])


def _write_page(outcome: Outcome, out: Path) -> None:
    """Write the page of the verdict, without which all is done nevertheless."""
    from lab.base.files import read_json
    from lab.report.canary import write_page
    from lab.runs.directory import AUDIT

    if outcome.verdict is not None:
        with suppress(LabError):
            write_page(outcome.verdict, read_json(out / AUDIT), out, None)


def _change(config: Path, slot: str | None, selection: str | None) -> Change:
    from lab.canary.rollout.change import selection_change, slot_change

    if (slot is None) == (selection is None):
        raise UnusableInput("name what to switch: either --slot PLUGIN or --selection POLICY")
    return slot_change(config, slot) if slot is not None else selection_change(config, str(selection))


def _emit_dry_run(plan: Plan, as_json: bool) -> None:
    change = plan.change
    if as_json:
        receipt = {
            "path": list(change.path),
            "before": change.before if isinstance(change.before, str) else None,
            "after": change.after,
            "lines": change.lines(),
            "steps": plan.steps(),
            "notes": list(change.notes),
        }
        emit_change("canary run", change.config, receipt, write=False)
        return
    emit("Nothing was written or restarted. With --write:")
    emit()
    for number, step in enumerate(plan.steps(), 1):
        emit_folded(f"{number}. {step}")
    emit()
    emit(str(change.config))
    for line in change.lines():
        emit(line)
    for note in change.notes:
        emit_folded(f"warning: {note}")


def _emit_outcome(outcome: Outcome, plan: Plan) -> None:
    """Print the decision, whether the gateway is as before, the reasons, and where everything is."""
    from lab.gate.outputs import by_reason, gravest_first, headline

    verdict, done = outcome.verdict, outcome.rolled_back
    if outcome.stuck:
        # Not folded: it ends with a command.
        emit(outcome.stuck_line)
    if verdict:
        emit_folded(headline(verdict))
    if outcome.golden:
        emit_folded(f"Golden check: {outcome.golden}.")
    if outcome.problem:
        emit_folded(f"No verdict: {outcome.problem}")
    if not outcome.stuck:
        again = ", and the gateway was restarted" if done and done.restarted else ""
        emit_folded(f"Rolled back: {plan.change.config} is as before{again}.")
    if verdict:
        if outcome.status == "pass":
            emit_folded("To switch for good, see what would change:")
            emit(f"  lab canary apply {plan.out} --config {plan.change.config}")
        audited = verdict.audit or {"receipts": 0, "answered": 0}
        emit_folded(f"{counted(audited['receipts'], 'receipt')}, {audited['answered']} with an answer")
        if not outcome.complete:
            emit_folded(f"The window of {duration(plan.seconds)} ended before {plan.recalls} recalls were answered.")
        for status, reason in by_reason(gravest_first(verdict.lines)):
            if status != "pass":
                emit_folded(f"- {status}: {reason}")
    for note in (*plan.change.notes, *outcome.notes, *(done.notes if done else ())):
        emit_folded(f"note: {note}")
    emit(f"{plan.out}: {', '.join(sorted(path.name for path in plan.out.iterdir()))}")


def recover(
    config: Config,
    *,
    keep_edits: KeepEdits = False,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Roll back a canary that was killed.

    Puts CONFIG back byte for byte by the journal beside it, and restarts the gateway. If there is nothing to recover,
    it says so; it can be repeated at any time. A configuration that somebody edited meanwhile is not overwritten.
    Without --write it prints what it would do, with exit code 1 if a canary was left over.
    """
    from lab.canary.rollout.journal import State, read_config, real
    from lab.canary.rollout.recover import find
    from lab.canary.rollout.recover import recover as roll_back

    state = State(real(config))
    if not state.folder.is_dir():
        # A misspelt name has no journal either.
        read_config(state.config)
        _emit_recovered(None, state.config, as_json)
        return
    said = state.guard_said()
    if write:
        if said:
            announce(f"the guard of this canary: {said}")
        done = roll_back(config, keep_edits=keep_edits, tell=announce)
        if as_json:
            receipt = {"recovered": done is not None, **(done._asdict() if done else {})}
            emit_change("canary recover", state.config, receipt, write=True)
            return
        if done is None:
            _emit_recovered(None, state.config, as_json)
            return
        for note in done.notes:
            emit_folded(f"note: {note}")
        what = "put back" if done.wrote else "was not switched any more"
        again = "; the gateway was restarted" if done.restarted else ""
        emit_folded(f"Recovered: {state.config} {what}{again}.")
        return
    with state.locked(tell=announce):
        found = find(config)
    how = state.how(found.journal, held=False) if found else None
    _emit_recovered(found, state.config, as_json, how)
    if found is not None:
        raise CheckFailed(f"{state.config}: a canary was left over: {state.command}")


def _emit_recovered(found: Found | None, config: Path, as_json: bool, how: str | None = None) -> None:
    """Print what a canary left, and ``how`` it ended."""
    if as_json:
        shown = {"step": found.journal.step, "state": found.state, "differs": list(found.differs)} if found else {}
        shown |= {"how": how} if how else {}
        emit_change(
            "canary recover", config, {"recovered": False, "left_over": found is not None, **shown}, write=False
        )
        return
    if found is None:
        emit_folded(f"Nothing to recover beside {config}.")
        return
    journal = found.journal
    emit_folded(f"A canary of {journal.started} ended in step {journal.step!r}. {config} {STATES[found.state]}.")
    if how:
        emit_folded(f"It {how}.")
    if found.differs:
        emit_folded(f"It was edited in {', '.join(found.differs)}.")
    if found.restarts:
        emit_folded(f"The gateway would be restarted: {journal.restart}")
