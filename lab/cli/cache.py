"""``lab cache stat``, ``lab cache gc``, ``lab cache verify`` and ``lab cache answers``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.formatting import counted
from lab.cli.options import Write
from lab.cli.output import emit, emit_folded, emit_table
from lab.cli.results import Result, changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.embedding.housekeeping import Held
    from lab.systems.external.answers import Held as Answers

SHOWN = 20
# List in a receipt -> what its removed files are.
WHY_REMOVED = {"leftovers": "of killed processes", "others": "of models not in use", "damaged": "damaged"}
Models = Annotated[
    list[str] | None,
    typer.Option("--embedder", help="A model in use, as in lab replay. Repeat for more. [default: the default model]"),
]


def stat(embedder: Models = None) -> Result:
    """Show the size of the cache by kind of entry and maker.

    The maker is a model or a version of the lab or of a library.
    """
    from lab.embedding.cache import cache_folder
    from lab.embedding.housekeeping import stat as measure

    root = cache_folder()
    parts = measure(root, *_present(embedder))
    total = sum(part.bytes for part in parts)
    return Result(
        parts,
        lambda parts: _show_parts(parts, f"{root}: {_size(total)}"),
        lambda parts: {"folder": str(root), "bytes": total, "parts": [part._asdict() for part in parts]},
    )


def _show_parts(parts: Sequence[Held], total: str) -> None:
    emit(total)
    # Parts of other versions are many, and nothing else is known of them.
    nameless = [part for part in parts if part.present is False and part.made_by is None]
    rows = [_row(part) for part in parts if part not in nameless]
    kinds = dict.fromkeys(part.kind for part in nameless)
    rows += [_together([part for part in nameless if part.kind == kind]) for kind in kinds]
    if rows:
        emit_table(["kind", "key", "made by", "entries", "files", "size", "used"], rows, left=3)
    if any(part.present is False for part in parts):
        emit_folded("lab cache gc --other-models --write removes what is not in use.")


def gc(
    other_models: Annotated[
        bool,
        typer.Option(
            "--other-models", help="Remove entries of models, LanceDB versions or lab versions that are not in use."
        ),
    ] = False,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Remove files that lab cache verify finds damaged.")
    ] = False,
    embedder: Models = None,
    write: Write = False,
) -> Result:
    """Remove temporary files, and merge small chunks.

    The files are those of killed processes. This is safe while runs are using the cache.
    """
    from lab.embedding.cache import cache_folder
    from lab.embedding.housekeeping import collect as collect_garbage

    root = cache_folder()
    freed = collect_garbage(root, _present(embedder)[0], other_models=other_models, damaged=damaged, dry_run=not write)
    removed = {name: [str(path) for path in getattr(freed, name)] for name in WHY_REMOVED}
    merged = [merge._asdict() | {"folder": str(merge.folder)} for merge in freed.merged]
    counts = {"files": sum(map(len, removed.values())), "merged": len(merged), "bytes": freed.bytes}
    receipt = {"counts": counts, **removed, "merged": merged}
    return changed("cache gc", root, receipt, _show_freed, write=write, due=any((*removed.values(), merged)))


def _show_freed(change: dict[str, Any]) -> None:
    would = "" if change["written"] else "would be "
    for name, why in WHY_REMOVED.items():
        if files := change[name]:
            emit(f"{would}removed: {counted(len(files), 'file')} {why}")
    for merge in change["merged"]:
        folder = Path(merge["folder"]).relative_to(change["target"])
        emit(f"{would}merged: {merge['before']} chunks of {folder} into {merge['after']}")
    if not any(change[name] for name in (*WHY_REMOVED, "merged")):
        emit("nothing to do")
        return
    emit(f"{would}freed: {_size(change['counts']['bytes'])}")


def verify(
    recording: Annotated[
        Path | None, typer.Option(help="Also embed the texts of this recording again, and compare bit for bit.")
    ] = None,
    format: Annotated[str, typer.Option("--format", help="Format of the recording.")] = "lab",  # noqa: A002 - the name of the option
    sample: Annotated[
        int | None, typer.Option(min=1, help="Number of its texts to embed, sampled by hash. [default: all]")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="The model to embed them with. [default: the default model]")
    ] = None,
) -> Result:
    """Check every file of the cache for damage.

    Chunks must be readable and match their name and checksum; vectors must be finite and have length 1.
    """
    from lab.embedding.cache import cache_folder
    from lab.embedding.housekeeping import damage

    root = cache_folder()
    files = [file for _, part in damage(root) for file in part]
    damaged = [{"file": str(file.path), "problem": file.problem} for file in files if file.problem]
    summary: dict[str, Any] = {"folder": str(root), "files": len(files), "without_checksum": 0}
    summary["without_checksum"] = sum(not file.stamped for file in files if file.path.suffix == ".arrow")
    if recording is not None and not damaged:
        again = _recompute(recording, format, sample, embedder)
        summary["recomputed"] = {"compared": again.compared, "lacking": again.lacking}
        damaged += [
            {"file": str(path), "problem": f"{count} of its vectors differ from those computed again"}
            for path, count in again.differing.items()
        ]
    summary["damaged"] = damaged
    failed = CheckFailed(
        f"{root}: {len(damaged)} damaged files; remove them, and the next run computes their entries again "
        "(lab cache gc --damaged --write removes those it can detect without a recording)"
    )
    return Result(summary, _show_checked, error=failed if damaged else None)


def _show_checked(summary: dict[str, Any]) -> None:
    damaged = summary["damaged"]
    emit(f"{counted(summary['files'], 'file')} checked, {summary['without_checksum']} of them without a checksum")
    if "recomputed" in summary:
        texts = summary["recomputed"]
        emit(f"{texts['compared']} texts embedded again; {texts['lacking']} texts are not in the cache")
    for file in damaged[:SHOWN]:
        emit(f"damaged: {file['file']}: {file['problem']}")
    if len(damaged) > SHOWN:
        emit(f"… and {len(damaged) - SHOWN} more (--json lists all)")


def answers(
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", help="Remove the answers with this key or of this arm, or all. Repeat for more."),
    ] = None,
    stderr: Annotated[
        str | None,
        typer.Option(
            "--stderr", help="Show what the host of this arm or key last wrote to stderr; it may quote memories."
        ),
    ] = None,
    write: Write = False,
) -> Result:
    """List the recorded answers of external systems, or remove them.

    Answers of rerankers are among them. Others hold texts of the recordings. With --answers recorded, a replay uses
    them in place of the systems.
    """
    from lab.embedding.cache import cache_folder
    from lab.systems.external.answers import KIND, held
    from lab.systems.external.answers import remove as remove_answers

    if remove and stderr:
        raise UnusableInput("give either --remove or --stderr")
    if write and not remove:
        raise UnusableInput("--write: there is nothing to write; --remove names what to remove")
    option, words = ("--stderr", {stderr}) if stderr else ("--remove", {*(remove or ())})
    there = held()
    # An arm under a budget of tokens has the answers of the arm without one.
    named = {word: [one for one in there if word in ("all", one.key) or _same_arm(word, one.arm)] for word in words}
    chosen = [one for one in there if any(one in some for some in named.values())]
    unknown = {word for word, some in named.items() if not some} - {"all"}
    if unknown:
        known = ", ".join(dict.fromkeys(one.arm for one in there)) or "nothing is recorded"
        raise UnusableInput(f"{option} {min(unknown)}: no such arm or key; known: {known}")
    if stderr:
        return _errors(stderr, chosen)
    if write:
        remove_answers(chosen)
    folder = cache_folder() / KIND
    listed = [one._asdict() for one in chosen or there]
    if remove:
        counts = {"arms": len(chosen), "bytes": sum(one.bytes for one in chosen)}
        receipt = {"counts": counts, "answers": listed}
        return changed("cache answers", folder, receipt, _show_removed, write=write)
    return Result({"folder": str(folder), "answers": listed}, _show_answers)


def _show_removed(change: dict[str, Any]) -> None:
    arms, size = counted(change["counts"]["arms"], "arm"), _size(change["counts"]["bytes"])
    emit(f"{'' if change['written'] else 'would be '}removed: {size} of answers of {arms}")


def _show_answers(found: dict[str, Any]) -> None:
    keys = ("arm", "system", "version", "key", "recordings")
    if found["answers"]:
        rows = [[*(one[key] for key in keys), _size(one["bytes"])] for one in found["answers"]]
        emit_table([*keys, "size"], rows, left=4)
    else:
        emit(f"{found['folder']}: nothing is recorded")


def _same_arm(name: str, other: str) -> bool:
    return name.partition("@")[0] == other.partition("@")[0]


def _errors(name: str, chosen: Sequence[Answers]) -> Result:
    from lab.systems.external.answers import last_errors

    found = last_errors(chosen)
    shown = "\n".join(found[1].splitlines()[-SHOWN:]) if found else f"{name}: its host wrote nothing to stderr"
    return Result(
        found,
        lambda _: emit(shown),
        lambda found: {"recording": str(found[0]) if found else None, "stderr": found[1] if found else ""},
    )


def _recompute(path: Path, form: str, sample: int | None, embedder: str | None) -> Any:
    from lab.embedding.embedder import DEFAULT_MODEL, QUERY, roles_of
    from lab.embedding.vectors import Recomputed, Vectors, embedder_named
    from lab.recordings.readers import read_library

    library = read_library(path, form)
    memories = [memory.index_text for recording in library.recordings for memory in recording.memories]
    turns = [turn.text for recording in library.recordings for turn in recording.turns if turn.role == "user"]
    vectors = Vectors(embedder_named(embedder or DEFAULT_MODEL))
    if len(roles_of(vectors.embedder)) == 1:
        return vectors.recompute(memories + turns, sample)
    documents, queries = vectors.recompute(memories, sample), vectors.recompute(turns, sample, QUERY)
    return Recomputed(
        documents.compared + queries.compared,
        documents.lacking + queries.lacking,
        documents.differing | queries.differing,
    )


def _present(embedders: list[str] | None) -> tuple[dict[str, set[str]], dict[str, Any]]:
    """Return the keys in use by kind, and a description of every key whose maker is known."""
    from lab.embedding.embedder import (
        DEFAULT_MODEL,
        DOCUMENT,
        HashingEmbedder,
        role_identity,
        role_key,
        roles_of,
    )
    from lab.embedding.housekeeping import Maker, describe
    from lab.embedding.vectors import embedder_named
    from lab.replay.candidates import search_key
    from lab.retrieval.tokens import TextSettings, words_key

    models = [embedder_named(name) for name in embedders or [DEFAULT_MODEL]]
    settings = [TextSettings(stops, stem) for stops in ("english", "none") for stem in (True, False)]
    known = {
        role_key(model, role): describe(role_identity(model, role))
        for model in (HashingEmbedder(), *models)
        for role in roles_of(model)
    }
    known |= {words_key(setting): describe(setting.identity()) for setting in settings}
    keys = {role_key(model, role) for model in models for role in roles_of(model)}
    known[search_key()] = Maker("this version's search", None)
    words = {words_key(setting) for setting in settings}
    documents = {role_key(model, DOCUMENT) for model in models}
    return {"vectors": keys, "docs": documents, "tokens": words, "candidates": {search_key()}}, known


def _row(part: Held) -> list[object]:
    """Return a row of the table. A version is shown only for a part that is not in use."""
    words = [part.made_by or "unknown", part.version, "not in use"] if part.present is False else [part.made_by]
    made_by = ", ".join(word for word in words if word) or None
    return [part.kind, part.key[:8], made_by, part.entries, part.files, _size(part.bytes), part.used]


def _together(parts: Sequence[Held]) -> list[object]:
    """Return one row for parts of one kind whose maker is not known."""
    total = sum(part.bytes for part in parts)
    entries, files = sum(part.entries or 0 for part in parts), sum(part.files for part in parts)
    return [
        parts[0].kind,
        f"{len(parts)} keys" if len(parts) > 1 else parts[0].key[:8],
        "others, not in use",
        entries,
        files,
        _size(total),
        max(part.used for part in parts),
    ]


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


# Of ``lab cache``.
cache = (stat, gc, verify, answers)
