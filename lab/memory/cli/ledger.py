"""``lab memory ledger``: capture, ingest, grade, archive and write back the observations that the sidecar governs."""

from __future__ import annotations

import shlex
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.errors import CannotMeasure, CheckFailed, UnusableInput
from lab.base.files import dump_json, write_atomically
from lab.base.formatting import counted
from lab.base.progress import Passing
from lab.cli.options import DryRun, Write, in_utc, require_one
from lab.cli.output import SHOWN, announce, announce_folded, counting, emit, emit_counts, emit_folded, emit_table
from lab.cli.results import Result, changed, command_name
from lab.memory.cli.ledger_read import Ids, Ledger, Profile, Scope, drift, get, is_upstream, search, timeline
from lab.memory.cli.memory_options import AllowGateway, Folder, Wait
from lab.memory.ledger import archive as archiving
from lab.memory.ledger import grading, use
from lab.memory.ledger import ingest as ingesting
from lab.memory.ledger import writeback as writing
from lab.systems.sidecar import grade_observation

Log = Annotated[Path, typer.Argument(metavar="LOG", help="A log of observations, one JSON object a line.")]
At = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"], callback=in_utc, help="The time (UTC). [default: now]"),
]
# Ids of missing memories that are printed; the receipt has all.
MISSING_SHOWN = 5


def capture(
    sessions: Annotated[Path, typer.Argument(metavar="SESSIONS", help="A home, agent or transcript of OpenClaw.")],
    log: Log,
    messages: Annotated[bool, typer.Option("--messages", help="Capture what users and assistants say, too.")] = False,
    archived: Annotated[
        Path | None,
        typer.Option("--archive", metavar="FOLDER", help="Where LOG is rotated to. [default: archive beside LOG]"),
    ] = None,
    write: Write = False,
) -> Result:
    """Append what tools returned in OpenClaw's sessions to a log.

    Each result is appended once, however often the command runs. Secrets are replaced, and summaries cut at 200
    characters, before anything is written.
    """
    receipt = archiving.capture(sessions, log, messages=messages, archive=archived, write=write).receipt()

    def show(receipt: dict[str, Any]) -> None:
        emit_folded(
            f"{counted(receipt['captured'], 'observation')} {'appended to' if write else 'for'} {log}: "
            f"{counted(receipt['tool_results'], 'tool result')}, {counted(receipt['messages'], 'message')}; "
            f"{receipt['captured_before']} captured before."
        )
        emit(f"Summaries with secrets replaced: {receipt['redacted']}. Cut at 200 characters: {receipt['cut']}.")
        if receipt["skipped"]:
            emit_folded(f"Sessions that could not be read: {', '.join(receipt['skipped'])}.")

    return changed("memory ledger capture", log, receipt, show, write=write)


def ingest(
    ledger: Ledger,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Logs of observations, one JSON object a line.")],
    graded: Annotated[bool, typer.Option("--grade", help="Grade observations that have no importance.")] = False,
    profile: Profile = "seed",
    write: Write = False,
) -> Result:
    """Insert the observations of logs into a ledger, each line once.

    A log is known by its content: one that has grown is read on from where it was left, and one that was rotated or
    copied is not read again. Malformed lines are counted and skipped. A killed run is finished by the same command. A
    file without an observation is unusable: the other logs are ingested, and the exit code is 2.
    """
    receipts, unusable = [], []
    for log in logs:
        try:
            done = ingesting.ingest(
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
    # A ledger that cannot be used is said once, whatever the number of logs.
    refusal = UnusableInput("; ".join(dict.fromkeys(unusable))) if unusable else None
    if refusal and not receipts:
        raise refusal

    def show(found: dict[str, Any]) -> None:
        for receipt in found["ingests"]:
            _emit_ingest(receipt)

    return changed("memory ledger ingest", ledger, {"ingests": receipts}, show, write=write, error=refusal)


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
) -> Result:
    """Grade observations without an importance by heuristic-v1.

    An importance that is there is never changed. With --benchmark, compare the grader with judged cases: exit code 1 if
    a label or a score is not as expected.
    """
    if cases is not None and ledger is None:
        return _benchmark(cases)
    if ledger is None or cases is not None:
        raise UnusableInput("give either a ledger or --benchmark FILE")

    def show(receipt: dict[str, Any]) -> None:
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

    receipt = grading.grade(ledger, write=write, announce=counting("observation")).receipt()
    return changed("memory ledger grade", ledger, receipt, show, write=write)


