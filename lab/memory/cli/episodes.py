"""``lab memory episodes``: keep conversations word for word as events; search, replay and expire them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from lab.base.errors import UnusableInput
from lab.base.formatting import choices, counted, shortened
from lab.base.set_registry import is_shipped, recordings_at, shown_path
from lab.cli import completion, replay_options
from lab.cli.options import Write, in_utc
from lab.cli.output import counting, emit, emit_folded, emit_table
from lab.cli.results import Result, changed, command_name
from lab.embedding.vectors import Vectors, embedder_named
from lab.memory.cli.ledger_read import Profile, is_upstream
from lab.memory.episodes import ingest as ingesting
from lab.memory.episodes import search as searching
from lab.memory.episodes.events import RETENTION, Event, open_episodes
from lab.memory.ledger.ledger import stamp

Ledger = Annotated[Path, typer.Option("--ledger", metavar="FILE", help="The SQLite file of the ledger.")]
Scope = Annotated[str | None, typer.Option(help="Only events of this scope. [default: all]")]
At = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"], callback=in_utc, help="The day (UTC) at which ages are measured. [default: now]"
    ),
]
DEFAULT_MODEL = "all-MiniLM-L6-v2"
MOST_REPLAYED = 1_000_000
# Characters of a summary in a table.
SHOWN = 90
STATUSES = {
    "missing_index": "the ledger has no full-text index; lab memory episodes ingest --write makes it",
    "damaged_index": "the full-text index is damaged; drop the tables episodic_events_fts and lab_episodes_fts, and "
    "ingest with --write",
    "missing_embeddings": "no event has a vector",
    "other_model": "the vectors are of another model",
    "other_dimension": "the vectors have another dimension; remove them with DELETE FROM episodic_event_embeddings",
}


def ingest(
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="RECORDING...",
            parser=recordings_at,
            autocompletion=completion.sets,
            help="Recordings, folders of them, shipped sets, or spools of the sidecar.",
        ),
    ],
    ledger: Ledger,
    format: Annotated[  # noqa: A002 - the name of the option
        str | None,
        typer.Option(
            "--format",
            autocompletion=completion.formats,
            help="Format of the recordings (see lab recordings list), or spool. [default: shipped sets and spools are "
            "recognized]",
        ),
    ] = None,
    write: Write = False,
) -> Result:
    """Insert turns, tool calls and results as events, each once.

    Secrets, e-mail addresses and telephone numbers are replaced before anything is written. To finish a killed run, run
    the same command again.
    """
    receipts = []
    for recording in recordings:
        done = ingesting.ingest(
            ledger,
            recording,
            _format_of(recording, format),
            now=datetime.now(UTC),
            write=write,
            announce=counting("event"),
        )
        receipts.append({"recording": str(recording), **done.receipt()})

    def show(found: dict[str, Any]) -> None:
        for receipt in found["ingests"]:
            verb = "inserted" if write else "to insert"
            before = f"{receipt['ingested_before']:,} ingested before"
            emit(f"{shown_path(receipt['recording'])}: {counted(receipt['inserted'], 'event')} {verb}, {before}.")
            if receipt["inserted"]:
                emit_folded(f"By type: {_counts(receipt['by_type'])}")
            if receipt["payloads_dropped"]:
                dropped = f"{receipt['payloads_dropped']:,}"
                emit_folded(f"Kept as a summary alone, because they look like output of a tool: {dropped}.")
            if receipt["malformed"]:
                emit_folded(f"Malformed lines, skipped: {_counts(receipt['malformed'])}")
            if receipt["without_time"]:
                emit_folded(f"Without a time, so given the time of this run: {receipt['without_time']:,}.")

    return changed("memory episodes ingest", ledger, {"ingests": receipts}, show, write=write)


def embed(
    ledger: Ledger,
    embedder: replay_options.Embedder = DEFAULT_MODEL,
    scope: Scope = None,
    write: Write = False,
) -> Result:
    """Embed events, so that they can be searched by meaning.

    Events whose text and model did not change are skipped. To finish a killed run, run the same command again.
    """
    now, progress = datetime.now(UTC), counting("event")
    done = searching.embed(ledger, _vectors(embedder), now=now, scope=scope, write=write, announce=progress)

    def show(receipt: dict[str, Any]) -> None:
        verb = "embedded" if write else "to embed"
        emit_folded(
            f"{counted(receipt['embedded'], 'event')} {verb} by {receipt['model']}, {receipt['unchanged']:,} unchanged."
        )

    return changed("memory episodes embed", ledger, done.receipt(), show, write=write)


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words, or a query in the syntax of FTS5.")],
    ledger: Ledger,
    mode: Annotated[str, typer.Option(help="lexical, hybrid or vector.")] = "lexical",
    limit: Annotated[int, typer.Option(min=1, max=500, help="Maximum number of sessions.")] = 5,
    per_session: Annotated[int, typer.Option(min=1, max=20, help="Maximum number of events of a session.")] = 3,
    depth: Annotated[int, typer.Option(min=1, max=500, help="Number of events that each search returns.")] = 40,
    query_en: Annotated[
        str | None, typer.Option(metavar="QUERY", help="The query in English, searched by vectors as well.")
    ] = None,
    scope: Scope = None,
    embedder: replay_options.Embedder = DEFAULT_MODEL,
    profile: Profile = "seed",
    trace: Annotated[bool, typer.Option("--trace", help="With --json, print the ranking of each search.")] = False,
) -> Result:
    """Search events, and group the hits by session.

    Without vectors of the embedder's model, hybrid and vector search by words, and say so. Tables shorten the
    summaries; --json prints the payload of each event, with all the text that was kept.
    """
    with open_episodes(ledger) as connection:
        found = searching.search(
            connection,
            query,
            mode=mode,
            vectors=None if mode == "lexical" else _vectors(embedder),
            query_en=query_en,
            limit=limit,
            per_session=per_session,
            depth=depth,
            scope=scope,
            upstream=is_upstream(profile),
        )

    def show(found: searching.Found) -> None:
        if trace:
            raise UnusableInput("--trace: needs --json, which prints it")
        for session in found.sessions:
            emit_folded(f"{session.session_id}: {counted(session.hit_count, 'hit')}, best rank {session.best_rank}")
            _emit_events([hit.event for hit in session.hits])
            emit()
        shown = sum(len(session.hits) for session in found.sessions)
        emit(f"{counted(len(found.sessions), 'session')}, {shown:,} of {counted(len(found.hits), 'event')} found.")
        for lane, status in (("words", found.lexical_status), ("vectors", found.vector_status)):
            if status not in (None, "ok"):
                reason = f"{STATUSES[status]} ({status})" if status in STATUSES else status
                emit_folded(f"Not searched by {lane}: {reason}.")
        if found.vector_status in ("missing_embeddings", "other_model", "other_dimension"):
            emit(
                f"To embed them: lab memory episodes embed --ledger {quote(str(ledger))} --embedder {quote(embedder)} "
                "--write"
            )

    def plain(found: searching.Found) -> dict[str, Any]:
        sessions = [{**session._asdict(), "hits": [_hit(hit) for hit in session.hits]} for session in found.sessions]
        return {"receipt": found.receipt(), "sessions": sessions, **({"trace": found.trace()} if trace else {})}

    return Result(found, show, plain)


def replay(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The id of a session.")],
    ledger: Ledger,
    limit: Annotated[int, typer.Option(min=1, max=MOST_REPLAYED, help="Maximum number of events.")] = 200,
) -> Result:
    """Show the events of a session in order.

    The table shortens the summaries; --json prints the payload of each event, with all the text that was kept.
    """
    with open_episodes(ledger) as connection:
        events = searching.replay(connection, session, limit=limit + 1)
    more = len(events) > limit
    events = events[:limit]
    if not events:
        raise UnusableInput(
            f"{ledger}: has no session {session!r}; lab memory episodes search shows the ids of sessions"
        )

    def show(events: list[Event]) -> None:
        _emit_events(events)
        if more:
            emit(f"Only the first {counted(limit, 'event')}; --limit shows more.")

    return Result(
        events,
        show,
        lambda events: {"session_id": session, "more": more, "events": [_event(event) for event in events]},
    )


def expire(
    ledger: Ledger,
    days: Annotated[
        list[str] | None,
        typer.Option("--days", metavar="TYPE=DAYS", help="Keep events of a type this long, or forever. Repeatable."),
    ] = None,
    scope: Scope = None,
    at: At = None,
    write: Write = False,
) -> Result:
    """Remove events that are past the retention period of their type.

    The periods are 60 days for what users say, 90 for assistants, 30 for tool calls and results, 90 for alerts;
    decisions and observations stay for ever. No later ingest inserts a removed event again.
    """
    now = at.replace(tzinfo=UTC) if at else datetime.now(UTC)
    receipt = ingesting.expire(ledger, days=_days(days or []), scope=scope, write=write, now=now)

    def show(receipt: dict[str, Any]) -> None:
        removed = {kind: count for kind, count in receipt["by_type"].items() if count}
        emit_folded(f"{counted(receipt['removed'], 'event')} {'removed' if write else 'to remove'}.")
        if removed:
            emit_folded(f"By type: {_counts(removed)}")

    return changed("memory episodes expire", ledger, receipt, show, write=write)


def _days(given: list[str]) -> dict[str, int | None]:
    days: dict[str, int | None] = {}
    for text in given:
        kind, _, value = text.partition("=")
        if kind not in RETENTION:
            raise UnusableInput(f"--days {text}: unknown type {kind!r}; {choices(kind, RETENTION)}")
        if value != "forever" and not (value.isdecimal() and 0 < len(value) < 7):
            raise UnusableInput(f"--days {text}: expected a number of days or forever after the =")
        days[kind] = None if value == "forever" else int(value)
    return days


def _format_of(recording: Path, given: str | None) -> str:
    if given or is_shipped(recording):
        return given or "lab"
    if ingesting.is_spool(recording):
        return ingesting.SPOOL
    raise replay_options.missing_format(recording)


def _vectors(embedder: str) -> Vectors:
    return Vectors(embedder_named(embedder))


def _counts(counts: dict[str, Any]) -> str:
    return f"{', '.join(f'{name} {count:,}' for name, count in counts.items())}." if counts else ""


def _hit(hit: searching.Hit) -> dict[str, Any]:
    scores = {"rrf_score": hit.score, "fts_score": hit.fts_score, "vector_score": hit.vector_score}
    return {"id": hit.id, **_event(hit.event), "lanes": list(hit.lanes), **scores}


def _event(event: Event) -> dict[str, Any]:
    fields = event._asdict()
    del fields["search_text"]
    for name in ("payload", "refs"):
        fields[name] = _value(fields.pop(f"{name}_json"))
    return {**fields, "redacted": bool(event.redacted)}


def _value(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        # Another program may have stored a text that is not JSON, or one that is nested too deeply.
        return text


def _emit_events(events: list[Event]) -> None:
    rows = [[_time(event.ts_ms), event.type, shortened(event.summary, SHOWN)] for event in events]
    emit_table(["time", "type", "summary"], rows, left=3)


def _time(ts_ms: int) -> str:
    try:
        return stamp(datetime.fromtimestamp(ts_ms / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return str(ts_ms)


episodes = typer.Typer(
    no_args_is_help=True,
    help="Keep conversations as events, and search their exact texts. Events are evidence in a ledger's file and "
    "never become memories. Commands that change the file need --write.",
)
for command in (ingest, embed, search, replay, expire):
    episodes.command(command_name(command))(command)
