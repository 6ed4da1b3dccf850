"""``lab memory index``: status, construction and upkeep of the indexes of a LanceDB folder."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.cli.options import Write
from lab.cli.output import Json, emit, emit_change, emit_folded, emit_json, emit_table, emit_unless_written
from lab.memory.cli.memory_options import AllowGateway, Folder, Wait, warn

if TYPE_CHECKING:
    from pathlib import Path

    from lab.memory.store.index import Done, Status, Thresholds
    from lab.memory.table.lance_table import LanceTable

Unindexed = Annotated[
    float,
    typer.Option("--max-unindexed", min=0, max=1, help="Share of rows outside an index from which it is stale."),
]
Fragments = Annotated[
    int, typer.Option("--max-fragments", min=2, help="Number of small files from which they are merged.")
]
VectorRows = Annotated[
    int | None,
    typer.Option("--vector-from", min=256, help="Number of rows from which vectors get an index. [default: never]"),
]
# A vector index that finds less than this share of the nearest rows is worth a warning.
AGREEMENT = 0.95
ICU = "a gateway with LanceDB 0.27 cannot search an icu index, so that it finds nothing by words; ngram works there"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    index = typer.Typer(no_args_is_help=True, help="Indexes of the table, and when they need upkeep.")
    index.command("status")(status)
    index.command("build")(build)
    index.command("optimize")(optimize)
    app.add_typer(index, name="index")


def status(
    folder: Folder,
    unindexed: Unindexed = 0.1,
    fragments: Fragments = 32,
    vector_rows: VectorRows = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if an index is missing or stale.")] = False,
    as_json: Json = False,
) -> None:
    """Show the indexes of a table and what is due."""
    from lab.memory.store import index

    started = time.perf_counter_ns()
    with _table(folder, "status", write=False) as table:
        found = index.status(table, _thresholds(unindexed, fragments, vector_rows))
        receipt = index.receipt_of("status", table, found, started)
    if as_json:
        emit_json(receipt)
    else:
        _show(found)
        why, command = _due(folder, found)
        emit_folded(f"{why}:" if command else why)
        if command:
            # A command that is folded cannot be copied.
            emit(f"  {command}")
    if check and not found.healthy:
        raise CheckFailed(f"{folder}: {': '.join(_due(folder, found))}")


def build(
    folder: Folder,
    words: Annotated[
        str,
        typer.Option(
            "--words",
            help="How the text index splits texts: simple; ngram, also for Chinese; icu, only for newer LanceDB.",
        ),
    ] = "simple",
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build the indexes anew that are there.")] = False,
    unindexed: Unindexed = 0.1,
    fragments: Fragments = 32,
    vector_rows: VectorRows = None,
    write: Write = False,
    despite_gateway: AllowGateway = False,
    wait: Wait = 10.0,
    as_json: Json = False,
) -> None:
    """Build the indexes that are missing.

    They are on text, scope, importance_label, category and createdAt, and with
    --vector-from on the vectors. An index of texts changes what a gateway finds,
    and one of vectors loses some: tag the table first.
    """
    from lab.memory.store import index

    if words not in index.WORDS:
        raise UnusableInput(f"--words {words}: expected simple, ngram or icu")
    if words == "icu":
        warn(ICU)
    started, thresholds = time.perf_counter_ns(), _thresholds(unindexed, fragments, vector_rows)
    with _table(folder, "build", write=write, dry_run=not write, despite_gateway=despite_gateway, wait=wait) as table:
        if write:
            done = index.build(table, thresholds, words=words, rebuild=rebuild)
        else:
            before = index.status(table, thresholds)
            names = [f"{column}_idx" for column, _ in before.missing]
            done = index.Done(before, before, (*names, *(one.name for one in before.indexes if rebuild)))
        warn(*table.notes)
        receipt = index.receipt_of("build", table, done, started)
    if as_json:
        emit_change("memory index build", folder, receipt, write=write)
        return
    _report(done, "built" if write else "would build", write=write)
    if done.agreement is not None:
        found = f"the vector index finds {done.agreement:.0%} of the nearest {index.TOP} rows"
        emit_folded(f"{'warning: ' if done.agreement < AGREEMENT else ''}{found}")


def optimize(
    folder: Folder,
    keep: Annotated[float, typer.Option(min=0.0, help="Days for which older versions stay; 0 deletes them all.")] = 7.0,
    unindexed: Unindexed = 0.1,
    fragments: Fragments = 32,
    vector_rows: VectorRows = None,
    write: Write = False,
    despite_gateway: AllowGateway = False,
    wait: Wait = 10.0,
    as_json: Json = False,
) -> None:
    """Merge files and update the indexes, if that is due.

    It is due if a threshold is reached; lower ones, such as --max-fragments 2,
    make it due earlier. Builds no index. Versions with a tag
    stay, however old.
    """
    from lab.memory.store import index

    started, thresholds = time.perf_counter_ns(), _thresholds(unindexed, fragments, vector_rows)
    with _table(
        folder, "optimize", write=write, dry_run=not write, despite_gateway=despite_gateway, wait=wait, keep_days=keep
    ) as table:
        if write:
            done = index.optimize(table, thresholds)
        else:
            before = index.status(table, thresholds)
            stale = tuple(one.name for one in before.indexes if one.unindexed)
            due = bool(before.reasons)
            done = index.Done(before, before, ("files", *stale) if due else ())
        warn(*table.notes)
        receipt = index.receipt_of("optimize", table, done, started)
    if as_json:
        emit_change("memory index optimize", folder, receipt, write=write)
        return
    _report(done, "brought up to date" if write else "would bring up to date", write=write)
    if write and done.changed:
        emit(f"small files {done.before.small_fragments} to {done.after.small_fragments}")


def _table(
    folder: Path,
    command: str,
    *,
    write: bool,
    dry_run: bool = False,
    despite_gateway: bool = False,
    wait: float = 10.0,
    keep_days: float = 7.0,
) -> LanceTable:
    """Open the table of a command. Raises :class:`UnusableInput` if it must not be written, in a dry run as well."""
    from lab.memory.table.lance_table import LanceTable, TableSettings, require_permitted

    if dry_run:
        require_permitted(folder, despite_gateway=despite_gateway)
    # Only what the command says is compacted.
    settings = TableSettings(compact_on_close=1 << 30, wait_seconds=wait, keep_seconds=int(keep_days * 86400))
    what = f"lab memory index {command}"
    table = LanceTable(folder, read_only=not write, despite_gateway=despite_gateway, settings=settings, what=what)
    if dry_run:
        table.require_changeable()
    if write and (reason := table.read_only_reason):
        hint = "; --despite-gateway writes all the same" if "gateway" in reason else ""
        raise UnusableInput(f"{folder}: nothing was written, because {reason}{hint}")
    return table


def _thresholds(unindexed: float, fragments: int, vector_rows: int | None) -> Thresholds:
    from lab.memory.store.index import Thresholds

    return Thresholds(unindexed, fragments, vector_rows)


def _show(found: Status) -> None:
    emit(f"{counted(found.rows, 'row')}, version {found.version}, {counted(found.fragments, 'file')} of rows")
    if found.indexes:
        rows = [
            [one.name, one.kind, one.rows, one.unindexed, one.built_at, "stale" if one.stale else "ok"]
            for one in found.indexes
        ]
        emit_table(["index", "kind", "rows", "not in it", "built", ""], rows, left=2)
    if found.missing:
        emit_folded(f"no index on {', '.join(column for column, _ in found.missing)}")


def _due(folder: Path, found: Status) -> tuple[str, str]:
    """Return what is due, and its command; the command is blank if nothing is."""
    if found.missing:
        return "indexes are missing", shlex.join(["lab", "memory", "index", "build", str(folder), "--write"])
    if found.reasons:
        return ", ".join(found.reasons), shlex.join(["lab", "memory", "index", "optimize", str(folder), "--write"])
    return "nothing is due", ""


def _report(done: Done, what: str, *, write: bool) -> None:
    if not done.changed:
        emit("nothing to do")
        return
    emit_folded(f"{what}: {', '.join(done.changed)}")
    emit_unless_written(write)
