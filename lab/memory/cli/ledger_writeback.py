"""``lab memory ledger writeback``: copy grades from a ledger to the engine's table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.files import dump_json, write_atomically
from lab.base.formatting import counted
from lab.cli.options import DryRun, Write, require_one
from lab.cli.output import Json, announce_folded, emit, emit_change, emit_counts, emit_folded, emit_unless_written
from lab.memory.cli.ledger_read import Ledger, Profile, is_upstream
from lab.memory.cli.memory_options import AllowGateway, Wait

# Ids of missing memories that are printed; the receipt has all.
SHOWN = 5


def add_to(ledger: typer.Typer) -> None:
    """Register the command."""
    ledger.command("writeback")(writeback)


def writeback(
    ledger: Ledger,
    store: Annotated[Path, typer.Argument(metavar="FOLDER", help="The LanceDB folder that contains memories.lance.")],
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
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing unless a memory was updated.")] = False,
    as_json: Json = False,
) -> None:
    """Write the grades of a ledger to the engine's table.

    Importance, label, scope, category and trust are filled where the table has none. In profile seed a label unknown
    counts as none; for the public sidecar it is a value, so that only --force ever replaces it. A killed run is
    finished by the same command.
    """
    from lab.memory.ledger.writeback import Options, forced_fields
    from lab.memory.ledger.writeback import writeback as run

    require_one(dry_run, write)
    options = Options(
        limit=limit,
        batch=batch,
        forced=forced_fields(force, force_fields),
        upstream=is_upstream(profile),
        write=write,
        despite_gateway=despite_gateway,
        wait_seconds=wait,
    )
    done = run(ledger, store, options)
    receipt = done.receipt(ledger, store)
    if receipt_file is not None:
        write_atomically(receipt_file, dump_json(receipt))
    if quiet and not done.updated:
        return
    for note in done.notes:
        announce_folded(note)
    if as_json:
        emit_change("memory ledger writeback", store, receipt, write=write)
    else:
        _show(receipt)


def _show(receipt: dict[str, Any]) -> None:
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
    emit_counts(
        receipt,
        ("withoutId", "Observations of memory_store without the id of a memory"),
        ("older", "Observations that are older than another of the same memory"),
        ("notInspected", "Older observations of memory_store that were not inspected (see --limit)"),
    )
    if receipt["missing"]:
        more = ", …" if receipt["missing"] > SHOWN else ""
        emit_folded(f"Not in the table: {', '.join(receipt['missingIds'][:SHOWN])}{more}")
    unknown = receipt["unknown"]
    emit(f"Memories labelled unknown: {unknown['before']} before, {unknown['after']} after.")
    emit_unless_written(not receipt["dryRun"])
