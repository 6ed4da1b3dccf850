"""``lab canary watch``: follow a live engine, and switch it back on an alarm (Stage C)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CannotMeasure, CheckFailed, UnusableInput
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
from lab.cli.output import Json, announce, emit, emit_folded, emit_json

if TYPE_CHECKING:
    from lab.canary.rollout.evidence import Limits


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
    log: Annotated[
        Path | None,
        typer.Option("--log", help="The gateway's log; a * stands for its date. [default: logging.file of CONFIG]"),
    ] = None,
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
    as_json: Json = False,
) -> None:
    """Watch a live engine: Stage C of the rollout.

    Follows the gateway's log and the receipts of memory_recall, for weeks. Tests error rate, latency and repeat rate
    after every recall, with a stated rate of false alarms; and whether both lanes and the embedder work, and whether
    turns of users have recalls at all. On an alarm it switches plugins.slots.memory of CONFIG back and restarts the
    gateway, if --write was given. A watch that was killed goes on where it was. --out has watch.html,
    a page that refreshes itself. Exit codes: 0 ended without an alarm, 1 alarm, 2 unusable input, 4 not measured, or
    not downgraded.
    """
    from lab.canary.rollout.change import resolved_object, slot_to_go_back_to, target_of
    from lab.canary.rollout.downgrade import Downgrade
    from lab.canary.rollout.evidence import ERROR_LIMIT, RECALLS
    from lab.canary.rollout.follow import log_files
    from lab.canary.rollout.journal import State, real
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
    if as_json:
        emit_json({name: value for name, value in receipt.items() if name != "windows"})
    else:
        _emit(receipt, out)
    if receipt["alarm"]:
        # The output says why.
        raise typer.Exit(CheckFailed.exit_code)


def _expects_receipts(value: Mapping[str, Any]) -> bool:
    """Return whether the engine logs a receipt for every turn of a user, according to a configuration."""
    from lab.base.config_edit import at_path
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


def _emit(receipt: Mapping[str, Any], out: Path) -> None:
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
