"""Bounds of what the automatic recalls of a live engine took, because no receipt holds a duration (CN-24).

A host records every turn in a *trajectory*: in its database since OpenClaw 2026.9, in files beside the transcripts
before. The event ``trace.metadata`` is before the hook in which the engine recalls, ``context.compiled`` after it. So a
recall took at most the time from the one to its receipt in the log. A part of this time is the host's own. Recalls that
the engine skips show how long it is, because they do nothing: other recalls took at least the rest, if the host needs
no longer before them. OpenClaw 2026.6 recalls before it records anything, and sometimes again after it; only the second
recall has bounds. It keeps the last 10 MB of the trajectory of a session.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import reading
from lab.base.sqlite import read_sqlite
from lab.base.times import epoch_ms
from lab.canary.audit.check import RECALL, Damaged
from lab.canary.audit.lines import STDIN, opened
from lab.canary.audit.log_line import entries_in, payload
from lab.measures.latency import QUANTILES, quantile
from lab.recordings.openclaw.folders import find

BEFORE, AFTER = "trace.metadata", "context.compiled"
TABLE, FILES = "trajectory_runtime_events", "*.trajectory.jsonl"
# Bytes of a line in which its type is. The rest may hold a whole prompt.
_HEAD = 256
# The share of recalls before which the host needs no longer than is subtracted, and the skipped recalls that show it.
HOLDS = 0.95
LEAST = math.ceil(HOLDS / (1 - HOLDS) - 1e-9)
# Both times are rounded to a millisecond.
ROUNDED = 1


class Receipt(NamedTuple):
    """The time of a receipt in epoch ms, and whether the engine skipped the recall."""

    ms: int
    skipped: bool


class Span(NamedTuple):
    """The times in epoch ms between which a turn recalled."""

    start: int
    end: int


class Recall(NamedTuple):
    """A recall whose receipt has the time ``ms``, and the bounds of what it took until then, in ms."""

    ms: int
    skipped: bool
    low: float
    high: float


def waits(
    logs: Sequence[str], home: Path, since: datetime | None = None, others: Container[str] = ()
) -> dict[str, Any]:
    """Return the figures ``latency`` of an audit: bounds of the recalls in logs, by the trajectories of a home.

    Each quantile has a ``low`` and a ``high`` bound in ms with its interval; None if there are too few recalls. Lines
    with a trace id of ``others`` are left out. Raises :class:`UnusableInput` for stdin, which cannot be read again, and
    for a home that cannot be read.
    """
    if STDIN in logs:
        raise UnusableInput("--home: the log is read twice, which stdin cannot be; name a file")
    receipts = sorted(set(_receipts(logs, since.timestamp() if since else -math.inf, others)))
    return bounded(receipts, spans(home))


def bounded(receipts: Sequence[Receipt], turns: Iterable[Span]) -> dict[str, Any]:
    """Return what :func:`waits` does; ``receipts`` are in order of time."""
    recalls, own = recalls_of(receipts, turns)
    answered = [recall for recall in recalls if not recall.skipped]
    least = [recall.low for recall in answered] if own is not None else []
    return {
        "recalls": len(answered),
        "without": sum(not receipt.skipped for receipt in receipts) - len(answered),
        "skipped": len(recalls) - len(answered),
        "host_ms": own,
        **{name: _bounds(least, [recall.high for recall in answered], share) for name, share in QUANTILES.items()},
    }


def recalls_of(receipts: Sequence[Receipt], turns: Iterable[Span]) -> tuple[list[Recall], float | None]:
    """Return the recalls that belong to a turn, and what is subtracted from lower bounds: the host's own ms, if known.

    A receipt within several turns, of sessions that run at once, may be of any: the first start gives its upper bound,
    the last one its lower bound. A skipped recall among them shows nothing of the host, and is left out.
    """
    waiting, running = sorted(turns), list[tuple[int, int]]()
    found, at = list[Recall](), 0
    for ms, skipped in receipts:
        while at < len(waiting) and waiting[at].start <= ms:
            heappush(running, (waiting[at].end, waiting[at].start))
            at += 1
        while running and running[0][0] < ms:
            heappop(running)
        starts = [start for _, start in running]
        if starts and not (skipped and len(starts) > 1):
            found.append(Recall(ms, skipped, ms - max(starts) - ROUNDED, ms - min(starts) + ROUNDED))
    host = sorted(recall.high for recall in found if recall.skipped)
    if len(host) < LEAST:
        return [recall._replace(low=0.0) for recall in found], None
    # Of equal distributions, one more value is at most this order statistic with at least the share HOLDS.
    own = host[math.ceil(HOLDS * (len(host) + 1) - 1e-9) - 1]
    return [recall._replace(low=max(0.0, recall.low - own)) for recall in found], own


def _bounds(low: Sequence[float], high: Sequence[float], share: float) -> dict[str, Any]:
    """Return the bounds of a quantile. As a lower bound may fail for some recalls, it is that of a smaller share."""
    found = {"low": quantile(low, share - (1 - HOLDS)), "high": quantile(high, share)}
    return {name: value._asdict() if value else None for name, value in found.items()}


def _receipts(logs: Sequence[str], since: float, others: Container[str]) -> Iterator[Receipt]:
    for name in logs:
        with opened(name) as lines:
            for _, entry in entries_in(lines):
                # A time in whole seconds, as on a console, bounds nothing.
                if entry is None or entry.name != RECALL or entry.time is None or entry.time.is_integer():
                    continue
                if entry.trace in others:
                    continue
                try:
                    receipt = payload(entry)
                except Damaged:
                    continue
                if entry.time >= since:
                    yield Receipt(round(1000 * entry.time), receipt.get("skipped") is True)


def runs_of(home: Path) -> dict[str, str]:
    """Return the session of each run that a host recorded."""
    names = (name.partition(" ") for _, name, _ in _events(home))
    return {run: session for session, _, run in names}


def spans(home: Path) -> list[Span]:
    """Return the spans of all turns that a host recorded; a turn that never began to answer has none."""
    found, begun = list[Span](), dict[str, int]()
    for ms, run, is_start in sorted(_events(home)):
        if is_start:
            begun[run] = ms
        elif run in begun:
            found.append(Span(begun.pop(run), ms))
    return found


def _events(home: Path) -> list[tuple[int, str, bool]]:
    """Return the time in ms of each event, the ids of its session and its run, and whether it is before the hook."""
    events = list[tuple[int, str, bool]]()
    locations = find(home).locations
    for database in dict.fromkeys(file for location in locations for file in location.databases):
        events += read_sqlite(database, _of_database)
    folders = dict.fromkeys(file.parent for location in locations for file in location.transcripts)
    for file in (file for folder in folders for file in sorted(folder.glob(FILES))):
        events += _of_file(file)
    return events


def _of_database(connection: sqlite3.Connection) -> list[tuple[int, str, bool]]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone() is None:
        return []
    rows = connection.execute(
        f"SELECT created_at, session_id || ' ' || run_id, substr(event_json, 1, {_HEAD}) FROM {TABLE} "  # noqa: S608 - our own names
        "WHERE run_id IS NOT NULL"
    )
    return [(ms, run.decode(), kind == BEFORE) for ms, run, head in rows if (kind := _kind(head)) is not None]


def _of_file(file: Path) -> Iterator[tuple[int, str, bool]]:
    with reading(file), file.open("rb") as lines:
        for line in lines:
            kind = _kind(line[:_HEAD])
            if kind is None:
                continue
            try:
                event = json.loads(line)
            except ValueError:
                # The host may be writing it.
                continue
            ms = epoch_ms(event.get("ts"))
            if ms is not None:
                yield ms, f"{event.get('sessionId')} {event.get('runId')}", kind == BEFORE


def _kind(head: bytes) -> str | None:
    return next((kind for kind in (BEFORE, AFTER) if f'"type":"{kind}"'.encode() in head), None)
