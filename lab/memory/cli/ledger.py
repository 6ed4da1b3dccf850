"""``lab memory ledger``: capture, ingest and grade the observations that the sidecar governs; rotate their logs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.base.progress import Passing
from lab.cli.options import Write
from lab.cli.output import (
    Json,
    announce,
    counting,
    emit,
    emit_change,
    emit_counts,
    emit_folded,
    emit_json,
    emit_table,
    emit_unless_written,
)
from lab.memory.cli import ledger_drift, ledger_life, ledger_read, ledger_writeback
from lab.memory.cli.ledger_read import Ledger, Profile, is_upstream

Log = Annotated[Path, typer.Argument(metavar="LOG", help="A log of observations, one JSON object a line.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    ledger = typer.Typer(
        no_args_is_help=True,
        help="Capture, search and grade the sidecar's ledger. It is an SQLite file of observations. Commands that "
        "change a file need --write.",
    )
    ledger.command("capture")(capture)
    ledger.command("ingest")(ingest)
    ledger_read.add_to(ledger)
    ledger.command("grade")(grade)
    ledger.command("archive")(archive)
    ledger_writeback.add_to(ledger)
    ledger_life.add_to(ledger)
    ledger_drift.add_to(ledger)
    app.add_typer(ledger, name="ledger")


def capture(
    sessions: Annotated[Path, typer.Argument(metavar="SESSIONS", help="A home, agent or transcript of OpenClaw.")],
    log: Log,
    messages: Annotated[bool, typer.Option("--messages", help="Capture what users and assistants say, too.")] = False,
    archived: Annotated[
        Path | None,
        typer.Option("--archive", metavar="FOLDER", help="Where LOG is rotated to. [default: archive beside LOG]"),
    ] = None,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Append what tools returned in OpenClaw's sessions to a log.

    Each result is appended once, however often the command runs. Secrets are replaced, and summaries cut at 200
    characters, before anything is written.
    """
    from lab.memory.ledger.archive import capture as run

    receipt = run(sessions, log, messages=messages, archive=archived, write=write).receipt()
    if as_json:
        emit_change("memory ledger capture", log, receipt, write=write)
        return
    emit_folded(
        f"{counted(receipt['captured'], 'observation')} {'appended to' if write else 'for'} {log}: "
        f"{counted(receipt['tool_results'], 'tool result')}, {counted(receipt['messages'], 'message')}; "
        f"{receipt['captured_before']} captured before."
    )
    emit(f"Summaries with secrets replaced: {receipt['redacted']}. Cut at 200 characters: {receipt['cut']}.")
    if receipt["skipped"]:
        emit_folded(f"Sessions that could not be read: {', '.join(receipt['skipped'])}.")
    emit_unless_written(write)


