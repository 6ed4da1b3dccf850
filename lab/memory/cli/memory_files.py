"""Commands of ``lab memory`` that read or write files: export, import, documents, and upkeep of the table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from lab.base.errors import CannotMeasure, CheckFailed, LabError, UnusableInput
from lab.base.formatting import counted
from lab.cli.options import DryRun, Write, require_one
from lab.cli.output import announce, announce_folded, emit, emit_folded
from lab.cli.results import Result, changed
from lab.memory.cli.memory_options import (
    DEFAULT_EMBEDDER,
    AllowGateway,
    Changing,
    DocsIndexFile,
    FileFormat,
    FileLimit,
    Folder,
    KeepDays,
    OnlyCategory,
    OnlyScope,
    Reading,
    ScopeName,
    Searching,
    Storing,
    VectorLength,
    check_scope,
    finish,
    named,
    opened,
    plain,
    read_only,
    require_format,
    warn,
)
from lab.memory.table.lance_lock import gateway_using
from lab.memory.tools.context import ToolContext, ToolResult
from lab.memory.tools.docs_tools import memory_docs_ingest, memory_docs_search
from lab.memory.tools.importing import memory_import
from lab.memory.tools.listing import memory_export
from lab.memory.tools.session import CLOCK_AND_IDS, Configured, DryTable, Session, configured
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.index import DocsIndex
from lab.systems.openclaw.docs.lane import DocsLane
from lab.systems.openclaw.table.schema import write_protected

SIZES = ("fragments", "bytes")
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


def export(
    folder: Folder,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; an old one is replaced.")],
    file_format: FileFormat = None,
    scope: OnlyScope = None,
    category: OnlyCategory = None,
    limit: FileLimit = None,
    raw: Annotated[bool, typer.Option("--no-redact", help="Keep secrets; by default they are replaced.")] = False,
    *,
    options: Reading,
) -> Result:
    """Write memories to a file, oldest first, without vectors.

    The same table gives the same bytes. Only its owner can read the file.
    """
    require_format(file_format)
    if out.resolve().is_relative_to(folder.resolve()):
        raise UnusableInput(f"{out}: is inside the LanceDB folder; choose a file outside {folder}")
    if out.is_dir():
        raise UnusableInput(f"{out}: is a folder; name a file")
    _require_unprotected(out.parent)
    with opened(folder, "export", options, scope=scope) as session:
        table = session.require_table()
        result = memory_export(
            session.context,
            out,
            file_format=file_format,
            scope=scope,
            category=category,
            limit=limit,
            redact=not raw,
            carried=table.carried(),
        )
        left = len(session.context.table.rows()) - result.details["count"]
    if left and scope is None and category is None:
        warn(f"{counted(left, 'memory')} not exported; see --limit")
    return finish(result, session)


def docs_ingest(
    folder: Folder,
    root: Annotated[
        list[str] | None, typer.Option("--root", metavar="FOLDER", help="Folder with Markdown. Repeat for more.")
    ] = None,
    glob: Annotated[list[str] | None, typer.Option("--glob", help="Only files that match. Repeat for more.")] = None,
    *,
    options: Searching,
    docs: DocsIndexFile = None,
    despite_gateway: AllowGateway = False,
    write: Write = False,
) -> Result:
    """Update the index of the operator's Markdown documents.

    Without a configuration every --root is allowed; with one, only folders
    inside its docsColdLane.sourceRoots.
    """
    path, settings = docs or folder / "docs.sqlite", configured(options.config, options.profile)
    if not folder.is_dir():
        raise UnusableInput(f"{folder}: no such folder; make it, or store a memory in it first")
    if not despite_gateway and path.resolve().is_relative_to(folder.resolve()) and (by := gateway_using(folder)):
        raise UnusableInput(f"{folder}: a running gateway uses it: {by}; give --docs FILE or --despite-gateway")
    _require_unprotected(path.parent)
    session = _docs_session(settings, tuple(root or ()), tuple(glob or ()))
    if not session.config.docs.source_roots and not session.config.read_only:
        raise UnusableInput("no documents: give --root, or docsColdLane.sourceRoots in the configuration")
    context = _bare_context(session, folder)
    raw = {"sourceRoots": root or [], "sourceGlobs": glob or []} if settings.given else None
    # Nothing is embedded for an index that is thrown away.
    with (
        nullcontext(path) if write else _copied(path) as file,
        closing(_index(file, options.embedder if write else "none")) as index,
    ):
        result = memory_docs_ingest(context, index, raw)
    roots = session.config.docs.source_roots
    wrong = [f"{name} (no such folder)" for name in roots if not Path(name).expanduser().is_dir()]
    error = _error(result, f"{', '.join(wrong or roots)}: {result.text}")

    def show(_: object) -> None:
        if not error:
            emit(result.text)

    did, details = write and result.error is None, plain(result.details)
    return changed("memory docs-ingest", path, details, show, write=did, due=not error, error=error)


def docs_search(
    folder: Folder,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for.")],
    limit: Annotated[int | None, typer.Option(help="Maximum number of documents. [default: by configuration]")] = None,
    scope: ScopeName = None,
    *,
    options: Searching,
    docs: DocsIndexFile = None,
) -> Result:
    """Search the documents that docs-ingest indexed."""
    path = docs or folder / "docs.sqlite"
    if not path.is_file():
        raise UnusableInput(f"{path}: no such index; lab memory docs-ingest makes it")
    configuration = configured(options.config, options.profile)
    check_scope(scope, configuration)
    settings = _docs_session(configuration, (), ())
    most = settings.config.docs.max_items if limit is None else max(1, limit)
    wider = replace(settings.config.docs, max_items=most)
    settings = replace(settings, config=replace(settings.config, docs=wider))
    with closing(DocsLane(wider, _index(path, options.embedder))) as lane:
        result = memory_docs_search(_bare_context(settings, folder), lane, query, limit=limit, scope=scope)
    error = _error(result, result.text)
    return Result(result.details, lambda _: None if error else emit(result.text), plain, error=error)


def backfill(folder: Folder, options: Changing) -> Result:
    """Add the columns that an older table lacks.

    Those of the lab are source_kind, source_ref, lang, hard_rule, media_refs,
    media_kind and due_at; a table of memory-lancedb gets the engine's as well.
    Languages and hard rules follow from the texts; where a text came from stays
    unknown. The plugin ignores the columns. Run it again after an interruption.
    """
    write = options.write
    with opened(folder, "backfill", options, any_columns=True) as session:
        table = session.require_table()
        about = table.describe()
        missing = [*about["missingPluginColumns"], *about["missingColumns"]]
        if not write:
            filled = table.unfilled()
        elif session.context.read_only:
            raise read_only(session)
        else:
            added, filled = table.backfill()
            missing = list(added)
    warn(*session.notes)

    def show(_: object) -> None:
        what = f"columns {', '.join(missing)}" if missing else "no column"
        emit_folded(f"{what} {'added' if write else 'to add'}, values for {counted(filled, 'row')}")

    return changed("memory backfill", folder, {"addedColumns": missing, "filledRows": filled}, show, write=write)


def compact(folder: Folder, keep: KeepDays = 7.0, *, options: Changing) -> Result:
    """Merge the files of a table, delete older versions.

    Older versions contain deleted texts, and can be restored with LanceDB.
    """
    write = options.write
    with opened(folder, "compact", options, keep_seconds=int(keep * 86400)) as session:
        table = session.require_table()
        before = after = table.describe()
        if write:
            if session.context.read_only:
                raise read_only(session)
            table.compact()
            after = table.describe()
    warn(*session.notes)

    def show(_: object) -> None:
        sizes = ", ".join(f"{name} {before[name]}" + (f" to {after[name]}" if write else "") for name in SIZES)
        emit(f"{counted(after['rows'], 'memory')} {'compacted' if write else 'to compact'}: {sizes}")

    return changed("memory compact", folder, {"before": before, "after": after}, show, write=write)


@contextmanager
def docs_lane(session: Session, folder: Path, docs: Path | None) -> Iterator[DocsLane | None]:
    """Yield the documents of a recall; None if the lane is off or there is no index."""
    settings, path = session.context.config.docs, docs or folder / "docs.sqlite"
    if docs is not None and not docs.is_file():
        raise UnusableInput(f"{docs}: no such index; lab memory docs-ingest makes it")
    if docs is None and not (settings.enabled and path.is_file()):
        yield None
        return
    embed = session.encode if session.embedder else None
    with closing(DocsLane(replace(settings, enabled=True), DocsIndex(path, embed, session.context.model))) as lane:
        yield lane


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """Yield a copy of an index of documents, which may be missing, in a folder that is removed afterwards."""
    with TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        if path.is_file():
            address = f"{path.resolve().as_uri()}?mode=ro"
            try:
                with closing(sqlite3.connect(address, uri=True)) as old, closing(sqlite3.connect(copy)) as new:
                    old.backup(new)
            except sqlite3.Error as error:
                raise UnusableInput(f"{path}: cannot be used as a document index ({error})") from None
        yield copy


def _index(path: Path, embedder: str | None) -> Any:
    name = DEFAULT_EMBEDDER if embedder is None else embedder
    model = named(name)
    return DocsIndex(path, model.encode if model else None, name)


def _docs_session(settings: Configured, roots: tuple[str, ...], globs: tuple[str, ...]) -> Configured:
    """Return the configuration with the documents lane on, and without a file with the roots of the command line."""
    docs: DocsSettings = settings.config.docs
    if not settings.given:
        docs = replace(docs, enabled=True, source_roots=roots, source_globs=globs or docs.source_globs)
    return replace(settings, config=replace(settings.config, docs=docs))


def _bare_context(settings: Configured, folder: Path) -> Any:
    """Return a context without a table, for tools that read documents alone."""
    return ToolContext(
        DryTable(None),
        settings.config,
        *CLOCK_AND_IDS,
        None,
        1,
        str(folder),
        read_only_source=settings.read_only_source,
    )


def _require_unprotected(folder: Path) -> None:
    """Raise :class:`UnusableInput` for a write-protected folder, also for root."""
    if protected := write_protected(folder):
        raise UnusableInput(f"{protected}: is write-protected; nothing was written")


def _error(result: ToolResult, text: str) -> LabError | None:
    """Return the error of a tool on documents, None if it did what it was to do."""
    if result.error not in (None, "docs_cold_lane_disabled", "empty_query", "readonly_mode"):
        return CannotMeasure(text)
    skipped = (result.details.get("receipt") or {}).get("skipReason")
    return UnusableInput(text) if result.error is not None or skipped else None


def import_(
    folder: Folder,
    source: Annotated[Path, typer.Argument(metavar="FILE", help="An export: .jsonl, or .json.")],
    file_format: FileFormat = None,
    dedupe: Annotated[
        str, typer.Option(help="Skip records with the same id (id), id or text (id_text), or none (none).")
    ] = "id_text",
    scope: ScopeName = None,
    limit: FileLimit = None,
    dimension: VectorLength = None,
    dry_run: DryRun = False,
    *,
    options: Storing,
) -> Result:
    """Append the memories of a file in one commit.

    All of them are stored or none. Records keep their vectors if these fit the table; others are embedded. Run
    it again after an interruption: what is stored is skipped.
    Exit code 1: some records could not be imported; the others are stored.
    """
    write = options.write
    require_one(dry_run, write)
    require_format(file_format)
    if dedupe not in ("none", "id", "id_text"):
        raise UnusableInput(f"--dedupe {dedupe}: expected none, id or id_text")
    if not source.is_file():
        raise UnusableInput(f"{source}: {'is a folder' if source.is_dir() else 'no such file'}")
    with opened(folder, "import", options, dimension=dimension, scope=scope, create=True) as session:
        result = memory_import(
            session.context,
            source,
            file_format=file_format,
            dedupe=dedupe,
            scope=scope,
            limit=limit,
            dry_run=not write,
        )
    error = None
    if failed := result.details.get("failed"):
        first = result.details["failures"][0]
        error = CheckFailed(f"{source}: {counted(failed, 'record')} not imported; the first is {_place(first)}")

    def more() -> None:
        _show(result.details, session.context.dimension, will="" if write else "would be ")

    return finish(result, session, change="memory import", write=write, more=more, error=error)


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
    skips = [entry for entry in details.get("skips", ()) if entry["reason"] == "same_id_other_text"]
    same = [entry | {"reason": _NAMED.format(entry["id"])} for entry in skips]
    for entry in (*failures, *warnings, *same):
        announce_folded(f"note: {_place(entry)}")
    more = max(0, details["failed"] - len(failures)) + max(0, details.get("warned", 0) - len(warnings))
    if more:
        announce(f"note: and {counted(more, 'record')} more")


def _place(entry: dict[str, Any]) -> str:
    at = f"line {entry['line']}" if "line" in entry else f"record {entry['index'] + 1}"
    reason = entry["reason"]
    return f"{at}: {reason} ({_REASONS[reason]})" if reason in _REASONS else f"{at}: {reason}"
