"""Recordings, spools and ledgers for the tests of ``lab memory episodes``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.memory.episodes.events import EVENTS, Event, open_episodes
from lab.memory.episodes.ingest import ingest
from lab.memory.episodes.search import Found, search

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
DAY_MS = 86_400_000


def line(number: int, text: str = "", **fields: Any) -> dict[str, Any]:
    """Return a line of a spool; events are a second apart."""
    return {
        "schema": "openclaw-mem.episodes.spool.v0",
        "event_id": f"e{number}",
        "ts_ms": NOW_MS - DAY_MS + 1000 * number,
        "scope": "global",
        "session_id": "s1",
        "agent_id": "main",
        "type": "conversation.user",
        "summary": text or f"event {number}",
        "payload": {"text": text or f"event {number}"},
        "refs": None,
        **fields,
    }


def write_spool(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    """Write lines as JSON Lines."""
    path.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in lines), "utf-8")
    return path


def filled(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    """Return a ledger with the events of a spool."""
    ingest(path, write_spool(path.with_suffix(".jsonl"), lines), "spool", now=NOW)
    return path


def stored(path: Path) -> list[Event]:
    """Return all events of a ledger in the order of their ingest."""
    with open_episodes(path) as connection:
        rows = connection.execute(f"SELECT {', '.join(Event._fields)} FROM {EVENTS} ORDER BY id")
        return [Event(*row) for row in rows]


def found(path: Path, query: str, **options: Any) -> Found:
    """Search a ledger."""
    with open_episodes(path) as connection:
        return search(connection, query, **options)


def hashing() -> Vectors:
    """Return vectors without a model."""
    return Vectors(HashingEmbedder())
