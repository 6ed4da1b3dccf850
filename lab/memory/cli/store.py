"""``lab memory tags`` and ``lab memory index``: versions and indexes of the table in the plugin's LanceDB folder."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.cli.options import Write
from lab.cli.output import emit, emit_folded, emit_table
from lab.cli.results import Result, changed
from lab.memory.cli.memory_options import AllowGateway, Folder, KeepDays, Wait, not_written, warn
from lab.memory.store import index as indexes
from lab.memory.store.checkout import Checkout, check_out
from lab.memory.store.tags import (
    Listed,
    create_tag,
    create_version_tag,
    delete_tag,
    list_tags,
    open_for_tags,
    place_of,
    read_manifest,
    receipt_of,
    require_table,
    root_of,
)
from lab.memory.table.lance_table import LanceTable, TableSettings, require_permitted
from lab.systems.openclaw.table.contents import Contents

Root = Annotated[
    Path | None, typer.Option("--root", metavar="DIR", help="Folder of the tags. [default: FOLDER-snapshots]")
]
TagName = Annotated[str, typer.Argument(metavar="TAG", help="1 to 64 letters, digits, '.', '_' and '-'.")]
Backup = Annotated[bool, typer.Option("--backup", help="TAG is the name of a backup that a checkout made.")]
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


@dataclass(frozen=True, slots=True)
class Writing:
    """Options of a command that changes the table or its tags."""

    write: Write = False
    despite_gateway: AllowGateway = False
    wait: Wait = 10.0


@dataclass(frozen=True, slots=True)
class Thresholds(indexes.Thresholds):
    """The thresholds as options."""

    unindexed: Unindexed = 0.1
    fragments: Fragments = 32
    vector_rows: VectorRows = None


def add(
    folder: Folder,
    name: TagName,
    root: Root = None,
    in_table: Annotated[
        bool, typer.Option("--in-table", help="Tag the version inside the table instead of copying it; needs --write.")
    ] = False,
    *,
    writing: Writing,
) -> Result:
    """Keep the table as it is now, under a name.

    Copies the table to DIR/TAG/data with a digest of every file; only its owner
    can read it. A gateway may use the table meanwhile. With --in-table nothing
    is copied: the version stays in the table, which no compaction then deletes,
    and is lost with the table; this needs --write.
    """
    started, tags, write = time.perf_counter_ns(), root_of(folder, root), writing.write
    if not in_table:
        # The copy is the lab's own output.
        write, manifest = True, create_tag(folder, name, tags, now=datetime.now(UTC))
    else:
        if not write:
            require_permitted(folder, despite_gateway=writing.despite_gateway)
        with open_for_tags(folder, "lab memory tags add", **asdict(writing)) as table:
            manifest = create_version_tag(folder, name, tags, now=datetime.now(UTC), table=table, write=write)

    def show(_: object) -> None:
        emit(f"{'tagged' if write else 'would tag'} {counted(manifest.rows or 0, 'memory')} as {name}")
        if not in_table:
            emit(f"  {tags / name / 'data'}")

    receipt = _receipt("tag", folder, tags, started) | receipt_of(manifest)
    return changed("memory tags add", folder if in_table else tags, receipt, show, write=write)


def list_(
    folder: Folder,
    root: Root = None,
    check: Annotated[bool, typer.Option("--check", help="Compare every file with its digest.")] = False,
) -> Result:
    """List tags and backups, newest first.

    A checkout makes the backups.

    Exit code 1: --check found a damaged tag.
    """
    started, tags = time.perf_counter_ns(), root_of(folder, root)
    if not tags.is_dir():
        # A name that was mistyped has no tags either.
        require_table(folder)
    found, backups = (list_tags(tags, backups=backups, check=check) for backups in (False, True))

    def show(_: object) -> None:
        rows = [_row(one, "") for one in found] + [_row(one, "backup") for one in backups]
        if rows:
            emit_table(["tag", "made", "memories", "bytes", ""], rows, left=2)
        else:
            emit(f"{tags}: no tags")

    damaged = [one for one in (*found, *backups) if one.manifest is None]
    more = f" ({len(damaged) - 1} more)" if len(damaged) > 1 else ""
    error = CheckFailed(f"{damaged[0].problem}{more}") if check and damaged else None
    lists = {"tags": [_listed(one) for one in found], "backups": [_listed(one) for one in backups]}
    return Result(_receipt("list", folder, tags, started) | lists, show, error=error)


def checkout(
    folder: Folder,
    name: TagName,
    root: Root = None,
    backup: Backup = False,
    *,
    writing: Writing,
) -> Result:
    """Put the table of a tag in the place of the present one.

    Every file of the tag is compared with its digest, and the present table is
    copied to DIR/_checkout-backups first. Then the two tables are exchanged in
    one step. Start the gateway again afterwards.
    """
    started, tags, write = time.perf_counter_ns(), root_of(folder, root), writing.write
    place = place_of(tags, name, backup=backup)
    done = check_out(folder, place, tags, now=datetime.now(UTC), **asdict(writing))
    warn(*done.notes)
    undo = _undo(folder, root, done)
    receipt = _receipt("checkout", folder, tags, started) | {
        "tag": name,
        "before": _contents(done.before),
        "after": _contents(done.after),
        "backup": done.backup or None,
        "restartRequired": write,
        "rollback": undo or None,
    }

    def show(_: object) -> None:
        before = "no readable table" if done.before is None else counted(done.before.rows, "memory")
        after = 0 if done.after is None else done.after.rows
        emit(f"{'restored' if write else 'would restore'} {name}: {counted(after, 'memory')} in the place of {before}")
        if write:
            emit_folded("Start the gateway again: it still has the old table open.")
        if undo:
            emit(f"To undo:\n  {undo}")

    return changed("memory tags checkout", folder, receipt, show, write=write)


def delete(folder: Folder, name: TagName, root: Root = None, backup: Backup = False, *, writing: Writing) -> Result:
    """Delete a tag or a backup; the table stays as it is."""
    started, tags, write = time.perf_counter_ns(), root_of(folder, root), writing.write
    place = place_of(tags, name, backup=backup)
    try:
        in_table = read_manifest(place).lance_tag
    except UnusableInput:
        # A damaged tag can be deleted.
        in_table = False
    if write and in_table and (folder / "memories.lance").is_dir():
        with open_for_tags(folder, "lab memory tags delete", **asdict(writing)) as table:
            delete_tag(place, table)
    elif write:
        delete_tag(place, None)
    receipt = _receipt("delete", folder, tags, started) | {"tag": name, "backup": backup}
    text = f"{'deleted' if write else 'would delete'} {place}"
    return changed("memory tags delete", folder, receipt, lambda _: emit(text), write=write)


def _receipt(op: str, folder: Path, root: Path, started: int) -> dict[str, Any]:
    latency = (time.perf_counter_ns() - started) // 1_000_000
    return {"schema": "lab.store.version.v1", "op": op, "dbPath": str(folder), "root": str(root), "latencyMs": latency}


def _contents(contents: Contents | None) -> dict[str, Any] | None:
    if contents is None:
        return None
    return {"version": contents.version, "rowCount": contents.rows, "contentSha256": contents.sha256}


def _listed(listed: Listed) -> dict[str, Any]:
    return {"tag": listed.tag, "problem": listed.problem} if listed.manifest is None else receipt_of(listed.manifest)


def _row(listed: Listed, kind: str) -> list[str]:
    manifest = listed.manifest
    if manifest is None:
        return [listed.tag, "", "", "", f"damaged {kind}".strip()]
    size = "" if manifest.lance_tag else f"{sum(file.bytes for file in manifest.files):,}"
    rows = "" if manifest.rows is None else str(manifest.rows)
    return [listed.tag, manifest.created, rows, size, "in the table" if manifest.lance_tag else kind]


def _undo(folder: Path, root: Path | None, done: Checkout) -> str:
    if not done.backup:
        return ""
    words = ["lab", "memory", "tags", "checkout", str(folder), done.backup, *(["--root", str(root)] if root else [])]
    return shlex.join([*words, *([] if done.manifest.lance_tag else ["--backup"]), "--write"])


def status(
    folder: Folder,
    thresholds: Thresholds,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if an index is missing or stale.")] = False,
) -> Result:
    """Show the indexes of a table and what is due."""
    started = time.perf_counter_ns()
    with _table(folder, "status") as table:
        found = indexes.status(table, thresholds)
        receipt = indexes.receipt_of("status", table, found, started)
    why, command = _due(folder, found)

    def show(_: object) -> None:
        _show(found)
        emit_folded(f"{why}:" if command else why)
        if command:
            # A command that is folded cannot be copied.
            emit(f"  {command}")

    error = CheckFailed(f"{folder}: {why}: {command}") if check and not found.healthy else None
    return Result(receipt, show, error=error)


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
    *,
    thresholds: Thresholds,
    writing: Writing,
) -> Result:
    """Build the indexes that are missing.

    They are on text, scope, importance_label, category and createdAt, and with
    --vector-from on the vectors. An index of texts changes what a gateway finds,
    and one of vectors loses some: tag the table first.
    """
    if words not in indexes.WORDS:
        raise UnusableInput(f"--words {words}: expected simple, ngram or icu")
    if words == "icu":
        warn(ICU)
    started, write = time.perf_counter_ns(), writing.write
    with _table(folder, "build", writing) as table:
        if write:
            done = indexes.build(table, thresholds, words=words, rebuild=rebuild)
        else:
            before = indexes.status(table, thresholds)
            names = [f"{column}_idx" for column, _ in before.missing]
            done = indexes.Done(before, before, (*names, *(one.name for one in before.indexes if rebuild)))
        warn(*table.notes)
        receipt = indexes.receipt_of("build", table, done, started)

    def show(_: object) -> None:
        _report(done, "built" if write else "would build")
        if done.agreement is not None:
            found = f"the vector index finds {done.agreement:.0%} of the nearest {indexes.TOP} rows"
            emit_folded(f"{'warning: ' if done.agreement < AGREEMENT else ''}{found}")

    return changed("memory index build", folder, receipt, show, write=write, due=bool(done.changed))


def optimize(folder: Folder, keep: KeepDays = 7.0, *, thresholds: Thresholds, writing: Writing) -> Result:
    """Merge files and update the indexes, if that is due.

    It is due if a threshold is reached; lower ones, such as --max-fragments 2,
    make it due earlier. Builds no index. Versions with a tag
    stay, however old.
    """
    started, write = time.perf_counter_ns(), writing.write
    with _table(folder, "optimize", writing, keep_days=keep) as table:
        if write:
            done = indexes.optimize(table, thresholds)
        else:
            before = indexes.status(table, thresholds)
            stale = tuple(one.name for one in before.indexes if one.unindexed)
            due = bool(before.reasons)
            done = indexes.Done(before, before, ("files", *stale) if due else ())
        warn(*table.notes)
        receipt = indexes.receipt_of("optimize", table, done, started)

    def show(_: object) -> None:
        _report(done, "brought up to date" if write else "would bring up to date")
        if write and done.changed:
            emit(f"small files {done.before.small_fragments} to {done.after.small_fragments}")

    return changed("memory index optimize", folder, receipt, show, write=write, due=bool(done.changed))


def _table(folder: Path, command: str, writing: Writing | None = None, *, keep_days: float = 7.0) -> LanceTable:
    """Open the table of a command, which only reads without ``writing``.

    Raises :class:`UnusableInput` if the table must not be written, in a dry run as well.
    """
    how, is_dry = writing or Writing(), writing is not None and not writing.write
    if is_dry:
        require_permitted(folder, despite_gateway=how.despite_gateway)
    # Only what the command says is compacted.
    settings = TableSettings(compact_on_close=1 << 30, wait_seconds=how.wait, keep_seconds=int(keep_days * 86400))
    what = f"lab memory index {command}"
    table = LanceTable(
        folder, read_only=not how.write, despite_gateway=how.despite_gateway, settings=settings, what=what
    )
    if is_dry:
        table.require_changeable()
    if how.write and (reason := table.read_only_reason):
        raise not_written(folder, reason)
    return table


def _show(found: indexes.Status) -> None:
    emit(f"{counted(found.rows, 'row')}, version {found.version}, {counted(found.fragments, 'file')} of rows")
    if found.indexes:
        rows = [
            [one.name, one.kind, one.rows, one.unindexed, one.built_at, "stale" if one.stale else "ok"]
            for one in found.indexes
        ]
        emit_table(["index", "kind", "rows", "not in it", "built", ""], rows, left=2)
    if found.missing:
        emit_folded(f"no index on {', '.join(column for column, _ in found.missing)}")


def _due(folder: Path, found: indexes.Status) -> tuple[str, str]:
    """Return what is due, and its command; the command is blank if nothing is."""
    if found.missing:
        return "indexes are missing", shlex.join(["lab", "memory", "index", "build", str(folder), "--write"])
    if found.reasons:
        return ", ".join(found.reasons), shlex.join(["lab", "memory", "index", "optimize", str(folder), "--write"])
    return "nothing is due", ""


def _report(done: indexes.Done, what: str) -> None:
    emit_folded(f"{what}: {', '.join(done.changed)}" if done.changed else "nothing to do")


# Of ``lab memory tags`` and ``lab memory index``.
tags = (add, list_, checkout, delete)
index = (status, build, optimize)