def ingest(
    ledger: Ledger,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Logs of observations, one JSON object a line.")],
    graded: Annotated[bool, typer.Option("--grade", help="Grade observations that have no importance.")] = False,
    profile: Profile = "seed",
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Insert the observations of logs into a ledger, each line once.

    A log is known by its content: one that has grown is read on from where it was left, and one that was rotated or
    copied is not read again. Malformed lines are counted and skipped. A killed run is finished by the same command. A
    file without an observation is unusable: the other logs are ingested, and the exit code is 2.
    """
    from lab.memory.ledger.ingest import ingest as run
    from lab.systems.sidecar.heuristic import grade_observation

    receipts, unusable = [], []
    for log in logs:
        try:
            done = run(
                ledger,
                log,
                write=write,
                scorer=grade_observation if graded else None,
                upstream=is_upstream(profile),
                announce=partial(_announce_lines, log),
            )
        except UnusableInput as error:
            unusable.append(str(error))
        else:
            receipts.append({"log": str(log), **done.receipt()})
    if as_json and receipts:
        emit_change("memory ledger ingest", ledger, {"ingests": receipts}, write=write)
    elif receipts:
        for receipt in receipts:
            _emit_ingest(receipt)
        emit_unless_written(write)
    if unusable:
        # A ledger that cannot be used is said once, whatever the number of logs.
        raise UnusableInput("; ".join(dict.fromkeys(unusable)))


def _announce_lines(log: Path, lines: int) -> None:
    announce(Passing(f"{log}: {counted(lines, 'line')}"))


def _emit_ingest(receipt: dict[str, Any]) -> None:
    first, last = receipt["ids"] or (0, 0)
    ids = "" if not last else f" (id {last})" if first == last else f" (ids {first} to {last})"
    new = "inserted" if receipt["written"] else "to insert"
    before = counted(receipt["lines_ingested_before"], "line")
    emit(f"{receipt['log']}: {counted(receipt['inserted'], 'observation')} {new}{ids}; {before} ingested before.")
    emit(f"Labels: {_labels(receipt)}. Graded: {receipt['graded_filled']}.")
    for reason, number in receipt["malformed"].items():
        lines = ", ".join(map(str, receipt["malformed_lines"][reason]))
        emit(f"Malformed, skipped: {number} {reason} (first: line {lines}).")
    emit_counts(
        receipt,
        ("scorer_errors", "Ingested without a grade, because the scorer failed"),
        ("cut_tail_bytes", "Bytes of an incomplete last line, left for the next run"),
        ("without_time", "Without a time, so given the time of this run"),
        ("without_summary", "Without a summary, so found by their other fields alone"),
        ("links_unread", "With supersedes or contradicts outside provenance, where nothing reads them"),
        ("clock_back", "With a time before that of the line above"),
    )


def grade(
    ledger: Annotated[Path | None, typer.Argument(metavar="[LEDGER]", help="The SQLite file of the ledger.")] = None,
    cases: Annotated[
        Path | None,
        typer.Option("--benchmark", metavar="FILE", help="Grade judged cases (JSON Lines) instead of a ledger."),
    ] = None,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Grade observations without an importance by heuristic-v1.

    An importance that is there is never changed. With --benchmark, compare the grader with judged cases: exit code 1 if
    a label or a score is not as expected.
    """
    from lab.memory.ledger.grading import grade as run

    if (ledger is None) == (cases is None):
        raise UnusableInput("give either a ledger or --benchmark FILE")
    if cases is not None:
        _benchmark(cases, as_json)
        return
    if ledger is not None:
        graded = run(ledger, write=write, announce=counting("observation"))
        receipt = graded.receipt()
        if as_json:
            emit_change("memory ledger grade", ledger, receipt, write=write)
            return
        emit(
            f"{counted(receipt['graded_filled'], 'observation')} {'graded' if write else 'to grade'}; "
            f"{receipt['skipped_existing']:,} had an importance before."
        )
        emit(f"Labels: {_labels(receipt)}.")
        emit_counts(
            receipt,
            ("scorer_errors", "Not graded, because the scorer failed"),
            ("unreadable", "Left alone, because the detail is not a JSON object"),
            ("changed_meanwhile", "Changed by another program meanwhile, and graded by the next run"),
        )
        emit_unless_written(write)


def _benchmark(cases: Path, as_json: bool) -> None:
    from lab.memory.ledger.grading import benchmark

    receipt = benchmark(cases)
    figures, metrics = receipt["benchmark"], receipt["metrics"]
    if as_json:
        emit_json(receipt)
    else:
        labels = list(figures["confusion_matrix"])
        emit_table(
            ["judged as", *labels],
            [[label, *figures["confusion_matrix"][label].values()] for label in labels],
        )
        emit_folded(
            f"{counted(figures['total_cases'], 'case')}: agreement {_share(figures['label_agreement'])}, precision of "
            f"must_remember {_share(metrics['must_remember_precision'])}, of ignore "
            f"{_share(metrics['ignore_precision'])}; scores out of bounds: {figures['out_of_bounds']}."
        )
    if receipt["failed"]:
        first = receipt["failed"][0]
        raise CheckFailed(
            f"{cases}: {counted(len(receipt['failed']), 'case')} not as expected; first: {first['id']} "
            f"(judged {first['expected']}, graded {first['graded']}, score {first['score']})"
        )


def archive(
    ledger: Ledger,
    log: Log,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Where to. [default: archive beside LOG]")
    ] = None,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Rotate a log whose every line is ingested.

    lab memory ledger get --raw still finds its lines.
    """
    from lab.memory.ledger.archive import archive as run

    receipt = run(ledger, log, folder=to, write=write)
    if as_json:
        emit_change("memory ledger archive", log, receipt, write=write)
        return
    moved = "is now" if receipt["written"] else "would become"
    size = f"{counted(receipt['lines'], 'line')}, {counted(receipt['bytes'], 'byte')}"
    emit(f"{log} ({size}) {moved} {receipt['archived']}")
    if receipt["bytes_to_ingest"]:
        emit_folded(f"Bytes appended meanwhile: {receipt['bytes_to_ingest']:,}. Ingest the archived log again.")
    emit_unless_written(receipt["written"])


def _labels(receipt: dict[str, Any]) -> str:
    return ", ".join(f"{label} {number}" for label, number in receipt["label_counts"].items())


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
