"""Remove events that are past the retention period of their type (EP-6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from lab.base.sqlite import transaction
from lab.memory.episodes.events import RETENTION, Event, content_id, is_from_reader
from lab.memory.episodes.schema import EVENTS, EXPIRED, FTS, STEMS, VECTORS, open_episodes
from lab.memory.ledger.rows import given_scope

RECEIPT = "recall-lab.episodes.expire.v1"
DAY_MS = 86_400_000
_FIELDS = ", ".join(Event._fields)


def expire(
    path: Path,
    *,
    now: datetime,
    days: Mapping[str, int | None] | None = None,
    scope: str | None = None,
    write: bool = True,
) -> dict[str, Any]:
    """Remove expired events with their vectors and words in one transaction; return the counts by type.

    ``days`` overrides :data:`RETENTION`. The ids stay known, and digests of the contents, so that no ingest inserts an
    expired event again. Without ``write`` events are only counted. ``scope`` None: all. Age is measured to ``now``.
    Raises as :func:`open_episodes` and :func:`given_scope`.
    """
    kept = RETENTION | dict(days or {})
    now_ms = int(now.timestamp() * 1000)
    limits = {kind: now_ms - number * DAY_MS for kind, number in kept.items() if number is not None}
    name = given_scope(scope)
    counts = dict.fromkeys(RETENTION, 0)
    with open_episodes(path, write=write) as connection:
        condition = "type = ? AND ts_ms < ? AND (? IS NULL OR scope = ?)"
        if not write:
            for kind, limit in limits.items():
                row = connection.execute(
                    f"SELECT count(*) FROM {EVENTS} WHERE {condition}",  # noqa: S608 - names of our own tables
                    (kind, limit, name, name),
                ).fetchone()
                counts[kind] = row[0]
        else:
            with transaction(connection):
                for kind, limit in limits.items():
                    values = (kind, limit, name, name)
                    chosen = f"FROM {EVENTS} WHERE {condition}"
                    expired = map(Event.of, connection.execute(f"SELECT {_FIELDS} {chosen}", values))
                    known = ((name,) for event in expired for name in _names(event))
                    connection.executemany(f"INSERT OR IGNORE INTO {EXPIRED} VALUES (?)", known)  # noqa: S608 - names of our own tables
                    connection.execute(f"DELETE FROM {VECTORS} WHERE event_row_id IN (SELECT id {chosen})", values)  # noqa: S608 - names of our own tables
                    counts[kind] = connection.execute(f"DELETE {chosen}", values).rowcount
                # FTS5 keeps the words of what was deleted until it merges their blocks.
                for table in (FTS, STEMS) if any(counts.values()) else ():
                    connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")  # noqa: S608 - names of our own tables
    return {
        "kind": RECEIPT,
        "written": write,
        "now_ms": now_ms,
        "removed": sum(counts.values()),
        "by_type": counts,
        "days": kept,
    }


def _names(event: Event) -> Iterator[str]:
    """Yield the id of an event and the digest of its content, by which an ingest recognizes it."""
    yield event.event_id
    content = content_id(event, from_reader=is_from_reader(event))
    if content is not None:
        yield content
