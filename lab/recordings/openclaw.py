"""OpenClaw session transcripts, versions 1 to 3: append-only JSON Lines, a tree of entries (spec 19.1).

One file is one conversation, named by its session. What is replayed is the active branch, from the last entry of the
file up to the root: its user messages without what the host put around them, and the replies. A compaction changes what
the model sees, not what was said, so nothing is left out for it; a ``reset`` begins another session, ``<id>#2``.

The memories are those that the agent stored with ``memory_store`` and that a result confirmed, born at that moment.

A transcript is a log that was written while things went wrong: lines that are not JSON, and a last one that is cut off,
are skipped and counted in the notes.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.errors import UnusableInput
from lab.golden.model import GoldenSet
from lab.recordings.cleaning import clean_assistant_text, clean_user_text
from lab.recordings.model import Memory, Recording, Turn, in_birth_order

VERSIONS = (1, 2, 3)
# Files beside the transcripts of a sessions folder that are not, or no longer, one of them.
IGNORED = ("*.trajectory.jsonl", "*.reset.*", "*.bak*", "*.checkpoint.*", "*.deleted.*")
LABELS = ("must_remember", "nice_to_have", "ignore", "unknown")
# Entries that say nothing about what was said.
SILENT = ("model_change", "thinking_level_change", "custom", "label", "session_info")


class Entry(NamedTuple):
    """One line of the file, with its id; one made of the line's number where it has none, or that of another."""

    line: int
    id: str
    value: dict[str, Any]


