"""Options of ``lab memory``, and how its commands open a folder and end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.errors import CannotMeasure, CheckFailed, LabError, UnusableInput
from lab.cli.options import Write
from lab.cli.output import announce_folded, emit
from lab.cli.replay_options import Profile
from lab.cli.results import Result, changed
from lab.embedding.embedder import DOCUMENT, Embedder, Role
from lab.embedding.vectors import embedder_named
from lab.memory.table.lance_table import KEEP_SECONDS, LanceTable, TableSettings, require_permitted
from lab.memory.tools.context import ToolContext, ToolResult
from lab.memory.tools.session import (
    CLOCK_AND_IDS,
    Configured,
    DryTable,
    Session,
    configured,
    new_length,
    require_dimension,
)
from lab.report.tables import folded
from lab.systems.openclaw.js import js_json
from lab.systems.openclaw.memory import CATEGORIES
from lab.systems.openclaw.recall.scope import normalise
from lab.systems.openclaw.table.admin import iso_time
from lab.systems.openclaw.table.schema import TABLE

_KEY = "weijiMemoryPreflight"
DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"
# What each error of the preflight's command means, and what to do.
_FAILURES = {
    "ENOENT": ("was not found", f"set {_KEY}.command to its path"),
    "EACCES": ("is not executable", f"make it so, or correct {_KEY}.command"),
    "ETIMEDOUT": ("took longer than {} ms", f"raise {_KEY}.timeoutMs"),
    "invalid_output": ("printed no JSON object", 'let it print one, such as {"ok": true}'),
}
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The LanceDB folder that contains memories.lance.")]
OnlyScope = Annotated[str | None, typer.Option("--scope", help="Only memories of this scope. [default: all]")]
ScopeName = Annotated[str | None, typer.Option("--scope", help="The scope. [default: by configuration]")]


def preflight_sentence(receipt: dict[str, Any] | None) -> str:
    """Return why the preflight blocked a memory or could not judge it, from its receipt; blank if it permitted it."""
    if not receipt or not receipt["attempted"]:
        return ""
    command, code = receipt["command"], receipt["wrapperExitCode"]
    if receipt["policyBlock"]:
        status = receipt["governorStatus"] or {40: "queued", 41: "rejected"}.get(code, "blocked")
        return f"the command {command!r} judged the memory {status} (exit code {code}); it has to be reviewed there"
    if not receipt["runtimeFailed"]:
        return ""
    cause, remedy = _failure(receipt)
    closed = receipt["failMode"] == "closed"
    then = "which blocks under failMode closed" if closed else "stored all the same, under failMode open"
    return f"the preflight did not judge the memory, because {cause}; {then}; {remedy}"


def _failure(receipt: dict[str, Any]) -> tuple[str, str]:
    command, known = receipt["command"], _FAILURES.get(receipt["errorCode"])
    if known:
        return f"the command {command!r} {known[0].format(receipt['timeoutMs'])}", known[1]
    if receipt["errorMessage"] is None:
        why = receipt["wrapperFailReason"] or "no reason given"
        return f"the command {command!r} reported that it failed ({why})", "see its log"
    said = receipt["errorMessage"].replace("the command", f"the command {command!r}", 1)
    return said, f"run it by hand to see why, or correct {_KEY}.command and commandArgs"


def _category_of(name: str | None) -> str | None:
    """Return a category as given; raise :class:`UnusableInput` for an unknown one, which the tools take as none."""
    if name is not None and name.strip().lower() not in CATEGORIES:
        raise UnusableInput(f"--category {name}: expected {', '.join(CATEGORIES[:-1])} or {CATEGORIES[-1]}")
    return name


Category = Annotated[
    str, typer.Option(callback=_category_of, help="preference, fact, decision, entity, todo or other.")
]


OnlyCategory = Annotated[str | None, typer.Option("--category", callback=_category_of, help="Only this category.")]


Limit = Annotated[int, typer.Option(min=1, max=5000, help="Maximum number of memories.")]


ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration of the plugin, or an openclaw.json (JSON or YAML).")
]


EmbedderName = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="Embedder of the table, as in lab replay, or none. [default: all-MiniLM-L6-v2]",
    ),
]


VectorLength = Annotated[
    int | None, typer.Option(min=1, max=65536, help="Length of the vectors of a new table. [default: the embedder's]")
]


AllowGateway = Annotated[
    bool, typer.Option("--despite-gateway", help="Write even if a running gateway uses the folder.")
]


KeepDays = Annotated[float, typer.Option(min=0.0, help="Days for which older versions stay; 0 deletes them all.")]


CompactEvery = Annotated[int, typer.Option(min=1, help="Number of commits after which the table is compacted.")]


Wait = Annotated[float, typer.Option(min=0.0, help="Seconds to wait for another writer of the lab.")]


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of a command that reads the table."""

    config: ConfigFile = None
    profile: Profile = "seed"


