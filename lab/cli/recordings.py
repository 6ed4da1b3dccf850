"""``lab recordings``: which sets are known, take one in, check it, convert it, and the form it is converted to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, emit, emit_folded, emit_json, emit_list, emit_table
from lab.errors import CheckFailed
from lab.formatting import counted

if TYPE_CHECKING:
    from lab.recordings.inventory import Inventory


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, help="Recordings: list, import, check and convert them.")
    group.command("list")(list_sets)
    group.command("import")(import_copy)
    group.command("validate")(validate)
    group.command("convert")(convert)
    group.command("schema")(schema)
    app.add_typer(group, name="recordings")


def list_sets(
    format: Annotated[str | None, typer.Argument(metavar="[FORMAT]", help="All that is known of one.")] = None,  # noqa: A002 - what it names
    as_json: Json = False,
) -> None:
    """List the sets that can be read, with origin and licence.

    Of one format: its memories, origin and the checksums that are known.
    """
    from lab.recordings.catalogue import CATALOGUE
    from lab.recordings.readers import FORMATS, VARIANTS, format_named

    formats = [format_named(format)] if format else list(FORMATS.values())
    known = {entry.format: entry for entry in CATALOGUE}
    if as_json:
        sets = [
            {"format": one.name, "about": one.about, "files": one.pattern, "memories": one.memories}
            | {"recall_turns": one.recall_turns, "set": known[one.name].as_json() if one.name in known else None}
            for one in formats
        ]
        emit_json({"formats": sets})
    elif not format:
        rows = [
            [one.name, known[one.name].licence, known[one.name].good_for]
            if one.name in known
            else [one.name, "yours", one.about]
            for one in formats
        ]
        emit_table(["format", "licence", "good for"], rows, left=3, whole_keys=True)
        emit("`lab recordings list FORMAT` says where it comes from, and its checksums.")
    else:
        (form,) = formats
        entry = known.get(form.name)
        facts = {"format": form.name, "what": form.about, "files": form.pattern, "memories": ", ".join(form.memories)}
        facts |= {"recall at turns": form.recall_turns}
        facts |= {
            f"--format {one.name}": one.about
            for one in VARIANTS.values()
            if one.gather and one.name.startswith(f"{form.name}-")
        }
        if entry:
            at = f", commit {entry.commit}" if entry.commit else ""
            origin = f"{entry.repository}{f', {entry.path}' if entry.path else ''}{at}"
            facts |= {"from": origin, "licence": entry.licence, "holds": entry.holds, "good for": entry.good_for}
        emit_table(["", ""], list(facts.items()), left=2, whole_keys=True)
        if entry and entry.files:
            rows = [[one.name, one.part or "as published", one.sha256[:16]] for one in entry.files]
            emit_table(["known file", "holds", "sha256 begins"], rows, left=3)


def validate(
    path: options.Recordings,
    format: options.Format,  # noqa: A002 - the name of the option
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 for warnings, too: a record that was skipped, for one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Read recordings, and list what is wrong or was repaired."""
    from lab.recordings.validate import validate as check

    found = check(path, format)
    if as_json:
        emit_json(found.as_json())
    else:
        emit_table(
            ["conversation", "sessions", "turns", "memories", "probes inside"],
            [[one.conversation, one.sessions, one.turns, one.memories, one.probes] for one in found.conversations],
        )
        if found.inventory:
            _emit_inventory(found.inventory)
        emit_list("warning", found.warnings)
        emit_list("error", found.errors)
    if found.errors:
        raise CheckFailed(f"{path}: {counted(len(found.errors), 'error')}")
    if strict and found.warnings:
        raise CheckFailed(f"{path}: {counted(len(found.warnings), 'warning')}, and --strict lets none pass")


def _emit_inventory(inventory: Inventory) -> None:
    """Print what a path holds by how it is stored, and what was passed over."""

    def day(time_ms: int) -> str:
        try:
            return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d")
        except (ValueError, OverflowError, OSError):
            return f"{time_ms} ms"

    emit()
    emit_table(
        ["stored as", "started by", "read", "turns", "memories", "first", "last"],
        [
            [
                *(one.stored, one.origin or "-", one.conversations, one.turns, one.memories),
                *map(day, (one.first_ms, one.last_ms)),
            ]
            for one in inventory.stocks
        ],
        left=2,
    )
    if inventory.passed:
        emit()
        emit_table(["passed over, not turns", "count"], [[one.what, one.count] for one in inventory.passed])


def import_copy(
    path: options.Recordings,
    format: options.Format,  # noqa: A002 - the name of the option
    out: Annotated[Path, typer.Option("--out", help="The folder to make: new, or one made from the same files.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse files whose checksum is not known.")] = False,
    as_json: Json = False,
) -> None:
    """Copy a downloaded set into a folder with a card. Origin, licence, counts and checksums; whole or not at all."""
    from lab.recordings.take import take

    taken = take(path, format, out, only_known=strict)
    if as_json:
        emit_json(taken.as_json())
        return
    emit_table(
        ["file", "version", "sha256 begins"], [[one.name, one.version, one.sha256[:16]] for one in taken.files], left=3
    )
    if taken.unknown:
        emit_folded(
            f"of an unknown version (newer, edited, or not that set): {counted(len(taken.unknown), 'file')}. "
            f"`lab recordings validate {taken.folder} --format {format}` shows what is read."
        )
    emit(
        f"{taken.folder}: {counted(taken.conversations, 'conversation')}, {counted(taken.probes, 'probe')}"
        + (", there already" if taken.already_there else "")
    )


def convert(
    path: options.Recordings,
    format: options.Format,  # noqa: A002 - the name of the option
    out: Annotated[Path, typer.Option("--out", help="The folder to make, with datasets/NAME and golden/NAME in it.")],
    memories: options.Memories = None,
    name: Annotated[str | None, typer.Option(help="NAME; by default that of the format.")] = None,
    as_json: Json = False,
) -> None:
    """Write any set in the project's own form. Its golden set, too; it is read back to be sure."""
    from lab.recordings.convert import convert as write

    done = write(path, format, out, memories=memories, name=name)
    if as_json:
        emit_json(done.as_json())
        return
    emit(
        f"{done.datasets}: {counted(done.conversations, 'conversation')}, {counted(done.turns, 'turn')}, "
        f"{counted(done.memories, 'memory')}" + (", there already" if done.already_there else "")
    )
    if done.golden:
        emit(f"{done.golden}: {counted(done.probes, 'probe')}")
    emit(f"Next: lab replay {done.datasets} --format lab --recall-turns {done.recall_turns} --arm … --out …")


def schema(as_json: Json = False) -> None:
    """Print the JSON Schema of a line of the project's own form. Recording or golden set; draft 2020-12."""
    import json

    from lab.recordings.schema import line_schema

    if as_json:
        emit_json(line_schema())
    else:
        emit(json.dumps(line_schema(), ensure_ascii=False, indent=2))
