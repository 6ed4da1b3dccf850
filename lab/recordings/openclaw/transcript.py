"""Convert a transcript, from a file or from a database, to a recording: the turns of its active branch (E-63).

The effects of memory tools on abandoned branches happened all the same: they are read in the order of the log (TE-3).

A replay contains the messages of people and the replies to them. A compaction changes only what the model sees, so it
removes no turn. A ``reset`` begins a new session, ``<id>#2``. The host's messages are not turns: its prompts and the
replies to them, the commands that the host answers, and its notices. The text of a message tells most prompts of the
host (OC-H5, OC-H6). Where it does not, the answer does: the prompt before a bare ``HEARTBEAT_OK`` or ``NO_REPLY`` is a
machine's, and so is a longer text that is repeated word for word elsewhere.

Every entry is either a turn or counted in one category of ``passed``. Categories that users should know are also notes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import reading
from lab.base.regex import regex
from lab.base.times import Times
from lab.recordings.cleaning import Message, clean_assistant_text, read_message
from lab.recordings.events import Event, ToolUse
from lab.recordings.host_prompts import CURRENT_TIME, EXTERNAL, INTERNAL, JOBS, OTHERS, SUBAGENTS, silent_token
from lab.recordings.injected import read_blocks
from lab.recordings.model import Recording, Turn, in_birth_order
from lab.recordings.openclaw.entries import (
    LEAF,
    TRANSCRIPT_LIMIT,
    CannotUnpack,
    Entry,
    Transcript,
    active_branch,
    merged,
    parents_of,
    parse_file,
    said_in,
    text_of,
    time_of,
    unpack,
)
from lab.recordings.openclaw.entries import text_of as _text
from lab.recordings.openclaw.folders import Copy, Session, where
from lab.recordings.openclaw.origins import decided
from lab.recordings.openclaw.tools import NESTED, NO_TIME_FROM, MemoryTools, ResultTime, ToolUses
from lab.recordings.origins import UNKNOWN_ORIGIN

# The model name of a reply that the host wrote.
HOST_MODEL = "gateway-injected"
# Prompts of a session without a person. They are left out where a person speaks as well.
TASKS = (JOBS, SUBAGENTS, OTHERS, EXTERNAL)
SOURCES = {"internal_system": INTERNAL, "inter_session": OTHERS}
_TASK = regex(r"\[cron:[^\]\n]+\][ \t]*|(?:\[Subagent Context\][^\n]*\n+)*\[Subagent Task\]:?\s*")
_DELIVERED = regex(r"\n\s*Return your (?:summary|response) as plain text;[^\n]*\s*\Z")
# A person repeats short texts ("go on"), and an agent may answer one of them with a token.
_LEAST_LENGTH = 30


class Prompt(NamedTuple):
    """A user message: what was said, what was removed around it, and the kind of prompt if no person said it.

    ``is_task`` marks a prompt that is replayed although no person said it.
    """

    text: str
    removed: Mapping[str, int]
    kind: str | None
    is_task: bool = False


def read_prompt(message: Mapping[str, Any]) -> Prompt:
    """Return a user message by itself, without regard to its answer."""
    return _read(message)[1]


def read_prompts(entries: Iterable[Entry]) -> dict[int, Prompt]:
    """Return the user messages of a branch by their line."""
    asked = list(_with_answers(entries))
    found: dict[int, Prompt] = {}
    unsaid: dict[str, str] = {}
    read = [(line, message, *_read(message), answers) for line, message, answers in asked]
    for line, _, said, prompt, answers in read:
        # The host names a sender only for what a person sent; an agent may stay silent in a group.
        if prompt.kind is None and prompt.text and not said.has_sender and (token := _bare_answer(answers)):
            prompt = prompt._replace(kind=f"prompts that were answered with {token} alone")
            if len(prompt.text) >= _LEAST_LENGTH:
                unsaid[prompt.text] = prompt.kind or ""
        found[line] = prompt
    for line, _, said, prompt, _ in read:
        if found[line].kind is None and not said.has_sender and prompt.text in unsaid:
            found[line] = prompt._replace(kind=unsaid[prompt.text])
    if not any(prompt.kind is None and prompt.text for prompt in found.values()):
        for line, message, _, prompt, _ in read:
            if prompt.kind in TASKS:
                found[line] = prompt._replace(text=_task(prompt.text, message), is_task=True)
    return found


def _read(message: Mapping[str, Any]) -> tuple[Message, Prompt]:
    said = read_message(text_of(message.get("content")))
    provenance = message.get("provenance")
    source = provenance.get("kind") if isinstance(provenance, dict) else None
    kind = said.host or (SOURCES.get(source) if isinstance(source, str) else None)
    return said, Prompt(said.text, said.removed, kind)


def _with_answers(entries: Iterable[Entry]) -> Iterator[tuple[int, Mapping[str, Any], Sequence[Mapping[str, Any]]]]:
    """Yield the line of each user message, the message, and the agent's messages before the next one."""
    line, asked, answers = -1, None, list[Mapping[str, Any]]()
    for entry in entries:
        message = entry.value.get("message") if entry.value["type"] == "message" else None
        if not isinstance(message, dict):
            continue
        if message.get("role") == "user":
            if asked is not None:
                yield line, asked, answers
            line, asked, answers = entry.line, message, []
        elif message.get("role") == "assistant" and message.get("model") != HOST_MODEL:
            answers.append(message)
    if asked is not None:
        yield line, asked, answers