@dataclass(frozen=True, slots=True)
class Searching(Reading):
    """Options of one that searches it."""

    embedder: EmbedderName = None


@dataclass(frozen=True, slots=True)
class Changing(Reading):
    """Options of one that changes the table as a whole."""

    despite_gateway: AllowGateway = False
    wait: Wait = 10.0
    write: Write = False


@dataclass(frozen=True, slots=True)
class Storing(Searching):
    """Options of one that adds or deletes memories."""

    despite_gateway: AllowGateway = False
    compact_every: CompactEvery = 128
    wait: Wait = 10.0
    write: Write = False


DocsIndexFile = Annotated[
    Path | None, typer.Option("--docs", metavar="FILE", help="Index of the documents. [default: FOLDER/docs.sqlite]")
]


FileLimit = Annotated[int | None, typer.Option(min=1, help="Maximum number of memories. [default: all; upstream 5000]")]


FileFormat = Annotated[
    str | None, typer.Option("--format", help="json or jsonl. [default: json if the name ends with .json, else jsonl]")
]


# A text longer than this was given by mistake.
MAX_STDIN_BYTES = 1 << 24


# The code of every refusal that is not unusable input.
CHECKED = ("secret_like", "weiji_memory_preflight_blocked")


FAILED = (
    "missing_api_key",
    "provider_unavailable",
    "docs_ingest_failed",
    "docs_search_failed",
    "docs_search_timeout",
    "docs_cold_lane_disabled",
)


def text_or_stdin(text: str) -> str:
    """Return a text, or that of stdin for ``-``, which keeps it out of the list of processes."""
    if text != "-":
        return text
    data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(data) > MAX_STDIN_BYTES:
        raise UnusableInput("stdin: longer than 16 MiB; a memory is a sentence or a paragraph")
    try:
        return data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UnusableInput(f"stdin: not UTF-8 text (byte {error.start})") from None


@contextmanager
def opened(
    folder: Path,
    command: str,
    options: Reading,
    *,
    keep_seconds: int = KEEP_SECONDS,
    role: Role = DOCUMENT,
    scope: str | None = None,
    create: bool = False,
    dimension: int | None = None,
    any_columns: bool = False,
) -> Iterator[Session]:
    """Yield the session of a command; close the table at the end.

    One that has the option ``write`` and is called without it is dry: it is refused where the change would be. With
    ``create``, a table is made if there is none, with vectors of the embedder's length or of ``dimension``. ``role`` is
    how texts are embedded; ``any_columns`` is for :class:`LanceTable`.
    Raises :class:`UnusableInput` if the embedder's vectors have another length than the
    table's.
    """
    configuration = configured(options.config, options.profile)
    config = configuration.config
    check_scope(scope, configuration)
    given: dict[str, Any] = {"embedder": "none", "compact_every": 128, "wait": 10.0, "despite_gateway": False}
    given |= {"write": None} | {field.name: getattr(options, field.name) for field in fields(options)}
    name = DEFAULT_EMBEDDER if given["embedder"] is None else given["embedder"]
    embedder, is_dry, despite_gateway = named(name), given["write"] is False, given["despite_gateway"]
    exists = (folder / f"{TABLE}.lance").is_dir()
    writing = given["write"] is True and not config.read_only
    if is_dry and not config.read_only:
        require_permitted(folder, despite_gateway=despite_gateway)
    length = new_length(embedder, dimension) if create and not exists else None
    table: LanceTable | None = None
    if exists or not (create and is_dry):
        table = LanceTable(
            folder,
            create=length if writing else None,
            read_only=not writing,
            despite_gateway=despite_gateway,
            settings=TableSettings(
                compact_every=given["compact_every"], keep_seconds=keep_seconds, wait_seconds=given["wait"]
            ),
            what=f"lab memory {command}",
            any_columns=any_columns,
        )
    try:
        if is_dry and table is not None:
            table.require_changeable()
        columns = table.dimension if table else length or 1
        if embedder is not None:
            # Candidates to forget are found by vectors alone.
            require_dimension(folder, embedder, columns, "use --id" if command == "forget" else "--embedder none")

        def embed(texts: Sequence[str]) -> list[list[float]]:
            vectors: list[list[float]] = embedder.encode(texts, role).tolist() if embedder else []
            return vectors

        context = ToolContext(
            DryTable(table) if is_dry or table is None else table,
            config,
            *CLOCK_AND_IDS,
            embed if embedder else None,
            columns,
            str(folder),
            TABLE,
            "" if name == "none" else name,
            configuration.read_only_source,
            # A dry run must not start a command that may record the memory.
            None if is_dry else configuration.preflight,
        )
        yield Session(table, context, embedder)
    finally:
        if table is not None:
            table.close()


