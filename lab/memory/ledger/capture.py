"""Capture what tools returned in OpenClaw's sessions as a log of observations, a JSON object a line (LD-9)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import cannot_write, only_writer, require_finite
from lab.base.sqlite import MAGIC
from lab.base.times import as_datetime, epoch_ms
from lab.memory.ledger.archive import archived_logs
from lab.memory.ledger.ingest import is_observation
from lab.memory.ledger.lines import read_lines
from lab.memory.ledger.times import moment, stamp
from lab.memory.tools.redact import redactor
from lab.recordings.openclaw.database import read_database
from lab.recordings.openclaw.entries import Entry, parse_file
from lab.recordings.openclaw.folders import find
from lab.recordings.openclaw.transcript import ZSTD
from lab.recordings.openclaw.unpack import TRANSCRIPT_LIMIT, CannotUnpack, unpack

RECEIPT = "recall-lab.ledger.capture.v1"
# Characters of a summary, and those of a text that are searched for secrets before it is cut.
SUMMARY, SEARCHED = 200, 20_000
NESTED = "openclaw.nested-tool.v1"
STORE = "memory_store"
# Fields of a stored memory that writeback looks for, and their names in the result of the tool.
_OF_MEMORY = {"memory_id": "id", "category": "category", "scope": "scope"}


@dataclass(slots=True)
class Captured:
    """The counts of a capture, and the lines that are new; ``skipped`` names sessions that could not be read."""

    write: bool
    already: int = 0
    lines: list[bytes] = field(default_factory=list)
    tools: int = 0
    messages: int = 0
    redacted: int = 0
    cut: int = 0
    skipped: list[str] = field(default_factory=list)

    def receipt(self) -> dict[str, Any]:
        """Return the counts; no text of an observation is in it."""
        return {
            "kind": RECEIPT,
            "written": self.write,
            "captured": len(self.lines),
            "captured_before": self.already,
            "tool_results": self.tools,
            "messages": self.messages,
            "redacted": self.redacted,
            "cut": self.cut,
            "skipped": self.skipped,
        }


def capture(
    sessions: Path, log: Path, *, messages: bool = False, archive: Path | None = None, write: bool = True
) -> Captured:
    """Append what a log, and the logs that were rotated from it, do not have yet; without ``write``, only count it.

    ``archive`` is the folder of the rotated logs (default: ``archive`` beside the log).
    ``messages`` adds texts of users and assistants as notes. Secrets are replaced and summaries are cut before anything
    is written. A line that a killed process left incomplete is ended, so that ingest counts it as malformed, and
    captured again. Raises :class:`UnusableInput` if there is no session, or if the file to append to is no log;
    :class:`lab.base.errors.CannotWrite` if the disk is full.
    """
    require_finite(log)
    if log.exists():
        _require_log(log)
    done = Captured(write)
    with only_writer(log.parent) if write else nullcontext():
        _collect(sessions, [log, *archived_logs(log, archive)], messages, done)
        if write and done.lines:
            _append(log, b"".join(done.lines))
    return done


def _require_log(log: Path) -> None:
    """Raise :class:`UnusableInput` for another file, such as a ledger. One malformed line alone is what a kill left."""
    is_other, malformed = False, 0
    with log.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            raise UnusableInput(f"{log}: is an SQLite database; name the log to append to (JSON Lines)")
        for line in read_lines(file, hashlib.sha256()):
            if line.observation is None:
                malformed += bool(line.problem)
            elif is_observation(line.observation):
                return
            else:
                is_other = True
    if is_other or malformed > 1:
        raise UnusableInput(f"{log}: no line is an observation; name the log to append to (JSON Lines)")


def _collect(sessions: Path, logs: list[Path], messages: bool, done: Captured) -> None:
    """Put the lines that the logs do not have into ``done``."""
    known = {ref for log in logs if log.exists() for ref in _references(log)}
    redact = redactor(upstream=False)
    read = 0
    for session, entries in _sessions(sessions, done):
        read += 1
        for observation in _observations(session, entries, messages):
            if observation["detail"]["ref"] in known:
                done.already += 1
                continue
            known.add(observation["detail"]["ref"])
            _bound(observation, redact, done)
            done.lines.append((json.dumps(observation) + "\n").encode())
    if not read:
        raise UnusableInput(f"{sessions}: has no session of OpenClaw that can be read")


def _sessions(path: Path, done: Captured) -> Iterator[tuple[str, list[Entry]]]:
    """Yield each session's id and all its entries, those of abandoned branches too: a ledger keeps what happened."""
    for location in find(path).locations:
        for database in location.databases:
            for stored in read_database(database).sessions:
                yield stored.session, stored.transcript.entries
        for file in (*location.transcripts, *(archive.path for archive in location.archives)):
            try:
                data = file.read_bytes()
                if data.startswith(ZSTD):
                    data = unpack(data, TRANSCRIPT_LIMIT)
            except (OSError, CannotUnpack):
                done.skipped.append(file.name)
                continue
            entries = parse_file(data).entries
            if not entries or entries[0].value.get("type") != "session":
                done.skipped.append(file.name)
                continue
            identity = entries[0].value.get("id")
            yield identity if isinstance(identity, str) and identity else file.name.partition(".jsonl")[0], entries


