"""``lab cache stat``, ``lab cache gc`` and ``lab cache verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.output import Json, emit, emit_json, emit_table
from lab.errors import CheckFailed
from lab.formatting import counted

if TYPE_CHECKING:
    from lab.embedding.housekeeping import Held

SHOWN = 20
Models = Annotated[
    list[str] | None,
    typer.Option("--embedder", help="A model that is in use, as lab replay takes it. Repeat. [default: the default]"),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    cache = typer.Typer(no_args_is_help=True, help="The cache of vectors, words and candidates.")
    cache.command("stat")(stat)
    cache.command("gc")(collect)
    cache.command("verify")(verify)
    app.add_typer(cache, name="cache")


def stat(embedder: Models = None, as_json: Json = False) -> None:
    """Say what the cache holds, by kind and by what made it."""
    from lab.embedding.cache import cache_folder
    from lab.embedding.housekeeping import stat as held_by

    root = cache_folder()
    held = held_by(root, *_present(embedder))
    total = sum(one.bytes for one in held)
    if as_json:
        emit_json({"folder": str(root), "bytes": total, "parts": [one._asdict() for one in held]})
        return
    emit(f"{root}: {_size(total)}")
    if held:
        emit_table(["kind", "key", "made by", "entries", "files", "size", "used"], list(map(_row, held)), left=3)


def collect(
    other_models: Annotated[
        bool,
        typer.Option(
            "--other-models", help="Remove what was made by a model, a LanceDB or a version that is not in use."
        ),
    ] = False,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Remove files that lab cache verify finds damaged.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    embedder: Models = None,
    as_json: Json = False,
) -> None:
    """Remove what killed processes left behind, and merge small chunks.

    Runs that use the cache meanwhile lose nothing.
    """
    from lab.embedding.cache import cache_folder
    from lab.embedding.housekeeping import collect as tidy

    root = cache_folder()
    freed = tidy(root, _present(embedder)[0], other_models=other_models, damaged=damaged, dry_run=dry_run)
    if as_json:
        told = {name: [str(path) for path in getattr(freed, name)] for name in ("leftovers", "others", "damaged")}
        merged = [one._asdict() | {"folder": str(one.folder)} for one in freed.merged]
        emit_json({"folder": str(root), "dry_run": dry_run, **told, "merged": merged, "bytes": freed.bytes})
        return
    would = "would be " if dry_run else ""
    for name, files in (
        ("left behind by killed processes", freed.leftovers),
        ("of models not in use", freed.others),
        ("damaged", freed.damaged),
    ):
        if files:
            emit(f"{would}removed: {counted(len(files), 'file')} {name}")
    for one in freed.merged:
        emit(f"{would}merged: {one.before} chunks of {one.folder.relative_to(root)} into {one.after}")
    emit(f"{would}freed: {_size(freed.bytes)}" if any(freed[:4]) else "nothing to do")


def verify(
    recording: Annotated[
        Path | None, typer.Option(help="Embed the texts of this recording again as well, and compare bit for bit.")
    ] = None,
    format: Annotated[str, typer.Option("--format", help="Format of the recording.")] = "lab",  # noqa: A002 - the name of the option
    sample: Annotated[int | None, typer.Option(min=1, help="So many of its texts, drawn by hash; else all.")] = None,
    embedder: Annotated[str | None, typer.Option(help="The model to embed them with. [default: the default]")] = None,
    as_json: Json = False,
) -> None:
    """Check that every file of the cache holds what was written into it.

    Chunks are readable, named by their keys, as their checksums say; vectors are finite and of length 1.
    """
    from lab.embedding.cache import cache_folder
    from lab.embedding.housekeeping import damage

    root = cache_folder()
    checked = [(part, one) for part, found in damage(root) for one in found]
    wrong = [{"file": str(one.path), "problem": one.problem} for _, one in checked if one.problem]
    told: dict[str, Any] = {"folder": str(root), "files": len(checked), "without_checksum": 0}
    told["without_checksum"] = sum(not one.stamped for _, one in checked if one.path.suffix == ".arrow")
    if recording is not None and not wrong:
        compared = _recompute(recording, format, sample, embedder)
        told["recomputed"] = {"compared": compared.compared, "lacking": compared.lacking}
        wrong += [
            {"file": str(path), "problem": f"{count} of its vectors are not those of their texts"}
            for path, count in compared.differing.items()
        ]
    told["damaged"] = wrong
    if as_json:
        emit_json(told)
    else:
        without = f"{told['without_checksum']} of them without a checksum of their own"
        emit(f"{counted(len(checked), 'file')} checked, {without}")
        if "recomputed" in told:
            again = told["recomputed"]
            emit(f"{again['compared']} texts embedded again; {again['lacking']} of the recording are not cached")
        for one in wrong[:SHOWN]:
            emit(f"damaged: {one['file']}: {one['problem']}")
        if len(wrong) > SHOWN:
            emit(f"… and {len(wrong) - SHOWN} more (--json lists all)")
    if wrong:
        raise CheckFailed(
            f"{root}: {len(wrong)} damaged files; remove them (lab cache gc --damaged removes those that it finds "
            "damaged by themselves), and the next run computes what they held again"
        )


def _recompute(path: Path, form: str, sample: int | None, embedder: str | None) -> Any:
    from lab.embedding.embedder import DEFAULT_MODEL, QUERY, embedder_named, roles_of
    from lab.embedding.vectors import Recomputed, Vectors
    from lab.recordings.readers import read_library

    library = read_library(path, form)
    memories = [memory.index_text for one in library.recordings for memory in one.memories]
    turns = [turn.text for one in library.recordings for turn in one.turns if turn.role == "user"]
    vectors = Vectors(embedder_named(embedder or DEFAULT_MODEL))
    if len(roles_of(vectors.embedder)) == 1:
        return vectors.recompute(memories + turns, sample)
    found, more = vectors.recompute(memories, sample), vectors.recompute(turns, sample, QUERY)
    return Recomputed(found.compared + more.compared, found.lacking + more.lacking, found.differing | more.differing)


def _present(embedders: list[str] | None) -> tuple[dict[str, set[str]], dict[str, Any]]:
    """Keys in use by kind, and what stands behind the keys that can be known."""
    from lab.embedding.embedder import (
        DEFAULT_MODEL,
        DOCUMENT,
        HashingEmbedder,
        embedder_named,
        role_identity,
        role_key,
        roles_of,
    )
    from lab.embedding.housekeeping import Maker, describe
    from lab.replay.candidates import search_key
    from lab.retrieval.tokens import TextSettings, words_key

    models = [embedder_named(name) for name in embedders or [DEFAULT_MODEL]]
    settings = [TextSettings(stops, stem) for stops in ("english", "none") for stem in (True, False)]
    known = {
        role_key(one, role): describe(role_identity(one, role))
        for one in (HashingEmbedder(), *models)
        for role in roles_of(one)
    }
    known |= {words_key(one): describe(one.identity()) for one in settings}
    keys = {role_key(one, role) for one in models for role in roles_of(one)}
    known[search_key()] = Maker("this version's search", None)
    words = {words_key(one) for one in settings}
    documents = {role_key(one, DOCUMENT) for one in models}
    return {"vectors": keys, "docs": documents, "tokens": words, "candidates": {search_key()}}, known


def _row(one: Held) -> list[object]:
    """A row of the table. What is in use has the version that is installed."""
    words = [one.made_by or "unknown", one.version, "not in use"] if one.present is False else [one.made_by]
    made_by = ", ".join(word for word in words if word) or None
    return [one.kind, one.key[:8], made_by, one.entries, one.files, _size(one.bytes), one.used]


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
