"""Fixtures that write OpenClaw's sessions in the formats of its versions: JSON Lines files and agent databases."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.recordings.model import Recording
from lab.recordings.readers import read_library

Entry = dict[str, Any]
Read = Callable[[Any], Recording]
ID = "3b0d5a52-0000-4000-8000-000000000001"
SCHEMA = """
CREATE TABLE schema_meta (
  meta_key TEXT PRIMARY KEY, role TEXT, schema_version INTEGER, agent_id TEXT, app_version TEXT
);
CREATE TABLE session_nodes (session_key TEXT PRIMARY KEY, current_session_id TEXT, entry_json TEXT, created_via TEXT);
CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, reason TEXT);
CREATE TABLE transcript_events (
  session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER NOT NULL, event_zstd BLOB,
  event_utf8_bytes INTEGER, navigation_json TEXT, PRIMARY KEY (session_id, seq)
) STRICT;
CREATE TABLE session_transcript_active_events (
  session_id TEXT NOT NULL, active_position INTEGER NOT NULL, event_seq INTEGER NOT NULL, message_position INTEGER,
  context_eligible INTEGER, PRIMARY KEY (session_id, active_position)
) STRICT;
CREATE TABLE session_transcript_index_state (
  session_id TEXT PRIMARY KEY, indexed_seq INTEGER NOT NULL, leaf_event_id TEXT, needs_rebuild INTEGER NOT NULL,
  active_event_count INTEGER, active_message_count INTEGER, updated_at INTEGER
);
CREATE TABLE session_transcript_archives (
  session_id TEXT, generation TEXT, session_key TEXT, reason TEXT, encoding TEXT, archive_blob BLOB,
  archive_sha256 TEXT, archive_name TEXT UNIQUE, created_at INTEGER, published_at INTEGER, publish_attempts INTEGER,
  last_publish_attempt_at INTEGER, last_publish_error TEXT
);
PRAGMA user_version = 23;
"""


class Log:
    """A builder of one branch: each entry is a child of the previous one, five seconds later."""

    def __init__(self, identity: str = ID, version: int = 4) -> None:
        self.id = identity
        start = "2026-09-01T08:00:00.000Z"
        self.lines: list[Any] = [{"type": "session", "version": version, "id": identity, "timestamp": start}]
        self.last: str | None = None

    def add(self, kind: str, parent: str | None = "", **fields: Any) -> str:
        number = len(self.lines)
        identity = f"{self.id[-4:]}-{number:04}"
        second = f"2026-09-01T08:{5 * number // 60:02}:{5 * number % 60:02}.000Z"
        above = self.last if parent == "" else parent
        self.lines.append({"type": kind, "id": identity, "parentId": above, "timestamp": second} | fields)
        self.last = identity
        return identity

    def says(self, role: str, content: Any, parent: str | None = "", **fields: Any) -> str:
        return self.add("message", parent, message={"role": role, "content": content} | fields)

    def calls(self, tool: str, call: str, arguments: Entry, *, wrapped: bool = False) -> str:
        named = {"name": tool, "arguments": arguments}
        if wrapped:
            named = {"name": "tool_call", "arguments": {"id": f"openclaw:plugin:{tool}", "args": arguments}}
        return self.says("assistant", [{"type": "toolCall", "id": call, **named}])

    def answers(self, call: str, tool: str, details: Entry | None = None, **fields: Any) -> str:
        more = {"details": details} if details is not None else {}
        text = [{"type": "text", "text": "done"}]
        return self.says("toolResult", text, toolCallId=call, toolName=tool, **more, **fields)

    def effect(self, call: str, tool: str, given: Entry, details: Entry, number: int = 1, **more: Any) -> str:
        """The message that tells what a call through tool search did."""
        inner = {"toolName": tool, "input": given, "result": {"content": [], "details": details}, "isError": False}
        names = {"parentToolCallId": call, "toolCallId": f"tool_search_code:{call}:{tool}:{number}"}
        return self.says("custom", "", customType="openclaw.nested-tool.v1", details=inner | names | more)

    def stores(self, text: str, row: str, *, wrapped: bool = False) -> None:
        """A whole call of memory_store, from the call to the result."""
        call, made = f"call-{len(self.lines)}", {"action": "created", "id": row, "importance_label": "nice_to_have"}
        self.calls("memory_store", call, {"text": text}, wrapped=wrapped)
        if wrapped:
            self.effect(call, "memory_store", {"text": text}, made)
            made = {"tool": {"name": "memory_store"}, "result": {"content": [], "details": made}}
        self.answers(call, "tool_call" if wrapped else "memory_store", made)

    def text(self) -> str:
        lines = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in self.lines]
        return "".join(f"{line}\n" for line in lines)


def _insert(connection: sqlite3.Connection, log: Log, key: str, packed: Sequence[int], via: str | None) -> None:
    connection.execute("INSERT INTO session_windows VALUES (?, ?, NULL)", (log.id, key))
    connection.execute("INSERT OR IGNORE INTO session_nodes VALUES (?, ?, '{}', ?)", (key, log.id, via))
    for seq, line in enumerate(log.lines):
        text = line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
        data = text.encode()
        row: tuple[Any, ...] = (log.id, seq, text, 0, None, None, None)
        if seq in packed:
            row = (log.id, seq, None, 0, pa.compress(data, codec="zstd", asbytes=True), len(data), "{}")
        connection.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    for place in range(1, len(log.lines)):
        active = (log.id, place - 1, place)
        connection.execute("INSERT INTO session_transcript_active_events VALUES (?, ?, ?, NULL, NULL)", active)
    state = (log.id, len(log.lines) - 1, log.last)
    connection.execute("INSERT INTO session_transcript_index_state VALUES (?, ?, ?, 0, 0, 0, 0)", state)


MakeDatabase = Callable[..., Path]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that reads a log."""

    def from_log(log: Any) -> Recording:
        path = tmp_path / "a.jsonl"
        path.write_text(log.text(), "utf-8")
        (recording,) = read_library(path, "openclaw").recordings
        return recording

    return from_log


@pytest.fixture
def new_log() -> type[Log]:
    """Return a function that creates a transcript builder."""
    return Log


@pytest.fixture
def make_database() -> MakeDatabase:
    """Return a function that writes an agent's database; ``packed`` lists the compressed events."""

    def make(
        path: Path, *logs: Log, packed: Sequence[int] = (), keys: dict[str, str] | None = None, via: str | None = None
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path)
        with connection:
            connection.executescript(SCHEMA)
            connection.execute("INSERT INTO schema_meta VALUES ('primary', 'agent', 23, 'main', '2026.9.6')")
            for log in logs:
                _insert(connection, log, (keys or {}).get(log.id, f"agent:main:{log.id}"), packed, via)
        connection.close()
        return path

    return make