def _observations(session: str, entries: list[Entry], messages: bool) -> Iterator[dict[str, Any]]:
    """Yield the observations of a session in order, with their texts whole."""
    said = [(entry, entry.value["message"]) for entry in entries if isinstance(entry.value.get("message"), dict)]
    nested = {
        _dict(message.get("details")).get("parentToolCallId")
        for _, message in said
        if message.get("customType") == NESTED
    }
    calls: dict[Any, dict[str, Any]] = {}
    for entry, message in said:
        role, details, content = message.get("role"), _dict(message.get("details")), message.get("content")
        observation = None
        if role == "assistant" and isinstance(content, list):
            calls |= {part.get("id"): _dict(part.get("arguments")) for part in content if _dict(part).get("id")}
        if role == "toolResult" and message.get("toolCallId") not in nested:
            arguments = calls.get(message.get("toolCallId"), {})
            observation = _of_tool(message.get("toolName"), arguments, content, details, message)
        elif message.get("customType") == NESTED:
            result = _dict(details.get("result"))
            arguments, returned = _dict(details.get("input")), _dict(result.get("details"))
            observation = _of_tool(details.get("toolName"), arguments, result.get("content"), returned, details)
        elif messages and role in ("user", "assistant") and _text(content):
            observation = {"kind": "note", "tool_name": "chat", "summary": _text(content), "detail": {"role": role}}
        if observation is not None:
            observation["detail"]["ref"] = f"{session}#{entry.id}"
            yield {"ts": _time(entry, message), "session_id": session, **observation}


def _of_tool(
    name: object, arguments: dict[str, Any], content: Any, details: dict[str, Any], outcome: dict[str, Any]
) -> dict[str, Any]:
    """Return the observation of a tool's result. Of a stored memory the summary is its text, which can be graded."""
    tool = name if isinstance(name, str) and name else "tool"
    text = _text(content)
    detail: dict[str, Any] = {"is_error": outcome.get("isError") is True, "chars": len(text)}
    if tool == STORE:
        detail |= {key: details[field] for key, field in _OF_MEMORY.items() if isinstance(details.get(field), str)}
        text = _text(arguments.get("text")) or text
    return {"kind": "tool", "tool_name": tool, "summary": text or f"{tool} called", "detail": detail}


def _bound(observation: dict[str, Any], redact: Callable[[str], str], done: Captured) -> None:
    """Redact and cut the summary, and count it."""
    text = observation["summary"][:SEARCHED]
    clean = redact(text)
    done.redacted += clean != text
    # What is cut anywhere else could be half of a secret.
    done.cut += len(clean) > SUMMARY
    observation["summary"] = clean[:SUMMARY].strip() or f"{observation['tool_name']} called"
    done.tools += observation["kind"] == "tool"
    done.messages += observation["kind"] == "note"


def _append(log: Path, data: bytes) -> None:
    """Append complete lines to a log that only its owner can read, and flush them to disk; all of them or none."""
    try:
        handle = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    data = b"\n" + data
            try:
                written = 0
                while written < len(data):
                    written += file.write(data[written:]) or 0
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        raise cannot_write(log, error, "; the log is as before, run the command again") from error


def _references(log: Path) -> Iterator[str]:
    with log.open("rb") as file:
        for line in read_lines(file, hashlib.sha256()):
            ref = _dict(_dict(line.observation).get("detail")).get("ref")
            if isinstance(ref, str):
                yield ref


def _time(entry: Entry, message: dict[str, Any]) -> str:
    """Return the time of an entry, that of its message if it has none, else of the epoch: never the wall clock."""
    given = entry.value.get("timestamp")
    if isinstance(given, str) and moment(given):
        return given
    times = (epoch_ms(value) for value in (given, message.get("timestamp")))
    return stamp(as_datetime(next((time for time in times if time is not None and time >= 0), 0)))


def _text(content: Any) -> str:
    """Return the text of a message: its text parts, on one line."""
    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else _dict(part).get("text") for part in parts]
    return " ".join(" ".join(text for text in texts if isinstance(text, str)).split())


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