class Call(NamedTuple):
    """A ``memory_store`` call that waits for its result: where it stands, and what it asked to be stored."""

    key: str
    arguments: dict[str, Any]


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one session file.

    Raises :class:`UnusableInput` where it has no header, or no message on its active branch.
    """
    lines, spoilt = _lines(path)
    if not lines or lines[0].value.get("type") != "session":
        raise UnusableInput(
            f'{path}:1: is no session header; the first line of a transcript is {{"type": "session", "id": …}}'
        )
    header, *entries = lines
    version = header.value.get("version", 1)
    if version not in VERSIONS or isinstance(version, bool):
        raise UnusableInput(f"{path}:{header.line}: version {version!r} is none of {', '.join(map(str, VERSIONS))}")
    branch, lost = active_branch(entries)
    reader = _Branch(_conversation(path, header.value))
    for entry in branch:
        reader.take(entry)
    if not reader.messages:
        raise UnusableInput(
            f"{path}: holds no message of user or assistant on its active branch; move it out of the folder"
        )
    elsewhere = sum(entry.value["type"] == "message" for entry in entries) - sum(
        entry.value["type"] == "message" for entry in branch
    )
    found = [
        *spoilt,
        *([f"entries whose parent the file does not hold, joined to the one before: {lost}"] if lost else []),
        *([f"messages on branches that were left, not replayed: {elsewhere}"] if elsewhere else []),
        *reader.noticed(),
    ]
    notes = tuple(f"{reader.conversation}: {note}" for note in found)
    recording = Recording(reader.conversation, tuple(reader.turns), in_birth_order(reader.memories), notes=notes)
    return [(recording, GoldenSet(notes=notes))]


def _lines(path: Path) -> tuple[list[Entry], list[str]]:
    """The entries of a file in order, and notes on the lines that are none."""
    try:
        raw = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None
    entries: list[Entry] = []
    spoilt: list[int] = []
    known: set[str] = set()
    for number, line in enumerate(raw, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and isinstance(value.get("type"), str):
            given = value.get("id")
            identity = given if isinstance(given, str) and given and given not in known else f"line{number}"
            known.add(identity)
            entries.append(Entry(number, identity, value))
        else:
            spoilt.append(number)
    notes = []
    if spoilt and spoilt[-1] == len(raw):
        notes.append(f"the last line, {spoilt.pop()}, is cut off and was skipped")
    if spoilt:
        notes.append(f"lines that are no JSON entries skipped (first line {spoilt[0]}): {len(spoilt)}")
    return entries, notes


def active_branch(entries: list[Entry]) -> tuple[list[Entry], int]:
    """The entries from the root to the last one, and how many of the file name a parent that it does not hold.

    A log only grows, so a parent stands before its children. Where it is missing (its line was spoilt), and in files of
    version 1, which know no parents, the entry before is taken.
    """
    places: dict[str, int] = {}
    parents: list[int] = []
    lost = 0
    for place, entry in enumerate(entries):
        parent = entry.value.get("parentId", "")
        before = place - 1
        if parent is None:
            before = -1
        elif isinstance(parent, str) and parent in places:
            before = places[parent]
        elif "parentId" in entry.value:
            lost += 1
        parents.append(before)
        places[str(entry.value.get("id", entry.id))] = place
    branch: list[Entry] = []
    place = len(entries) - 1
    while place >= 0:
        branch.append(entries[place])
        place = parents[place]
    return branch[::-1], lost


class _Branch:
    """Walks the active branch; holds what was said, what was stored, and what was left out."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.turns: list[Turn] = []
        self.memories: list[Memory] = []
        self.messages = 0
        self._resets = 0
        self._clock = -1
        self._calls: dict[str, Call] = {}
        self._stripped: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()

    @property
    def _session(self) -> str:
        return f"{self.conversation}#{self._resets + 1}" if self._resets else self.conversation

    def take(self, entry: Entry) -> None:
        kind = entry.value["type"]
        if kind == "message":
            self._take_message(entry)
        elif kind == "reset":
            # Two in a row clear what was clear already.
            self._resets += bool(self.turns) and self.turns[-1].session == self._session
        elif kind == "compaction":
            self._counts["compactions, which leave nothing out of a replay"] += 1
        elif kind in ("branch_summary", "custom_message"):
            self._counts["texts that the host wrote for the model left out"] += 1
        elif kind not in SILENT:
            self._counts[f"entries of the unknown type {kind!r} left out"] += 1

    def _take_message(self, entry: Entry) -> None:
        message = entry.value.get("message")
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(role, str):
            self._counts["messages without a role left out"] += 1
        elif role == "user":
            self.messages += 1
            cleaned = clean_user_text(_text(message.get("content")))
            self._stripped.update(cleaned.stripped)
            if cleaned.text:
                self._say(entry, role, cleaned.text)
            else:
                self._counts["user messages without a word of the user left out"] += 1
        elif role == "assistant":
            self.messages += 1
            said = clean_assistant_text(_text(message.get("content")))
            if said:
                self._say(entry, role, said)
            elif said is None:
                self._counts["silent replies left out"] += 1
            self._take_calls(entry, message.get("content"))
        elif role == "toolResult":
            self._take_result(entry, message)

    def _say(self, entry: Entry, role: str, text: str) -> None:
        self._clock = max(self._clock + 1, self._time(entry))
        key = f"{self.conversation}/{self._session}/{entry.id}"
        self.turns.append(Turn(key, len(self.turns), self._session, role, text, self._clock, speaker=role))

    def _take_calls(self, entry: Entry, content: Any) -> None:
        """Remember the calls of ``memory_store`` until their results come."""
        calls = [
            part
            for part in (content if isinstance(content, list) else ())
            if isinstance(part, dict) and part.get("type") == "toolCall" and part.get("name") == "memory_store"
        ]
        for ordinal, part in enumerate(calls):
            arguments, identity = part.get("arguments"), part.get("id")
            text = arguments.get("text") if isinstance(arguments, dict) else None
            if isinstance(arguments, dict) and isinstance(identity, str) and isinstance(text, str) and text.strip():
                self._calls[identity] = Call(f"{self.conversation}/{self._session}/{entry.id}#{ordinal}", arguments)
            else:
                self._counts["calls of memory_store without a text"] += 1

    def _take_result(self, entry: Entry, message: dict[str, Any]) -> None:
        """A confirmed call is a memory, born now."""
        identity = message.get("toolCallId")
        call = self._calls.pop(identity, None) if isinstance(identity, str) else None
        if call is None:
            return
        details = message.get("details")
        stored: dict[str, Any] = details if isinstance(details, dict) else {}
        if message.get("isError") is True or stored.get("error") or stored.get("action", "created") != "created":
            self._counts["calls of memory_store that stored nothing"] += 1
            return
        # The result knows what became of what was asked for.
        label = stored.get("importance_label")
        text = call.arguments["text"]
        self.memories.append(
            Memory(
                call.key,
                text,
                text,
                visible_from=len(self.turns),
                created_at=max(self._clock, self._time(entry)),
                category=_word(stored.get("category")) or _word(call.arguments.get("category")) or "other",
                scope=_word(stored.get("scope")) or _word(call.arguments.get("scope")) or "global",
                label=label if label in LABELS else _label(call.arguments.get("importance")),
            )
        )

    def _time(self, entry: Entry) -> int:
        """When an entry was written, in epoch milliseconds; the time of the one before where it does not say."""
        message = entry.value.get("message")
        for moment in (entry.value.get("timestamp"), message.get("timestamp") if isinstance(message, dict) else None):
            if isinstance(moment, str):
                try:
                    parsed = datetime.fromisoformat(moment)
                except ValueError:
                    continue
                return round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
            if isinstance(moment, int | float) and not isinstance(moment, bool) and 0 <= moment < 1e15:
                return int(moment)
        self._counts["entries without a time, which take that of the one before"] += 1
        return max(self._clock, 0)

    def noticed(self) -> list[str]:
        """What was taken off or left out, a sentence each."""
        counts = dict(self._counts)
        if self._calls:
            counts["calls of memory_store without a result, which count as not stored"] = len(self._calls)
        pieces = ", ".join(f"{name} {count}" for name, count in sorted(self._stripped.items()))
        return [
            *([f"taken off user messages: {pieces}"] if pieces else []),
            *(f"{what}: {count}" for what, count in sorted(counts.items())),
        ]


def _conversation(path: Path, header: dict[str, Any]) -> str:
    """The session's id; a file for one topic of it, or with an id that is no name, is called by its own name."""
    identity = header.get("id")
    if not isinstance(identity, str) or not identity.strip() or "/" in identity:
        return path.stem
    return path.stem if path.stem.startswith(f"{identity}-topic-") else identity


def _text(content: Any) -> str:
    """The words of a message: a string, or the text among its parts."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(part for part in parts if isinstance(part, str))


def _word(value: Any) -> str | None:
    """A name as the engine writes it, or None."""
    return value.strip().lower() or None if isinstance(value, str) else None


def _label(importance: Any) -> str:
    """The label that ``memory_store`` gives (spec 0.3): by the score alone, unknown without one."""
    try:
        score = float(importance.strip() or 0) if isinstance(importance, str) else importance
    except ValueError:
        return "unknown"
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) < float("inf"):
        return "unknown"
    return "must_remember" if score >= 0.8 else "nice_to_have" if score >= 0.5 else "ignore"