def _benchmark(cases: Path) -> Result:
    def show(receipt: dict[str, Any]) -> None:
        figures, metrics = receipt["benchmark"], receipt["metrics"]
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

    receipt, error = grading.benchmark(cases), None
    if receipt["failed"]:
        first = receipt["failed"][0]
        error = CheckFailed(
            f"{cases}: {counted(len(receipt['failed']), 'case')} not as expected; first: {first['id']} "
            f"(judged {first['expected']}, graded {first['graded']}, score {first['score']})"
        )
    return Result(receipt, show, error=error)


def archive(
    ledger: Ledger,
    log: Log,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Where to. [default: archive beside LOG]")
    ] = None,
    write: Write = False,
) -> Result:
    """Rotate a log whose every line is ingested.

    lab memory ledger get --raw still finds its lines.
    """
    receipt = archiving.archive(ledger, log, folder=to, write=write)

    def show(receipt: dict[str, Any]) -> None:
        moved = "is now" if receipt["written"] else "would become"
        size = f"{counted(receipt['lines'], 'line')}, {counted(receipt['bytes'], 'byte')}"
        emit(f"{log} ({size}) {moved} {receipt['archived']}")
        if receipt["bytes_to_ingest"]:
            emit_folded(f"Bytes appended meanwhile: {receipt['bytes_to_ingest']:,}. Ingest the archived log again.")

    return changed("memory ledger archive", log, receipt, show, write=write)


def _labels(receipt: dict[str, Any]) -> str:
    return ", ".join(f"{label} {number}" for label, number in receipt["label_counts"].items())


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def lifecycle(
    ledger: Ledger,
    ids: Ids,
    to: Annotated[
        str, typer.Option("--to", help="captured, categorized, active, consolidated, stale or soft-archived.")
    ],
    reason: Annotated[str, typer.Option(help="Why, as a short code without texts of memories.")],
    actor: Annotated[str, typer.Option(help="Name of the person or program that does it.")] = "operator",
    at: At = None,
    write: Write = False,
) -> Result:
    """Archive observations softly, or revive them.

    A soft-archived observation is not found by searches and is never deleted. States change only along the allowed
    transitions; if one observation may not, none changes.
    """
    done = use.move(ledger, ids, to, reason=reason, actor=actor, write=write, now=at)

    def show(receipt: dict[str, Any]) -> None:
        emit_table(
            ["observation", "from", "to", "changed"],
            [
                [one["observation_id"], one["from"], one["to"], "yes" if one["changed"] else "no"]
                for one in receipt["transitions"]
            ],
            left=4,
        )

    error = None
    if done.changed_meanwhile:
        ids_ = ", ".join(map(str, done.changed_meanwhile))
        error = CannotMeasure(f"{ledger}: another program changed {ids_} meanwhile; run the command again")
    receipt = {"transitions": done.receipts, "changed_meanwhile": done.changed_meanwhile}
    return changed("memory ledger lifecycle", ledger, receipt, show, write=write, error=error)


