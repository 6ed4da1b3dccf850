"""Options of ``lab memory``, and how its commands open a folder and end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CannotMeasure, CheckFailed, LabError, UnusableInput
from lab.cli.output import announce_folded, emit
from lab.cli.results import Result, changed
from lab.report.tables import folded

if TYPE_CHECKING:
    from lab.embedding.embedder import Embedder, Role
    from lab.memory.tools.context import ToolResult
    from lab.memory.tools.session import Configured, Session

_KEY = "weijiMemoryPreflight"
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The LanceDB folder that contains memories.lance.")]
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
    """Return why the command failed, and what to do."""
    command, error = receipt["command"], receipt["errorCode"]
    if error == "ENOENT":
        return f"the command {command!r} was not found", f"set {_KEY}.command to its path"
    if error == "EACCES":
        return f"the command {command!r} is not executable", f"make it so, or correct {_KEY}.command"
    if error == "ETIMEDOUT":
        return f"the command {command!r} took longer than {receipt['timeoutMs']} ms", f"raise {_KEY}.timeoutMs"
    if error == "invalid_output":
        return f"the command {command!r} printed no JSON object", 'let it print one, such as {"ok": true}'
    if receipt["errorMessage"] is None:
        why = receipt["wrapperFailReason"] or "no reason given"
        return f"the command {command!r} reported that it failed ({why})", "see its log"
    said = receipt["errorMessage"].replace("the command", f"the command {command!r}", 1)
    return said, f"run it by hand to see why, or correct {_KEY}.command and commandArgs"


def _category_of(name: str | None) -> str | None:
    """Return a category as given; raise :class:`UnusableInput` for an unknown one, which the tools take as none."""
    from lab.systems.openclaw.memory import CATEGORIES

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
    *,
    config: Path | None,
    profile: str,
    embedder: str | None = "none",
    compact_every: int = 128,
    wait: float = 10.0,
    keep_seconds: int | None = None,
    role: Role = "document",
    scope: str | None = None,
    write: bool | None = None,
    **options: Any,
) -> Iterator[Session]:
    """Yield the session of a command (:func:`lab.memory.tools.session.open_session`).

    ``write`` is None for one that only reads; one that would change the table without ``write`` is dry.
    """
    from lab.memory.table.lance_table import TableSettings
    from lab.memory.tools.session import configured, open_session

    configuration = configured(config, profile)
    require_scope(scope, configuration)
    settings = TableSettings(compact_every=compact_every, wait_seconds=wait)
    name = "all-MiniLM-L6-v2" if embedder is None else embedder
    with open_session(
        folder,
        configuration=configuration,
        embedder=named(name),
        role=role,
        settings=settings if keep_seconds is None else replace(settings, keep_seconds=keep_seconds),
        what=f"lab memory {command}",
        model="" if name == "none" else name,
        write=write is not None,
        dry_run=write is False,
        **options,
    ) as session:
        yield session


def require_scope(scope: str | None, configuration: Configured) -> None:
    """Raise :class:`UnusableInput` for a scope for which the tools would take the default one."""
    from lab.systems.openclaw.recall.scope import normalise

    policy = configuration.config.scope_policy
    if scope is not None and normalise(scope, policy).invalid:
        # The text is not repeated, because it may hold a secret.
        raise UnusableInput(
            f"--scope: not a scope; expected up to {policy.max_length} letters, digits and . _ : / -, the first of "
            "them a letter or a digit"
        )


def named(name: str) -> Embedder | None:
    """Return an embedder by name, or None for ``none``."""
    from lab.embedding.vectors import embedder_named

    return None if name == "none" else embedder_named(name)


def require_format(name: str | None) -> None:
    """Raise :class:`UnusableInput` for an unknown ``--format``."""
    if name not in (None, "json", "jsonl"):
        raise UnusableInput(f"--format {name}: expected json or jsonl")


def plain(value: dict[str, Any]) -> dict[str, Any]:
    """Return the details of a tool as JSON values, with numbers as JavaScript writes them."""
    import json

    from lab.systems.openclaw.js import js_json

    details: dict[str, Any] = json.loads(js_json(value))
    return details


def with_places(text: str, lines: Sequence[str], memories: Sequence[dict[str, Any]]) -> str:
    """Return the text of a tool with id, scope and time below each of its numbered lines."""
    from lab.systems.openclaw.table.admin import iso_time

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
    kept = {} if table is None else {"tableSettings": table.settings.describe(), "compactions": table.compactions}
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
