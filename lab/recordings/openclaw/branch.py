"""Convert the active branch of a transcript to turns, and count the skipped entries (E-63).

The effects of memory tools on abandoned branches happened all the same: they are read in the order of the log (TE-3).

A replay contains the messages of people and the replies to them. A compaction changes only what the model sees, so it
removes no turn. A ``reset`` begins a new session, ``<id>#2``. The host's messages are not turns: its prompts and the
replies to them, the commands that the host answers, and its notices.

Every entry is either a turn or counted in one category of ``passed``. Categories that users should know are also notes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from lab.base.times import Times
from lab.recordings.cleaning import clean_assistant_text
from lab.recordings.events import Event, ToolUse
from lab.recordings.injected import read_blocks
from lab.recordings.model import Turn
from lab.recordings.openclaw.entries import LEAF, Entry
from lab.recordings.openclaw.entries import text_of as _text
from lab.recordings.openclaw.prompts import HOST_MODEL, Prompt, read_prompt, read_prompts
from lab.recordings.openclaw.tool_uses import ToolUses
from lab.recordings.openclaw.tools import NESTED, NO_TIME_FROM, MemoryTools, ResultTime

# Entry types without conversation content.
SILENT = ("model_change", "thinking_level_change", "custom", "label", "session_info", LEAF)
# A command is one word after a slash; a path has another slash or a dot.
COMMAND = re.compile(r"/[a-z][a-z0-9_-]*:?(?=\s|\Z)", re.IGNORECASE)
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