def used(
    ledger: Ledger,
    ids: Ids,
    retrieved: Annotated[
        bool, typer.Option("--retrieved", help="They were candidates only, not part of the final context.")
    ] = False,
    at: At = None,
    write: Write = False,
) -> Result:
    """Record that observations were part of a context.

    Sets last_used_at and counts the use, which delays decay; with --retrieved only last_retrieved_at. State and trust
    stay as they are. At most 64 observations at once.
    """
    if len(set(ids)) > use.MOST_REFS:
        raise UnusableInput(f"{len(set(ids))} observations at once; one context cites at most {use.MOST_REFS}")
    receipt = use.use(ledger, [f"obs:{number}" for number in ids], included=not retrieved, write=write, now=at)

    def show(receipt: dict[str, Any]) -> None:
        refreshed, missing = (receipt["selection"][f"{name}_record_refs"] for name in ("refreshed", "missing"))
        emit(f"{counted(len(refreshed), 'observation')} {'refreshed' if write else 'to refresh'}.")
        if missing:
            emit_folded(f"Not in the ledger: {', '.join(missing)}.")

    return changed("memory ledger used", ledger, receipt, show, write=write)


def decay(
    ledger: Ledger,
    p1_days: Annotated[int, typer.Option("--p1", min=1, help="Days without use after which P1 is archived.")] = 90,
    p2_days: Annotated[int, typer.Option("--p2", min=1, help="Days without use after which P2 is archived.")] = 30,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Look at this many newest observations. [default: all; upstream 1000]")
    ] = None,
    scope: Scope = None,
    at: At = None,
    profile: Annotated[str, typer.Option(help="seed, or upstream to recommend as the public sidecar does.")] = "seed",
    write: Write = False,
) -> Result:
    """Archive observations softly that were not used for long.

    P0 is never archived, P1 after 90 days without use, P2 after 30. P0 is must_remember, or what lifecycle.priority
    names; P1 are preferences, decisions, facts, learnings, plans and entities; all others are P2. An archived
    observation is revived by lab memory ledger lifecycle --to active.
    """
    upstream = is_upstream(profile)
    done = use.decay(
        ledger,
        days={"P1": p1_days, "P2": p2_days},
        limit=limit or (1000 if upstream else None),
        scope=scope,
        upstream=upstream,
        write=write,
        now=at,
        announce=counting("observation"),
    )
    items = [
        {"recordRef": f"obs:{one.row.id}", "priority": one.priority, "unused_days": one.days}
        | {"last_used_at": one.last_used_at}
        for one in done.unused
        if not write
    ]

    def show(receipt: dict[str, Any]) -> None:
        _emit_decay(receipt)
        # What was archived is summarised (seed 003); what would be is listed, to be looked at before.
        if items:
            emit_table(
                ["observation", "priority", "kind", "days without use"],
                [[one.row.id, one.priority, one.row.kind or "-", one.days] for one in done.unused[:SHOWN]],
                left=3,
            )
        if len(items) > SHOWN:
            emit(f"… and {len(done.unused) - SHOWN} more; --json lists all.")

    return changed("memory ledger decay", ledger, {**done.receipt(), "items": items}, show, write=write)


def _emit_decay(receipt: dict[str, Any]) -> None:
    emit_folded(
        f"{counted(receipt['count'], 'observation')} {'archived' if receipt['written'] else 'to archive'}; "
        f"P0, which is never archived: {receipt['protected_p0']}."
    )
    for name in ("priority", "importance", "trust"):
        counts = ", ".join(f"{key} {count}" for key, count in receipt[f"by_{name}"].items() if count)
        if counts:
            emit_folded(f"By {name}: {counts}.")
    emit_counts(
        receipt,
        ("without_time", "Left alone, because their time cannot be read"),
        ("unreadable", "Left alone, because their detail is no JSON object"),
        ("changed_meanwhile", "Changed by another program meanwhile; run the command again for these"),
    )


