"""The command ``lab memory import``, which names every record that is not stored as it is in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.cli.options import DryRun, Profile, Write, require_one
from lab.cli.output import Json, announce, announce_folded, emit_folded
from lab.memory.cli.memory_options import (
    AllowGateway,
    CompactEvery,
    ConfigFile,
    EmbedderName,
    FileFormat,
    FileLimit,
    Folder,
    ScopeName,
    VectorLength,
    Wait,
    finish,
    opened,
    require_format,
)

_VECTORS = {"kept": "kept", "embedded": "embedded", "zero": "zero, because no embedder made one"}
_NAMED = "skipped, because the id {} already has another text"
_REASONS = {
    "missing_text": "it has no text",
    "secret_like": "it looks like a key, a token or a password",
    "missing_vector_and_embeddings": "it has no vector that fits, and there is no embedder",
    "vector_not_finite": "a number of its vector is too large for 32 bits",
    "vector_of_other_length": "its vector was not used",
    "text_too_long": "its text is longer than 16 MiB",
    "line_too_long": "the line is longer than 16 MiB",
    "invalid_json": "the line is not JSON",
    "not_utf8": "the line is not UTF-8 text",
    "bad_created_at": "its createdAt is not a time; the time of the import was stored",
    "id_in_use": "its id is taken; it got a new one",
    "working_set": "a stored Working Set, which the engine builds again; skipped",
}


def import_file(
    folder: Folder,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="An export: .jsonl, or .json.")],
    file_format: FileFormat = None,
    dedupe: Annotated[
        str, typer.Option(help="Skip records with the same id (id), id or text (id_text), or none (none).")
    ] = "id_text",
    scope: ScopeName = None,
    limit: FileLimit = None,
    config: ConfigFile = None,
    profile: Profile = "seed",
    embedder: EmbedderName = None,
    dimension: VectorLength = None,
    despite_gateway: AllowGateway = False,
    compact_every: CompactEvery = 128,
    wait: Wait = 10.0,
    dry_run: DryRun = False,
    write: Write = False,
    as_json: Json = False,
) -> None:
    """Append the memories of a file in one commit.

    All of them are stored or none. Records keep their vectors if these fit the table; others are embedded. Run
    it again after an interruption: what is stored is skipped.
    Exit code 1: some records could not be imported; the others are stored.
    """
    from lab.memory.tools.importing import memory_import

    require_one(dry_run, write)
    require_format(file_format)
    if dedupe not in ("none", "id", "id_text"):
        raise UnusableInput(f"--dedupe {dedupe}: expected none, id or id_text")
    if not source.is_file():
        raise UnusableInput(f"{source}: {'is a folder' if source.is_dir() else 'no such file'}")
    with opened(
        folder,
        "import",
        config=config,
        profile=profile,
        embedder=embedder,
        dimension=dimension,
        scope=scope,
        write=True,
        create=True,
        dry_run=not write,
        despite_gateway=despite_gateway,
        compact_every=compact_every,
        wait=wait,
    ) as session:
        result = memory_import(
            session.context,
            source,
            file_format=file_format,
            dedupe=dedupe,
            scope=scope,
            limit=limit,
            dry_run=not write,
        )
    finish(result, session, as_json=as_json, change="memory import", write=write)
    if not as_json and result.error is None:
        _show(result.details, session.context.dimension, will="" if write else "would be ")
    if failed := result.details.get("failed"):
        first = result.details["failures"][0]
        raise CheckFailed(f"{source}: {counted(failed, 'record')} not imported; the first is {_place(first)}")


def _show(details: dict[str, Any], dimension: int, *, will: str) -> None:
    """Print what became of the vectors, and name the records that failed, lost something, or were skipped by their id.

    Profile ``upstream`` counts failures alone.
    """
    failures, warnings = details["failures"], details.get("warnings", [])
    if vectors := details.get("vectors"):
        shown = ", ".join(f"{count} {will}{_VECTORS[name]}" for name, count in vectors.items())
        emit_folded(f"Vectors: {shown}.")
    lost = [entry for entry in warnings if entry["reason"] == "vector_of_other_length"]
    if lost:
        announce_folded(
            f"note: those of the table have {dimension} numbers, so vectors of another length were not used; give "
            "--dimension for a new table, and the embedder that made them"
        )
    same = [entry | {"reason": _NAMED.format(entry["id"])} for entry in details.get("skips", ()) if _is_other(entry)]
    for entry in (*failures, *warnings, *same):
        announce_folded(f"note: {_place(entry)}")
    more = max(0, details["failed"] - len(failures)) + max(0, details.get("warned", 0) - len(warnings))
    if more:
        announce(f"note: and {counted(more, 'record')} more")


def _is_other(entry: dict[str, Any]) -> bool:
    return bool(entry["reason"] == "same_id_other_text")


def _place(entry: dict[str, Any]) -> str:
    """Return where a record is, and what is the matter with it."""
    at = f"line {entry['line']}" if "line" in entry else f"record {entry['index'] + 1}"
    reason = entry["reason"]
    return f"{at}: {reason} ({_REASONS[reason]})" if reason in _REASONS else f"{at}: {reason}"