def _bare_answer(answers: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the token that an agent's whole answer consists of, or None.

    ``NO_REPLY`` also ends an answer that was sent with the tool ``message``; such an answer is not silent.
    """
    tokens: list[str | None] = []
    for answer in answers:
        if text := text_of(answer.get("content")).strip():
            tokens.append(silent_token(text))
        content = answer.get("content")
        if any(_sends(part) for part in (content if isinstance(content, list) else ())):
            tokens.append(None)
    if not tokens:
        return None
    # A heartbeat may think aloud before its tools; its last words decide.
    return tokens[-1] if tokens[-1] == "HEARTBEAT_OK" or None not in tokens else None


def _sends(part: object) -> bool:
    if not isinstance(part, dict) or part.get("type") != "toolCall":
        return False
    arguments = part.get("arguments")
    inner = (arguments.get("name"), arguments.get("tool"), arguments.get("id")) if isinstance(arguments, dict) else ()
    return "message" in (part.get("name"), *(inner if part.get("name") == "tool_call" else ()))


def _task(text: str, message: Mapping[str, Any]) -> str:
    """Return the prompt of a job or another agent without what the host wrote around it."""
    text = text or text_of(message.get("content")).strip()
    text = CURRENT_TIME.sub("", _DELIVERED.sub("", _TASK.sub("", text, count=1)))
    return text.strip()


# Entry types without conversation content.
SILENT = ("model_change", "thinking_level_change", "custom", "label", "session_info", LEAF)
# A command is one word after a slash; a path has another slash or a dot.
COMMAND = regex(r"/[a-z][a-z0-9_-]*:?(?=\s|\Z)", re.IGNORECASE)
# Commands that every host answers, whether or not it records the answer.
HOST_COMMANDS = ("/compact", "/new", "/reset")


class Branch:
    """Converter of the entries of an active branch; collects turns, memories and counts of skipped entries."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.turns: list[Turn] = []
        self.tools = MemoryTools()
        self.tool_uses = ToolUses()
        self.messages = 0
        # Number of entries that are not turns, by reason.
        self.passed: Counter[str] = Counter()
        self._resets = 0
        self._clock = -1
        self._for_host = False
        self._abandoned = False
        self._prompts: dict[int, Prompt] = {}
        self._times = Times(first=0, last=NO_TIME_FROM - 1)
        self._read: dict[int, int | None] = {}
        self._removed: Counter[str] = Counter()
        self._noted: Counter[str] = Counter()

    @property
    def _session(self) -> str:
        return f"{self.conversation}#{self._resets + 1}" if self._resets else self.conversation

    def walk(self, entries: Sequence[Entry], parents: Sequence[int], active: Collection[int]) -> None:
        """Convert the entries of a log, in order.

        ``parents`` has the position of each entry's parent, and ``active`` the lines of the active branch.
        """
        on_branch = [entry for entry in entries if entry.line in active]
        self._prompts = read_prompts(on_branch)
        messages = [entry for entry in on_branch if _role(entry) in ("user", "assistant")]
        follows = {entry.line: following for entry, following in pairwise(messages)}
        for_host: list[bool] = []
        for entry, parent in zip(entries, parents, strict=True):
            self._for_host = parent >= 0 and for_host[parent]
            if entry.line in active:
                self._take(entry, follows.get(entry.line))
            elif _role(entry) is not None:
                self._take_abandoned(entry)
            for_host.append(self._for_host)
        self._attach_tool_events()

    def _take_abandoned(self, entry: Entry) -> None:
        """Take what the memory tools did at a message of an abandoned branch, and nothing else of it."""
        kept = self.messages, self.passed, self._removed, self._noted, self.tool_uses
        self.passed, self._removed, self._noted, self.tool_uses = Counter(), Counter(), Counter(), ToolUses()
        self._abandoned = True
        self._take_message(entry, None)
        self._abandoned = False
        self.messages, self.passed, self._removed, self._noted, self.tool_uses = kept

    def notes(self) -> list[str]:
        """Return one note per kind of removed text, skipped entry and memory-tool call."""
        pieces = ", ".join(f"{name} {count}" for name, count in sorted(self._removed.items()))
        counts = Counter(self._noted) + Counter(self.tools.counts()) + Counter(self._times.counts())
        return [
            *([f"removed from user messages: {pieces}"] if pieces else []),
            *(f"{what}: {count}" for what, count in sorted(counts.items())),
        ]

    def _pass(self, why: str, *, note: bool = True) -> None:
        """Count an entry that is not a turn; ``note`` is False for kinds that every transcript contains."""
        self.passed[why] += 1
        if note:
            self._noted[why] += 1

    def _take(self, entry: Entry, following: Entry | None) -> None:
        kind = entry.value["type"]
        if kind == "message":
            self._take_message(entry, following)
        elif kind == "reset":
            # Consecutive resets have the effect of one.
            self._resets += bool(self.turns) and self.turns[-1].session == self._session
            self._pass("resets, each of which begins a new session", note=False)
        elif kind == "compaction":
            self._pass("compactions, which remove nothing from a replay")
        elif kind in ("branch_summary", "custom_message"):
            self._pass("texts of the host for the model, skipped")
        elif kind in SILENT:
            self._pass(f"entries without conversation content: {kind}", note=False)
        else:
            self._pass(f"entries of the unknown type {kind!r}, skipped")

    def _take_message(self, entry: Entry, following: Entry | None) -> None:
        message = entry.value.get("message")
        role = _role(entry)
        if not isinstance(message, dict) or role is None:
            self._pass("messages without a role, skipped")
        elif role == "user":
            self.messages += 1
            self._take_user(entry, message, following)
        elif role == "assistant":
            self.messages += 1
            self._take_reply(entry, message)
        elif role == "toolResult":
            arrival = self._result_time(entry)
            self.tools.take_result(message, arrival)
            self.tool_uses.take_result(message, _text(message.get("content")), self._key(entry), arrival)
            self._pass("tool results", note=False)
        elif role == "custom" and message.get("customType") == NESTED:
            details = message.get("details")
            if isinstance(details, dict):
                arrival, result = self._result_time(entry), details.get("result")
                text = _text(result.get("content")) if isinstance(result, dict) else ""
                self.tools.take_nested_result(details, self._key(entry), arrival)
                self.tool_uses.take_nested_result(details, text, self._key(entry), arrival)
            self._pass("effects of tool-search calls", note=False)
        else:
            self._pass(f"messages with the role {role!r}", note=False)

    def _take_user(self, entry: Entry, message: dict[str, Any], following: Entry | None) -> None:
        prompt = self._prompts.get(entry.line) or read_prompt(message)
        self._for_host = prompt.kind is not None and not prompt.is_task
        if self._for_host:
            self._pass(f"messages of the host ({prompt.kind}), skipped")
            return
        if _is_command(prompt.text, following):
            self._pass("commands that the host answers, skipped")
            return
        self._removed.update(prompt.removed)
        if not prompt.text:
            self._pass("user messages without any text of the user, skipped")
            return
        if prompt.is_task:
            self._noted[f"{prompt.kind}, replayed as turns because no person speaks in the session"] += 1
        self._say(entry, "user", prompt.text, read_blocks(_text(message.get("content"))) if prompt.removed else ())

    def _take_reply(self, entry: Entry, message: dict[str, Any]) -> None:
        content = message.get("content")
        reply = clean_assistant_text(_text(content))
        if message.get("model") == HOST_MODEL:
            self._pass("replies by the host, skipped")
        elif self._for_host:
            self._pass("replies to messages of the host, skipped")
        elif reply:
            self._say(entry, "assistant", reply)
        elif reply is None:
            self._pass("silent replies, skipped")
        else:
            self._pass("replies without text, such as tool calls", note=False)
        self.tools.take_calls(content, self._key(entry))
        self.tool_uses.take_calls(content, self._key(entry), self._result_time(entry))

    def _say(self, entry: Entry, role: str, text: str, events: tuple[Event, ...] = ()) -> None:
        if self._abandoned:
            return
        self._clock = max(self._clock + 1, self._time(entry))
        key, seq = self._key(entry), len(self.turns)
        self.turns.append(Turn(key, seq, self._session, role, text, self._clock, speaker=role, events=events))

    def _attach_tool_events(self) -> None:
        """Add the results of the memory tools to the user's turn that they belong to, which is the one before them.

        Without one, they belong to the first turn. The uses of all tools are added to the turn of any role before them.
        """
        asked = [turn.seq for turn in self.turns if turn.role == "user"]
        for seq, event in self.tools.events if self.turns else ():
            before = bisect_left(asked, seq)
            at = asked[before - 1] if before else 0
            self.turns[at] = replace(self.turns[at], events=(*self.turns[at].events, event))
        uses: dict[int, list[ToolUse]] = {}
        for seq, use in self.tool_uses.uses if self.turns else ():
            uses.setdefault(max(0, seq - 1), []).append(use)
        for at, at_turn in uses.items():
            self.turns[at] = replace(self.turns[at], tool_uses=tuple(at_turn))

    def _key(self, entry: Entry) -> str:
        return f"{self.conversation}/{self._session}/{entry.id}"

    def _result_time(self, entry: Entry) -> ResultTime:
        """Return when a result arrived: before the next turn and no earlier than the previous one."""
        time_ms = max(self._clock, self._time(entry, note=False))
        return ResultTime(len(self.turns), time_ms, self._for_host, self._abandoned)

    def _time(self, entry: Entry, *, note: bool = True) -> int:
        """Return the time of an entry in epoch milliseconds, or the previous turn's time if it has none."""
        if entry.line not in self._read:
            message = entry.value.get("message")
            recorded = [part.get("timestamp") for part in (entry.value, message) if isinstance(part, dict)]
            self._read[entry.line] = next(
                (ms for value in recorded if (ms := self._times.read(value)) is not None),
                None,
            )
        time_ms = self._read[entry.line]
        if time_ms is None and note:
            self._noted["entries without a time, which get the time of the previous turn"] += 1
        return max(self._clock, 0) if time_ms is None else time_ms


def _role(entry: Entry) -> str | None:
    message = entry.value.get("message") if entry.value["type"] == "message" else None
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else None


def _is_command(text: str, following: Entry | None) -> bool:
    """Return whether a message is a command that the host answered, not a path or a sentence with a slash."""
    match = COMMAND.match(text)
    if match is None:
        return False
    message = following.value["message"] if following is not None else {}
    if message.get("role") == "assistant":
        return bool(message.get("model") == HOST_MODEL)
    # No answer was recorded, so only the commands that every host answers are certain.
    return match[0].rstrip(":").lower() in HOST_COMMANDS


VERSIONS = (1, 2, 3, 4)
ZSTD = b"\x28\xb5\x2f\xfd"


# Return what an index says of the session with this name.
Named = Callable[[str], str]


def read_transcript(path: Path, indexed: Named = lambda _: UNKNOWN_ORIGIN) -> Session:
    """Read one file; ``indexed`` returns what an index says of the origin of a session.

    Raises :class:`UnusableInput` if it has no header, or no message on its active branch.
    """
    return read_data(_data_of(path), path, indexed)._replace(load=partial(load_file, path))


def load_file(path: Path) -> Copy:
    """Read one file again, as a copy of its session."""
    return load_data(_data_of(path))


def load_data(data: bytes) -> Copy:
    """Return the content of a file as a copy of its session."""
    transcript = parse_file(data)
    return Copy(transcript, None, tuple(transcript.spoilt_notes(is_file=True)))


def _data_of(path: Path) -> bytes:
    with reading(path):
        data = path.read_bytes()
    if data.startswith(ZSTD) or path.suffix == ".zst":
        try:
            data = unpack(data, TRANSCRIPT_LIMIT)
        except CannotUnpack as error:
            raise UnusableInput(f"{path}: {error}") from None
    return data


def read_data(data: bytes, path: Path, indexed: Named = lambda _: UNKNOWN_ORIGIN) -> Session:
    """Read the content of a file; ``path`` is for messages. Raises like :func:`read_transcript`."""
    transcript = parse_file(data)
    if not transcript.entries or transcript.entries[0].value.get("type") != "session":
        raise UnusableInput(
            f'{path}:1: is not a session header; the first line of a transcript is {{"type": "session", "id": …}}'
        )
    header, *entries = transcript.entries
    version = header.value.get("version", 1)
    if version not in VERSIONS or isinstance(version, bool):
        raise UnusableInput(f"{path}:{header.line}: version {version!r} is none of {', '.join(map(str, VERSIONS))}")
    name = session_name(path, header.value)
    session = session_of(name, transcript, active_branch(entries), (), is_file=True, origin=indexed(name))
    if not session.messages:
        raise UnusableInput(
            f"{path}: has no message of a user or an assistant on its active branch; move it out of the folder"
        )
    if not session.recording.turns:
        raise UnusableInput(f"{path}: conversation {name!r} has no turns, so it cannot be replayed")
    return session._replace(file=path, stored=f"JSON Lines {version}")


def session_of(
    name: str,
    transcript: Transcript,
    active: tuple[list[Entry], int],
    extra_notes: Sequence[str],
    *,
    is_file: bool | None,
    origin: str = UNKNOWN_ORIGIN,
) -> Session:
    """Return a transcript as a session: the recording of its active branch and the counts of skipped entries.

    ``active`` is the result of :func:`active_branch`, and ``origin`` what an index says of the session. ``is_file`` is
    false for the events of a database, and None if ``extra_notes`` has the notes on spoilt lines.
    """
    branch, lost = active
    conversation = conversation_of(name)
    walker = Branch(conversation)
    on_branch = {entry.line for entry in branch}
    entries = [entry for entry in transcript.entries if entry.value["type"] != "session"]
    walker.walk(entries, parents_of(entries)[0], on_branch)
    headers = [entry for entry in transcript.entries if entry.value["type"] == "session"]
    away = [entry for entry in entries if entry.line not in on_branch]
    left_messages = sum(entry.value["type"] == "message" for entry in away)
    notes = [
        *extra_notes,
        *(transcript.spoilt_notes(is_file=is_file) if is_file is not None else ()),
        *([f"entries whose parent is missing, attached to the previous entry: {lost}"] if lost else []),
        *([f"messages on abandoned branches, not replayed: {left_messages}"] if left_messages else []),
        *walker.notes(),
    ]
    passed = Counter(walker.passed)
    passed["session headers"] = len(headers)
    passed["entries on abandoned branches"] = len(away)
    passed["lines or events that are not entries"] = len(transcript.spoilt)
    recording = Recording(
        conversation,
        tuple(walker.turns),
        in_birth_order(walker.tools.memories),
        notes=tuple(f"{conversation}: {note}" for note in notes),
        origin=decided(origin, branch),
    )
    lines = len(transcript.entries) + len(transcript.spoilt)
    ids = frozenset(entry.mark for entry in entries)
    parents = {parent for entry in entries if isinstance(parent := entry.value.get("parentId"), str)}
    times = [time_ms for entry in entries if (time_ms := time_of(entry)) is not None]
    return Session(
        recording,
        ids,
        +passed,
        walker.messages,
        lines,
        said=said_in(entries),
        above=frozenset(parents - ids),
        span=(min(times), max(times)) if times else (0, 0),
    )


def conversation_of(name: str) -> str:
    """Return the conversation of a session with this id."""
    return re.sub(r"[/#]", "_", name.strip()) or "session"


def united(sessions: Sequence[Session]) -> Session | None:
    """Return copies of a session, the newest last, as one session with the entries of all; None if the last has all."""
    copies = [session.load() for session in sessions]
    newest, last = sessions[-1], copies[-1]
    whole = copies[0].transcript
    for copy in copies[1:]:
        whole = merged(whole, copy.transcript)
    added = len(whole.entries) - len(last.transcript.entries)
    if not added:
        return None
    entries = [entry for entry in whole.entries if entry.value["type"] != "session"]
    others = ", ".join(where(session) for session in sessions[:-1])
    notes = [
        f"read from {where(newest)} and {others}, which are copies; entries that only the latter have: {added}",
        *(f"{where(session)}: {note}" for session, copy in zip(sessions, copies, strict=True) for note in copy.notes),
    ]
    branch = active_branch(entries, last.leaf)
    name, origin = newest.recording.conversation, newest.recording.origin
    session = session_of(name, whole, branch, notes, is_file=None, origin=origin)
    return session._replace(
        file=newest.file,
        also=tuple(copy.file for copy in sessions[:-1]),
        stored=", ".join(dict.fromkeys(copy.stored for copy in reversed(sessions))),
        agent=newest.agent,
        archive=newest.archive,
    )


def session_name(path: Path, header: dict[str, Any]) -> str:
    """Return the session's id, or the file's stem if the file holds a single topic or the id is not a valid name."""
    identity = header.get("id")
    stem = path.name.partition(".jsonl")[0]
    if not isinstance(identity, str) or not identity.strip() or "/" in identity or not identity.isprintable():
        return stem
    return stem if stem.startswith(f"{identity}-topic-") else identity
