"""``lab recordings``: list, import, check and convert recordings, and print the schema of the lab's format."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed
from lab.base.formatting import counted
from lab.cli import completion, replay_options
from lab.cli.output import emit, emit_folded, emit_indented, emit_list, emit_suspects, emit_table
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.recordings.convert import Converted, Taken
    from lab.recordings.formats import Format
    from lab.recordings.inventory import Inventory
    from lab.recordings.readers import Library
    from lab.recordings.validate import Validation


def list_(
    format: Annotated[  # noqa: A002 - the name of the argument
        str | None,
        typer.Argument(metavar="[FORMAT]", autocompletion=completion.formats, help="Show this format in detail."),
    ] = None,
) -> Result:
    """List the formats that can be read.

    Shows the licence of each public set, or with FORMAT its kinds of memory, its origin and the known checksums.
    """
    from lab.recordings.catalogue import CATALOGUE
    from lab.recordings.formats import FORMATS, VARIANTS, format_named

    formats = [format_named(format)] if format else list(FORMATS.values())
    known = {entry.format: entry for entry in CATALOGUE}

    def described(formats: list[Format]) -> dict[str, Any]:
        sets = [
            {"format": form.name, "about": form.about, "files": form.pattern, "memories": form.memories}
            | {"recall_turns": form.recall_turns, "set": known[form.name].as_json() if form.name in known else None}
            for form in formats
        ]
        return {"formats": sets}

    def show(formats: list[Format]) -> None:
        rows = [
            [form.name, known[form.name].licence, known[form.name].good_for]
            if form.name in known
            else [form.name, "yours", form.about]
            for form in formats
        ]
        emit_table(["format", "licence", "good for"], rows, left=3, whole_keys=True)
        emit_folded("`lab recordings list FORMAT` shows the origin and checksums of one.")

    def show_one(formats: list[Format]) -> None:
        (form,) = formats
        entry = known.get(form.name)
        facts = {"format": form.name, "what": form.about, "files": form.pattern, "memories": ", ".join(form.memories)}
        facts |= {"recall turns": form.recall_turns}
        facts |= {
            f"--format {variant.name}": variant.about
            for variant in VARIANTS.values()
            if variant.gather and variant.name.startswith(f"{form.name}-")
        }
        if entry:
            commit = f", commit {entry.commit}" if entry.commit else ""
            origin = f"{entry.repository}{f', {entry.path}' if entry.path else ''}{commit}"
            facts |= {"origin": origin, "licence": entry.licence, "contents": entry.holds, "good for": entry.good_for}
        emit_table(["", ""], list(facts.items()), left=2, whole_keys=True)
        if entry and entry.files:
            rows = [[file.name, file.part or "as published", file.sha256[:16]] for file in entry.files]
            emit_table(["known file", "contents", "sha256 starts"], rows, left=3)

    return Result(formats, show_one if format else show, described)


def validate(
    path: replay_options.Recordings,
    format: replay_options.Format,  # noqa: A002 - the name of the option
    memories_from: replay_options.CheckedMemories = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 also for warnings, such as a skipped record.")
    ] = False,
) -> Result:
    """Check recordings, and list errors and repaired records.

    With --memories-from, the store is checked with them, as a replay would read both.
    """
    from lab.recordings.validate import validate as check
    from lab.replay.memories_from import read_stored, with_stored
    from lab.replay.scopes import scope_notes

    def change(library: Library) -> Library:
        return with_stored(library, read_stored(memories_from)) if memories_from else library

    report = check(path, format, change=change)
    notes = scope_notes(report.scopes)
    failed = None
    if report.errors:
        failed = CheckFailed(f"{path}: {counted(len(report.errors), 'error')}")
    elif strict and report.warnings:
        failed = CheckFailed(f"{path}: {counted(len(report.warnings), 'warning')}, which --strict does not accept")

    def show(report: Validation) -> None:
        emit_table(
            ["conversation", "sessions", "turns", "memories", "own probes"],
            [[row.conversation, row.sessions, row.turns, row.memories, row.probes] for row in report.conversations],
        )
        if report.inventory:
            _emit_inventory(report.inventory)
        emit_list("note", notes)
        emit_list("warning", report.warnings)
        emit_list("error", report.errors)

    return Result(report, show, lambda report: report.as_json() | {"notes": list(notes)}, error=failed)


def _emit_inventory(inventory: Inventory) -> None:
    """Print the conversations of a path by how they are stored, and counts of what was skipped."""

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
                *(stock.stored, stock.origin or "-", stock.conversations, stock.turns, stock.memories),
                *map(day, (stock.first_ms, stock.last_ms)),
            ]
            for stock in inventory.stocks
        ],
        left=2,
    )
    if inventory.passed:
        emit()
        emit_table(["skipped: not turns", "count"], [[skipped.what, skipped.count] for skipped in inventory.passed])
    emit_suspects(inventory.suspects)


def import_(
    path: replay_options.Recordings,
    format: replay_options.Format,  # noqa: A002 - the name of the option
    out: Annotated[Path, typer.Option("--out", help="The folder to create: new, or made from the same files.")],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse files whose checksum is unknown.")] = False,
) -> Result:
    """Copy a downloaded set into a folder, with a card.

    The card lists origin, licence, counts and checksums. The folder is created complete or not at all.
    """
    from lab.recordings.convert import take

    return Result(take(path, format, out, only_known=strict), lambda taken: _show_taken(taken, format))


def _show_taken(taken: Taken, form: str) -> None:
    emit_table(
        ["file", "version", "sha256 starts"],
        [[file.name, file.version, file.sha256[:16]] for file in taken.files],
        left=3,
    )
    if taken.unknown:
        emit_folded(
            f"unknown version (newer, edited, or another set): {counted(len(taken.unknown), 'file')}. To check: "
            f"`lab recordings validate {taken.folder} --format {form}`"
        )
    emit(
        f"{taken.folder}: {counted(taken.conversations, 'conversation')}, {counted(taken.probes, 'probe')}"
        + (", unchanged" if taken.already_there else "")
    )


def convert(
    path: replay_options.Recordings,
    format: replay_options.Format,  # noqa: A002 - the name of the option
    out: Annotated[Path, typer.Option("--out", help="The folder to create, with datasets/NAME and golden/NAME.")],
    memories: replay_options.Memories = None,
    name: Annotated[str | None, typer.Option(help="NAME of the set. [default: the name of the format]")] = None,
    scopes: Annotated[
        str, typer.Option(help="raw, or validate scopes like scopePolicy.validationMode: normalize or strict.")
    ] = "raw",
    candidates: Annotated[
        bool,
        typer.Option(
            "--candidates",
            help="Make each line or sentence of a turn a memory, to judge what should be kept (lab golden pool "
            "--captures). Leaves out memories and probes.",
        ),
    ] = False,
) -> Result:
    """Convert recordings and their golden set to the lab's format.

    The result is read back and compared with the source.
    """
    from lab.recordings.convert import convert as write
    from lab.replay.pool import with_candidates
    from lab.replay.scopes import with_valid_scopes

    def change(library: Library) -> Library:
        return with_valid_scopes(with_candidates(library) if candidates else library, scopes)

    done = write(path, format, out, memories=memories, name=name, change=change)
    return Result(done, lambda done: _show_converted(done, candidates=candidates))


def _show_converted(done: Converted, *, candidates: bool) -> None:
    emit(
        f"{done.datasets}: {counted(done.conversations, 'conversation')}, {counted(done.turns, 'turn')}, "
        f"{counted(done.memories, 'memory')}" + (", unchanged" if done.already_there else "")
    )
    if done.golden:
        emit(f"{done.golden}: {counted(done.probes, 'probe')}")
    if candidates:
        emit(f"Next: lab golden pool {done.datasets} --format lab --captures --out POOL.jsonl")
    else:
        emit(f"Next: lab replay {done.datasets} --format lab --recall-turns {done.recall_turns} --arm … --out …")


def schema() -> Result:
    """Print the JSON Schema (2020-12) of the lab's format.

    It describes one line of a recording or of a golden set.
    """
    from lab.recordings.native import line_schema

    return Result(line_schema(), emit_indented)


# Of ``lab recordings``.
recordings = (list_, import_, validate, convert, schema)
