"""Capture what tools returned in OpenClaw's sessions as a log (LD-9), and rotate a log that has been ingested.

The line that an observation came from is found wherever its log is now (LD-10).
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import atomic_file, cannot_write, only_writer, require_finite, sha256_file
from lab.base.sqlite import MAGIC, transaction
from lab.base.times import as_datetime, epoch_ms
from lab.memory.ledger import ledger
from lab.memory.ledger.ingest import Source, first_line, is_observation, origin_of, read_lines, source_of, sources
from lab.memory.ledger.ledger import moment, stamp
from lab.memory.tools.redact import redactor
from lab.recordings.openclaw.database import read_database
from lab.recordings.openclaw.entries import TRANSCRIPT_LIMIT, CannotUnpack, Entry, parse_file, unpack
from lab.recordings.openclaw.folders import find
from lab.recordings.openclaw.transcript import ZSTD

FOLDER = "archive"
# Characters of a summary, and those of a text that are searched for secrets before it is cut.
SUMMARY, SEARCHED = 200, 20_000
NESTED = "openclaw.nested-tool.v1"
STORE = "memory_store"
# Fields of a stored memory that writeback looks for, and their names in the result of the tool.
_OF_MEMORY = {"memory_id": "id", "category": "category", "scope": "scope"}


class Pointer(NamedTuple):
    """Where an observation comes from: the log, the number of its line, its first byte and its length."""

    log: Path
    line: int
    position: int
    length: int

    def read(self) -> str:
        """Return the line."""
        with self.log.open("rb") as file:
            file.seek(self.position)
            return file.read(self.length).decode("utf-8", "replace").rstrip("\r\n")


def archived_logs(log: Path, folder: Path | None = None) -> list[Path]:
    """Return the logs that were rotated from a log into a folder (default: ``archive`` beside it)."""
    return sorted((folder or log.parent / FOLDER).glob(f"{glob.escape(log.stem)}-*{glob.escape(log.suffix)}"))


def archive(path: Path, log: Path, *, folder: Path | None = None, write: bool = False) -> dict[str, Any]:
    """Move a log whose every line is in the ledger to ``folder`` (default: ``archive`` beside it); return a receipt.

    The new name ends in the digest of the log. The ledger learns the new place first, so that its pointers hold
    whenever the process is killed; the same command finishes the move. Without ``write`` nothing is changed. Raises
    :class:`UnusableInput` if lines are not ingested yet, or another file has the new name.
    """
    require_finite(log)
    # Of a link, the file is moved.
    log = log.resolve()
    with ledger.open_ledger(path, write=write) as connection:
        if not log.exists():
            return _moved_before(connection, log)
        with log.open("rb") as file:
            source = source_of(connection, file, log)
        left = log.stat().st_size - source.position
        if not source.digest or left:
            raise UnusableInput(
                f"{log}: {left} bytes are not ingested; run: lab memory ledger ingest {quote(str(path))} "
                f"{quote(str(log))} --write"
            )
        target = (folder or log.parent / FOLDER).resolve() / f"{log.stem}-{source.digest[:12]}{log.suffix}"
        if target.exists() and sha256_file(target) != source.digest:
            raise UnusableInput(f"{target}: exists and is another file; choose a new folder with --to")
        if write:
            with transaction(connection):
                connection.execute(
                    "UPDATE lab_sources SET path = ?, archived = ? WHERE id = ?",
                    (source.path, str(target), source.id),
                )
            _move(log, target)
            # Another program may have appended a line meanwhile; it is in the archive, and not in the ledger.
            left = target.stat().st_size - source.position
        return _receipt(source._replace(archived=str(target)), left, write)


def _receipt(source: Source, left: int, write: bool) -> dict[str, Any]:
    return {
        "kind": "recall-lab.ledger.archive.v1",
        "written": write,
        "archived": source.archived,
        "lines": source.lines,
        "bytes": source.position,
        "sha256": source.digest,
        "bytes_to_ingest": left,
    }


def _moved_before(connection: sqlite3.Connection, log: Path) -> dict[str, Any]:
    here = str(log)
    for source in reversed(list(sources(connection))):
        if source.path == here and source.archived and Path(source.archived).exists():
            return _receipt(source, Path(source.archived).stat().st_size - source.position, True)
    raise UnusableInput(f"{log}: no such file")


def _move(log: Path, target: Path) -> None:
    """Move a file; across file systems, copy it and remove it."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if log.stat().st_dev == target.parent.stat().st_dev:
            os.replace(log, target)
            return
        with atomic_file(target, private=True) as part:
            shutil.copyfile(log, part)
        log.unlink()
    except OSError as error:
        raise cannot_write(target, error, f"; {log} is kept") from error


def pointer(connection: sqlite3.Connection, observation_id: int) -> Pointer | None:
    """Return where an observation comes from; None if the ledger does not know, or its log is gone or another one."""
    known = {source.id: source for source in sources(connection)}
    origin = origin_of(connection, observation_id) if known else None
    if origin is None:
        return None
    source = known[origin.source_id]
    for name in (source.archived, source.path):
        if name and Path(name).is_file():
            with Path(name).open("rb") as file:
                if first_line(file) == source.head:
                    return Pointer(Path(name), *origin[1:])
    return None


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
            "kind": "recall-lab.ledger.capture.v1",
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
        for line in read_lines(file):
            if line.observation is None:
                malformed += bool(line.problem)
            elif is_observation(line.observation):
                return
            else:
                is_other = True
    if is_other or malformed > 1:
        raise UnusableInput(f"{log}: no line is an observation; name the log to append to (JSON Lines)")


def _collect(sessions: Path, logs: list[Path], messages: bool, done: Captured) -> None:
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
        for line in read_lines(file):
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