def check_scope(scope: str | None, configuration: Configured) -> None:
    """Warn of a scope in whose place the tools take another one, as the plugin does (E-31)."""
    policy = configuration.config.scope_policy
    if scope is not None and normalise(scope, policy).invalid:
        # The text is not repeated, because it may hold a secret.
        warn(
            f"--scope: not a scope; expected up to {policy.max_length} letters, digits and . _ : / -, the first of "
            f"them a letter or a digit. Instead, {policy.default_scope!r} is stored and searched, and list, stats and "
            "export take its letters and digits, joined by hyphens"
        )


def named(name: str) -> Embedder | None:
    """Return an embedder by name, or None for ``none``."""
    return None if name == "none" else embedder_named(name)


def require_format(name: str | None) -> None:
    """Raise :class:`UnusableInput` for an unknown ``--format``."""
    if name not in (None, "json", "jsonl"):
        raise UnusableInput(f"--format {name}: expected json or jsonl")


def plain(value: dict[str, Any]) -> dict[str, Any]:
    """Return the details of a tool as JSON values, with numbers as JavaScript writes them."""
    details: dict[str, Any] = json.loads(js_json(value))
    return details


def with_places(text: str, lines: Sequence[str], memories: Sequence[dict[str, Any]]) -> str:
    """Return the text of a tool with id, scope and time below each of its numbered lines."""
    at = 0
    for number, (line, memory) in enumerate(zip(lines, memories, strict=True), 1):
        start = text.find(f"{number}. {line}", at)
        if start < 0:
            continue
        at = start + len(f"{number}. {line}")
        # The score of a recall follows the text.
        end = text.find("\n", at)
        at = len(text) if end < 0 else end
        place = folded(f"{memory['id']}  {memory['scope']}  {iso_time(memory['createdAt']) or 'no time'}", "   ")
        place = f"\n{place}"
        text = text[:at] + place + text[at:]
        at += len(place)
    return text


def warn(*notes: str) -> None:
    """Print notes to stderr."""
    for note in notes:
        announce_folded(f"note: {note}")


def finish(
    result: ToolResult,
    session: Session,
    *,
    change: str = "",
    write: bool = False,
    more: Callable[[], None] | None = None,
    error: LabError | None = None,
) -> Result:
    """Return the result of a tool, with the error of a refused call or else ``error``; print notes.

    ``change`` names a command that changes the table if it is to ``write``; ``more`` prints what follows the text of
    the tool. The JSON object also says how the table is kept.
    """
    table = session.table
    warn(*session.notes, *result.log)
    kept = {} if table is None else {"tableSettings": asdict(table.settings), "compactions": table.compactions}
    details, refusal = plain({**result.details, **kept}), _refusal(result, session)

    def show(_: object) -> None:
        if refusal:
            return
        if change and not write:
            emit("Nothing was written. With --write:")
        # Texts of memories keep their lines; the warning below one is a sentence.
        head, mark, warning = result.text.partition("\n⚠️")
        emit(head + (f"\n{folded(mark.strip() + warning)}" if mark else ""))
        if more:
            more()

    if not change:
        return Result(details, show, error=refusal or error)
    # A refused memory is not written.
    did, target = write and result.error is None, Path(session.context.db_path)
    return changed(change, target, details, show, write=did, due=False, error=refusal or error)


def _refusal(result: ToolResult, session: Session) -> LabError | None:
    """Return the error of a refused call, with the exit code of its reason; say what the preflight could not judge."""
    if session.table is not None and session.table.read_only_reason and result.error == "readonly_mode":
        return read_only(session)
    judged = preflight_sentence((result.details.get("receipt") or {}).get("weiJiMemoryPreflight"))
    if result.error in CHECKED:
        return CheckFailed(f"{result.text}{f' Cause: {judged}' if judged else ''}")
    if judged:
        announce_folded(f"note: {judged}")
    if result.error in FAILED:
        return CannotMeasure(result.text)
    if result.error is not None:
        return UnusableInput(result.text)
    return CheckFailed(result.text) if result.details.get("action") == "not_found" else None


def read_only(session: Session) -> UnusableInput:
    """Return the error of a change of a table that is only read."""
    table, context = session.require_table(), session.context
    if context.config.read_only:
        return not_written(table.folder, f"{context.read_only_source} makes the tools read-only")
    return not_written(table.folder, str(table.read_only_reason))


def not_written(folder: Path, reason: str) -> UnusableInput:
    """Return the error of a change that was not made, with the option that makes it beside a running gateway."""
    hint = "; --despite-gateway writes all the same" if "gateway" in reason else ""
    return UnusableInput(f"{folder}: nothing was written, because {reason}{hint}")
