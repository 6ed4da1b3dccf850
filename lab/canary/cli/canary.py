"""``lab canary run``, ``recover`` and ``watch``: switch a live gateway for a while, or watch it, and switch it back.

Without ``--write`` none of them changes the gateway; they print what they would do (CN-2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.config_env import config_named, config_of
from lab.base.errors import CannotMeasure, CheckFailed, LabError, UnusableInput
from lab.base.formatting import counted, duration
from lab.cli import completion
from lab.cli.output import announce, emit, emit_folded
from lab.cli.results import Result, changed

if TYPE_CHECKING:
    from lab.base.config_resolve import Resolved
    from lab.canary.rollout.change import Change
    from lab.canary.rollout.evidence import Limits
    from lab.canary.rollout.recover import Found, RolledBack
    from lab.canary.rollout.run import Outcome, Plan

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Restarts of real hosts with their plugins took 50 to 200 s.
TIMEOUT = "10m"
Config = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="The gateway's openclaw.json (JSON5), a link to it, or its folder. [default: OPENCLAW_CONFIG_PATH, or the "
        "file in OPENCLAW_STATE_DIR or ~/.openclaw]",
        # Of a folder and of the default, the file that the host reads.
        default_factory=lambda: config_of(),
        callback=lambda given: config_named(given),
        show_default=False,
    ),
]
Restart = Annotated[str, typer.Option("--restart", help="The command that restarts the gateway.")]
Check = Annotated[
    str | None, typer.Option("--check", help="A command that succeeds once the gateway is up, such as curl -fsS URL.")
]
Log = Annotated[
    Path | None,
    typer.Option("--log", help="The gateway's log; a * stands for its date. [default: logging.file of CONFIG]"),
]
Timeout = Annotated[str, typer.Option("--timeout", help="The longest time of a restart with its check.")]
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


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a period such as ``90s``, ``30m``, ``4h`` or ``1d``; a bare number is one of seconds."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)\s?(?:([smhd])|sec|seconds?)?", text.strip().lower())
    if not match or not float(match[1]):
        raise UnusableInput(f"{option} {text!r}: expected a period such as 90s, 30m, 4h or 1d, or a number of seconds")
    return float(match[1]) * UNITS[match[2] or "s"]


def require_command(restart: str) -> None:
    """Raise :class:`UnusableInput` for a blank ``--restart``."""
    if not restart.strip():
        raise UnusableInput("--restart: needs a command, such as 'systemctl --user restart openclaw-gateway'")


def log_file(given: Path | None, resolved: Resolved) -> Path:
    """Return the given log, else the one that a configuration names.

    Raises :class:`UnusableInput` if it names none, or one by a variable that is not set.
    """
    from lab.base.config_resolve import real
    from lab.canary.rollout.follow import log_of

    if given is None:
        resolved.require_set(("logging", "file"))
    found = given or log_of(resolved.value, real(resolved.config))
    if found is None:
        raise UnusableInput(f"{resolved.name}: names no logging.file; name the gateway's log with --log")
    return found


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
    log: Log = None,
    recalls: Annotated[int, typer.Option("--recalls", min=1, help="The longest window in answered recalls.")] = 1000,
    period: Annotated[str, typer.Option("--for", help="The longest window: 90s, 30m, 4h.")] = "4h",
    schedule: Annotated[
        int | None,
        typer.Option(
            "--schedule",
            help="Run so many blocks of --for each, half of them switched in an order that is drawn. [default: one]",
        ),
    ] = None,
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
) -> Result:
    """Run a canary on a live gateway: Stage B of the rollout.

    Backs up CONFIG, changes one value in it, restarts the gateway, judges its receipts after every session until they
    decide, and puts CONFIG back byte for byte, whatever happened. A journal beside CONFIG is written before every step;
    if the canary is killed, a guard rolls back, and lab canary recover does it at any later time. Without --write it
    prints what it would do. Exit codes: 0 pass, 1 fail, 3 inconclusive, 2 unusable input, 4 no verdict, or not rolled
    back.
    """
    from lab.base.config_resolve import real
    from lab.canary.agree.logged import require_own
    from lab.canary.rollout.follow import Follower, log_files
    from lab.canary.rollout.journal import State
    from lab.canary.rollout.run import Plan, require_unswitched, run_canary
    from lab.canary.rollout.schedule import require_schedule, run_schedule
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
    if mixed := require_own(found, log_files(found)(), real(config).parent):
        announce(f"WARNING: {mixed}")
    if schedule is not None:
        require_schedule(plan, schedule)
    if not write:
        return _dry_run(plan, schedule)
    for note in change.notes:
        announce(f"warning: {note}")
    outcome = run_canary(plan, tell=announce) if schedule is None else run_schedule(plan, schedule, tell=announce)
    _write_page(outcome, plan.out)
    code = INTERRUPTED if outcome.interrupted and not outcome.stuck else EXIT[outcome.status]
    return changed(
        "canary run",
        change.config,
        outcome.as_json(plan),
        lambda _: _emit_outcome(outcome, plan),
        write=True,
        error=typer.Exit(code),
    )


def _write_page(outcome: Outcome, out: Path) -> None:
    """Write the page of the verdict, without which all is done nevertheless."""
    from lab.base.files import read_json
    from lab.canary.rollout.schedule import CONTROL
    from lab.report.canary import write_page
    from lab.runs.directory import AUDIT

    if outcome.verdict is not None:
        with suppress(LabError):
            control = read_json(out / CONTROL) if (out / CONTROL).exists() else None
            write_page(outcome.verdict, read_json(out / AUDIT), out, control)


def _change(config: Path, slot: str | None, selection: str | None) -> Change:
    from lab.canary.rollout.change import selection_change, slot_change

    if (slot is None) == (selection is None):
        raise UnusableInput("name what to switch: either --slot PLUGIN or --selection POLICY")
    return slot_change(config, slot) if slot is not None else selection_change(config, str(selection))


def _dry_run(plan: Plan, schedule: int | None) -> Result:
    from lab.canary.rollout.schedule import steps

    change = plan.change
    receipt = {
        "path": list(change.path),
        "before": change.before if isinstance(change.before, str) else None,
        "after": change.after,
        "lines": change.lines(),
        "steps": plan.steps() if schedule is None else steps(plan, schedule),
        "notes": list(change.notes),
    }

    def show(receipt: dict[str, Any]) -> None:
        emit("Nothing was written or restarted. With --write:")
        emit()
        for number, step in enumerate(receipt["steps"], 1):
            emit_folded(f"{number}. {step}")
        emit()
        emit(receipt["target"])
        for line in receipt["lines"]:
            emit(line)
        for note in receipt["notes"]:
            emit_folded(f"warning: {note}")

    return changed("canary run", change.config, receipt, show, write=False, due=False)


def _emit_outcome(outcome: Outcome, plan: Plan) -> None:
    """Print the decision, whether the gateway is as before, the reasons, and where everything is."""
    from lab.gate.outputs import by_reason, decided, gravest_first, headline

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
        for sentence in decided(verdict):
            emit_folded(sentence)
        audited = verdict.audit or {"receipts": 0, "answered": 0}
        emit_folded(f"{counted(audited['receipts'], 'receipt')}, {audited['answered']} with an answer")
        if not outcome.complete and not outcome.problem:
            emit_folded(f"The window of {duration(plan.seconds)} ended before {plan.recalls} recalls were answered.")
        for status, reason in by_reason(gravest_first(verdict.lines)):
            if status != "pass":
                emit_folded(f"- {status}: {reason}")
    judged = verdict.embedder if verdict else ()
    for note in (*judged, *plan.change.notes, *outcome.notes, *(done.notes if done else ())):
        emit_folded(f"note: {note}")
    emit_folded(f"{plan.out}: {', '.join(sorted(path.name for path in plan.out.iterdir()))}")


def recover(
    config: Config,
    *,
    keep_edits: KeepEdits = False,
    write: Write = False,
) -> Result:
    """Roll back a canary that was killed.

    Puts CONFIG back byte for byte by the journal beside it, and restarts the gateway. If there is nothing to recover,
    it says so; it can be repeated at any time. A configuration that somebody edited meanwhile is not overwritten.
    Without --write it prints what it would do, with exit code 1 if a canary was left over.
    """
    from lab.base.config_resolve import real
    from lab.canary.rollout.journal import State, read_config
    from lab.canary.rollout.recover import find
    from lab.canary.rollout.recover import recover as roll_back

    state = State(real(config))
    if not state.folder.is_dir():
        # A misspelt name has no journal either.
        read_config(state.config)
        return _left_over(None, state.config)
    said = state.guard_said()
    if write:
        if said:
            announce(f"the guard of this canary: {said}")
        done = roll_back(config, keep_edits=keep_edits, tell=announce)
        receipt = {"recovered": done is not None, **(done._asdict() if done else {})}
        return changed(
            "canary recover", state.config, receipt, lambda _: _emit_recovered(done, state.config), write=True
        )
    with state.locked(tell=announce):
        found = find(config)
    if found is None:
        return _left_over(None, state.config)
    error = CheckFailed(f"{state.config}: a canary was left over: {state.command}")
    return _left_over(found, state.config, state.how(found.journal, held=False), error)


def _emit_recovered(done: RolledBack | None, config: Path) -> None:
    if done is None:
        emit_folded(f"Nothing to recover beside {config}.")
        return
    for note in done.notes:
        emit_folded(f"note: {note}")
    what = "put back" if done.wrote else "was not switched any more"
    again = "; the gateway was restarted" if done.restarted else ""
    emit_folded(f"Recovered: {config} {what}{again}.")


def _left_over(found: Found | None, config: Path, how: str | None = None, error: CheckFailed | None = None) -> Result:
    """Return what a canary left, and ``how`` it ended."""
    shown = {"step": found.journal.step, "state": found.state, "differs": list(found.differs)} if found else {}
    receipt = {"recovered": False, "left_over": found is not None, **shown, **({"how": how} if how else {})}

    def show(_: object) -> None:
        if found is None:
            _emit_recovered(None, config)
            return
        journal = found.journal
        emit_folded(f"A canary of {journal.started} ended in step {journal.step!r}. {config} {STATES[found.state]}.")
        if how:
            emit_folded(f"It {how}.")
        if found.differs:
            emit_folded(f"It was edited in {', '.join(found.differs)}.")
        if found.restarts:
            emit_folded(f"The gateway would be restarted: {journal.restart}")

    return changed("canary recover", config, receipt, show, write=False, due=False, error=error)


def watch(
    config: Config,
    *,
    restart: Restart,
    slot: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="The plugin for the memory slot on an alarm. [default: memory-lancedb if the host has it, else "
            "memory-core]",
        ),
    ] = None,
    check: Check = None,
    log: Log = None,
    transcripts: Annotated[
        list[Path] | None,
        typer.Option("--transcripts", help="A folder with transcripts, for tool receipts. [default: beside CONFIG]"),
    ] = None,
    control: Annotated[
        Path | None, typer.Option("--control", help="The log of a gateway to compare with, instead of with limits.")
    ] = None,
    control_transcripts: Annotated[
        list[Path] | None, typer.Option("--control-transcripts", help="A folder with transcripts of the control.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="A canary's folder, its audit.json, or the folder of an earlier watch."),
    ] = None,
    errors: Annotated[
        float, typer.Option("--errors", help="The share of recalls in which the engine may not work.")
    ] = 0.01,
    p95: Annotated[
        float | None, typer.Option("--p95", help="The 95th percentile that is allowed, in ms. [default: learned]")
    ] = None,
    repeat: Annotated[
        float | None, typer.Option("--repeat", help="The mean repeat rate that is allowed. [default: learned]")
    ] = None,
    text: Annotated[
        float | None,
        typer.Option(
            "--text",
            help="The share of recalls with hits in which the text lane may find nothing. [default: 0.9, once it is "
            "known to find something in most]",
        ),
    ] = None,
    per: Annotated[
        int,
        typer.Option("--false-alarm-per", min=100, help="At most one false alarm in so many recalls, on average."),
    ] = 15_000,
    period: Annotated[
        str | None, typer.Option("--for", help="End without an alarm after 90m, 4h or 30d. [default: never]")
    ] = None,
    timeout: Timeout = TIMEOUT,
    out: Annotated[Path, typer.Option("--out", help="Folder for the state, the receipt and the page.")] = Path(
        "reports/watch"
    ),
    guard: Annotated[
        bool, typer.Option("--guard/--no-guard", help="Run a process that completes a downgrade if this one is killed.")
    ] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin a new watch in --out; forget what was seen.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Downgrade on an alarm. [default: print the command that does]")
    ] = False,
) -> Result:
    """Watch a live engine: Stage C of the rollout.

    Follows the gateway's log and the receipts of memory_recall, for weeks. Tests error rate, latency and repeat rate
    after every recall, with a stated rate of false alarms; and whether both lanes and the embedder work, and whether
    turns of users have recalls at all. On an alarm it switches plugins.slots.memory of CONFIG back and restarts the
    gateway, if --write was given. A watch that was killed goes on where it was. --out has watch.html,
    a page that refreshes itself. Exit codes: 0 ended without an alarm, 1 alarm, 2 unusable input, 4 not measured, or
    not downgraded.
    """
    from lab.base.config_resolve import real
    from lab.canary.agree.logged import require_own
    from lab.canary.rollout.change import resolved_object, slot_to_go_back_to, target_of
    from lab.canary.rollout.downgrade import Downgrade
    from lab.canary.rollout.evidence import ERROR_LIMIT, RECALLS
    from lab.canary.rollout.follow import log_files
    from lab.canary.rollout.journal import State
    from lab.canary.rollout.watch_page import write_page
    from lab.canary.rollout.watching import Arm, WatchPlan, run_watch

    require_command(restart)
    resolved = resolved_object(config)
    value = resolved.value
    found = log_file(log, resolved)
    home = real(config).parent
    slot = slot_to_go_back_to(resolved) if slot is None else slot
    # What a second command must say again, to go on with the same watch.
    given: list[tuple[str, str]] = [
        ("--restart", restart),
        ("--to", slot),
        ("--check", check or ""),
        ("--log", str(log or "")),
        *(("--transcripts", str(folder)) for folder in transcripts or ()),
        ("--control", str(control or "")),
        *(("--control-transcripts", str(folder)) for folder in control_transcripts or ()),
        ("--baseline", str(baseline or "")),
        ("--errors", "" if errors == ERROR_LIMIT else f"{errors!r}"),
        ("--p95", "" if p95 is None else f"{p95!r}"),
        ("--repeat", "" if repeat is None else f"{repeat!r}"),
        ("--text", "" if text is None else f"{text!r}"),
        ("--false-alarm-per", "" if per == RECALLS else str(per)),
        ("--timeout", "" if timeout == TIMEOUT else timeout),
        ("--out", str(out)),
    ]
    plan = WatchPlan(
        Arm(found, tuple(transcripts or (home,))),
        Downgrade(config, slot, restart, out, check, seconds_of(timeout, "--timeout"), guard),
        _limits(baseline, errors, p95, repeat, text),
        per,
        control=Arm(control, tuple(control_transcripts or ())) if control else None,
        seconds=seconds_of(period, "--for") if period else None,
        write=write,
        fresh=fresh,
        turns=_expects_receipts(value),
        words=(
            "lab",
            "canary",
            "watch",
            str(config),
            *(word for pair in given if pair[1] for word in pair),
            *(() if guard else ("--no-guard",)),
        ),
    )
    if control_transcripts and control is None:
        raise UnusableInput("--control-transcripts: needs --control, the log of the control")
    for file in (found, control):
        if file is not None and not log_files(file)():
            announce(f"{file}: does not exist yet; it is read as soon as it does")
    if mixed := require_own(found, log_files(found)(), home):
        announce(f"WARNING: {mixed}")
    if target_of(resolved, slot).known is None:
        announce(
            f"WARNING: --to {slot}: neither {config} nor a folder of its host says that the host has this plugin; "
            "without it, the gateway would run without memory after an alarm, or refuse to start"
        )
    if not plan.turns:
        announce("WARNING: recalls or their receipts are switched off in the configuration: a dead plugin is not seen")
    if write:
        again = State(real(config)).command
        announce(f"if this watch and its guard are killed while it switches back, the next watch goes on, or: {again}")
    else:
        announce("without --write nothing is switched: an alarm ends the watch, and prints the command that switches")
    receipt = run_watch(plan, tell=announce, draw=lambda one: _draw(write_page, one, out))
    return Result(
        receipt,
        lambda receipt: _emit_watch(receipt, out),
        lambda receipt: {name: value for name, value in receipt.items() if name != "windows"},
        # The output says why.
        error=typer.Exit(CheckFailed.exit_code) if receipt["alarm"] else None,
    )


def _expects_receipts(value: Mapping[str, Any]) -> bool:
    """Return whether the engine logs a receipt for every turn of a user, according to a configuration."""
    from lab.base.config_text import at_path
    from lab.systems.openclaw.config.file import ENTRY

    def given(*path: str) -> object:
        return at_path(value, path)

    config = ("plugins", "entries", ENTRY, "config")
    level = given("logging", "level")
    is_quiet = isinstance(level, str) and level.lower() in ("silent", "fatal", "error", "warn")
    # The plugin recalls and logs receipts unless its configuration says otherwise.
    off = [given(*config, name, *more) is False for name in ("autoRecall", "receipts") for more in ((), ("enabled",))]
    return not any(off) and not is_quiet


def _limits(
    baseline: Path | None, errors: float, p95: float | None, repeat: float | None, text: float | None
) -> Limits:
    from lab.canary.rollout.evidence import Limits
    from lab.canary.rollout.watching import read_baseline

    if not 0 < errors < 1:
        raise UnusableInput(f"--errors {errors:g}: expected a share between 0 and 1, such as 0.01")
    if p95 is not None and not 0 < p95 < float("inf"):
        raise UnusableInput(f"--p95 {p95:g}: expected milliseconds above 0")
    if repeat is not None and not 0 < repeat < 1:
        raise UnusableInput(f"--repeat {repeat:g}: expected a mean between 0 and 1")
    if text is not None and not 0 < text < 1:
        raise UnusableInput(f"--text {text:g}: expected a share between 0 and 1, such as 0.9")
    known = read_baseline(baseline) if baseline else Limits()
    return Limits(errors, p95 or known.latency, repeat or known.repeat, text)


def _draw(write_page: Any, receipt: Mapping[str, Any], out: Path) -> None:
    """Write the page; a full disk must not end a watch whose evidence was saved."""
    try:
        write_page(receipt, out)
    except CannotMeasure as error:
        announce(f"the page was not written: {error}")


def _emit_watch(receipt: Mapping[str, Any], out: Path) -> None:
    from lab.canary.rollout.watching import status_line

    alarm, done = receipt["alarm"], receipt["downgrade"]
    if alarm:
        emit_folded(f"ALARM of {alarm['raised']}: {alarm['why']}.")
        if done:
            again = ", and the gateway was restarted" if done["restarted"] else ""
            emit_folded(f"Downgraded: plugins.slots.memory is {done['slot']}{again}.")
            for note in done["notes"]:
                emit_folded(f"note: {note}")
        else:
            emit_folded("Nothing was switched. To downgrade:")
            emit(f"  {receipt['command']}")
    else:
        emit_folded(f"No alarm since {receipt['started']}.")
    for warning in receipt["warnings"]:
        emit_folded(f"WARNING: {warning}.")
    emit_folded(status_line(receipt))
    emit(f"{out}: state.json, watch.html, watch.json")