def writeback(
    ledger: Ledger,
    store: Folder,
    limit: Annotated[int, typer.Option(min=1, help="Number of newest observations of memory_store to inspect.")] = 50,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Number of observations per commit.")] = 25,
    force: Annotated[
        bool, typer.Option("--force", "--overwrite", help="Overwrite values, instead of only filling empty fields.")
    ] = False,
    force_fields: Annotated[
        str | None,
        typer.Option(
            metavar="FIELDS",
            help="What --force overwrites, separated by commas. [default: importance,importance_label,scope,category; "
            "trust_tier only if named]",
        ),
    ] = None,
    profile: Profile = "seed",
    dry_run: DryRun = False,
    write: Write = False,
    despite_gateway: AllowGateway = False,
    wait: Wait = 10.0,
    receipt_file: Annotated[
        Path | None, typer.Option("--receipt", metavar="FILE", help="Write the receipt to FILE, as JSON.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing, unless ids are not in the table; then exit code 1.")
    ] = False,
) -> Result:
    """Write the grades of a ledger to the engine's table.

    Importance, label, scope, category and trust are filled where the table has none. In profile seed a label unknown
    counts as none; for the public sidecar it is a value, so that only --force ever replaces it. A killed run is
    finished by the same command. Before values are overwritten, the version gets a tag inside the table.
    """
    require_one(dry_run, write)
    options = writing.Options(
        limit=limit,
        batch=batch,
        forced=writing.forced_fields(force, force_fields),
        upstream=is_upstream(profile),
        write=write,
        despite_gateway=despite_gateway,
        wait_seconds=wait,
    )
    done = writing.writeback(ledger, store, options)
    receipt = done.receipt(ledger, store)
    if receipt_file is not None:
        write_atomically(receipt_file, dump_json(receipt))
    if quiet and not done.missing:
        raise typer.Exit
    for note in done.notes:
        announce_folded(note)
    if done.missing_columns:
        announce_folded(
            f"nothing was written to {', '.join(done.missing_columns)}, which the table lacks; "
            f"lab memory backfill {shlex.quote(str(store))} --write adds them"
        )
    result = changed("memory ledger writeback", store, receipt, _emit_writeback, write=write)
    if quiet:
        # Seed 001, Stage A: silent on success, and a message of missing ids.
        are = "is" if len(done.missing) == 1 else "are"
        result.error = CheckFailed(
            f"{counted(len(done.missing), 'id')} of the ledger {are} not in the table of {store}"
        )
    return result


def _emit_writeback(receipt: dict[str, Any]) -> None:
    would = "would be updated" if receipt["dryRun"] else "updated"
    fields = ", ".join(f"{name} {count}" for name, count in receipt["updatedFields"].items())
    unchanged = receipt["skipped"] - receipt["withoutId"] - receipt["older"]
    emit_folded(
        f"{counted(receipt['checked'], 'observation')} checked: {counted(receipt['updated'], 'memory')} "
        f"{would}{f' ({fields})' if fields else ''}, "
        f"{unchanged} left as they are (they have a value, or get none), {receipt['missing']} not in the table."
    )
    if receipt["overwritten"]:
        fields, memories = (receipt[name] for name in ("overwrittenFields", "overwritten"))
        emit(f"Overwritten: {counted(fields, 'field')} of {counted(memories, 'memory')}.")
        if receipt["tag"]:
            emit_folded(f"The version before is tagged {receipt['tag']} (lab memory tags list).")
    emit_counts(
        receipt,
        ("withoutId", "Observations of memory_store without the id of a memory"),
        ("older", "Observations that are older than another of the same memory"),
        ("notInspected", "Older observations of memory_store that were not inspected (see --limit)"),
    )
    if receipt["missing"]:
        more = ", …" if receipt["missing"] > MISSING_SHOWN else ""
        emit_folded(f"Not in the table: {', '.join(receipt['missingIds'][:MISSING_SHOWN])}{more}")
    unknown = receipt["unknown"]
    emit(f"Memories labelled unknown: {unknown['before']} before, {unknown['after']} after.")


ledger = typer.Typer(
    no_args_is_help=True,
    help="Capture, search and grade the sidecar's ledger. It is an SQLite file of observations. Commands that "
    "change a file need --write.",
)
for command in (capture, ingest, search, timeline, get, grade, archive, writeback, lifecycle, used, decay, drift):
    ledger.command(command_name(command))(command)
