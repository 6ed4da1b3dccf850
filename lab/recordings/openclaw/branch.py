"""The active branch of a transcript as a recording: its turns, and what was passed over (E-63).

What is replayed are the messages of people and the replies to them. A compaction changes what the model sees, not what
was said, so nothing is left out for it; a ``reset`` begins another session, ``<id>#2``. The host's own messages are no
turns: heartbeats and the replies to them, the commands that it answers itself, and its notices.

Every entry is a turn or falls into one category of ``passed``. What a reader should know of is also a note.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from lab.recordings.cleaning import clean_assistant_text, clean_user_text
from lab.recordings.model import Turn
from lab.recordings.openclaw.entries import LEAF, Entry
from lab.recordings.openclaw.tools import NESTED, MemoryTools, Moment

# Entries that say nothing about what was said.
SILENT = ("model_change", "thinking_level_change", "custom", "label", "session_info", LEAF)
HEARTBEAT = "[OpenClaw heartbeat poll]"
# The name that the host gives as the model of a reply that it wrote itself.
HOST_MODEL = "gateway-injected"
# A command is one word after the slash; a path has another slash, or a dot.
COMMAND = re.compile(r"/[a-z][a-z0-9_-]*:?(?=\s|\Z)", re.IGNORECASE)
# Commands that every host answers itself, whether its answer was written down or not.
OWN_COMMANDS = ("/compact", "/new", "/reset")
# The first moment that counts as no time, 9999-01-01 in epoch milliseconds: calendars end a year later, and turns of
# one moment are counted on from it by the millisecond.
NO_TIME_FROM = 253370764800000


class Branch:
    """Walks the entries of an active branch; holds what was said, what was stored, and what was passed over."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.turns: list[Turn] = []
        self.tools = MemoryTools()
        self.messages = 0
        # Entries that are no turn, by why.
        self.passed: Counter[str] = Counter()
        self._resets = 0
        self._clock = -1
        self._for_host = False
        self._stripped: Counter[str] = Counter()
        self._noted: Counter[str] = Counter()

    @property
    def _session(self) -> str:
        return f"{self.conversation}#{self._resets + 1}" if self._resets else self.conversation

    def walk(self, entries: Sequence[Entry]) -> None:
        """Take the entries in their order."""
        said = [place for place, entry in enumerate(entries) if _role(entry) in ("user", "assistant")]
        follows = dict(pairwise(said))
        for place, entry in enumerate(entries):
            following = entries[follows[place]] if place in follows else None
            self._take(entry, following)

    def notes(self) -> list[str]:
        """What was taken off, left out, or done by tools, a sentence each."""
        pieces = ", ".join(f"{name} {count}" for name, count in sorted(self._stripped.items()))
        counts = Counter(self._noted) + Counter(self.tools.counts())
        return [
            *([f"taken off user messages: {pieces}"] if pieces else []),
            *(f"{what}: {count}" for what, count in sorted(counts.items())),
        ]

    def _pass(self, why: str, *, note: bool = True) -> None:
        """Count an entry that is no turn; without ``note`` it is what every transcript holds."""
        self.passed[why] += 1
        if note:
            self._noted[why] += 1

    def _take(self, entry: Entry, following: Entry | None) -> None:
        kind = entry.value["type"]
        if kind == "message":
            self._take_message(entry, following)
        elif kind == "reset":
            # Two in a row clear what was clear already.
            self._resets += bool(self.turns) and self.turns[-1].session == self._session
            self._pass("resets, which begin another session", note=False)
        elif kind == "compaction":
            self._pass("compactions, which leave nothing out of a replay")
        elif kind in ("branch_summary", "custom_message"):
            self._pass("texts that the host wrote for the model left out")
        elif kind in SILENT:
            self._pass(f"entries that say nothing: {kind}", note=False)
        else:
            self._pass(f"entries of the unknown type {kind!r} left out")

    def _take_message(self, entry: Entry, following: Entry | None) -> None:
        message = entry.value.get("message")
        role = _role(entry)
        if not isinstance(message, dict) or role is None:
            self._pass("messages without a role left out")
        elif role == "user":
            self.messages += 1
            self._take_user(entry, message, following)
        elif role == "assistant":
            self.messages += 1
            self._take_reply(entry, message)
        elif role == "toolResult":
            self.tools.answered(message, self._moment(entry))
            self._pass("results of tools", note=False)
        elif role == "custom" and message.get("customType") == NESTED:
            details = message.get("details")
            if isinstance(details, dict):
                self.tools.nested(details, self._key(entry), self._moment(entry))
            self._pass("effects of calls through tool search", note=False)
        else:
            self._pass(f"messages of the role {role!r}", note=False)

    def _take_user(self, entry: Entry, message: dict[str, Any], following: Entry | None) -> None:
        text = _text(message.get("content"))
        provenance = message.get("provenance")
        source = provenance.get("kind") if isinstance(provenance, dict) else None
        self._for_host = source == "internal_system" or text.strip().startswith(HEARTBEAT)
        if self._for_host:
            self._pass("messages of the host itself, such as heartbeats, left out")
            return
        cleaned = clean_user_text(text)
        if _is_command(cleaned.text, following):
            self._pass("commands that the host answers itself left out")
            return
        self._stripped.update(cleaned.stripped)
        if not cleaned.text:
            self._pass("user messages without a word of the user left out")
            return
        if source == "inter_session":
            self._noted["messages that another session sent, replayed as turns"] += 1
        self._say(entry, "user", cleaned.text)

    def _take_reply(self, entry: Entry, message: dict[str, Any]) -> None:
        content = message.get("content")
        said = clean_assistant_text(_text(content))
        if message.get("model") == HOST_MODEL:
            self._pass("replies of the host itself left out")
        elif self._for_host:
            self._pass("replies to messages of the host left out")
        elif said:
            self._say(entry, "assistant", said)
        elif said is None:
            self._pass("silent replies left out")
        else:
            self._pass("replies without words, such as calls of tools", note=False)
        self.tools.called(content, self._key(entry))

    def _say(self, entry: Entry, role: str, text: str) -> None:
        self._clock = max(self._clock + 1, self._time(entry))
        self.turns.append(Turn(self._key(entry), len(self.turns), self._session, role, text, self._clock, speaker=role))

    def _key(self, entry: Entry) -> str:
        return f"{self.conversation}/{self._session}/{entry.id}"

    def _moment(self, entry: Entry) -> Moment:
        """When a result came: before the turn that is next, and no earlier than the one before."""
        return Moment(len(self.turns), max(self._clock, self._time(entry, told=False)))

    def _time(self, entry: Entry, *, told: bool = True) -> int:
        """Return when an entry was written, in epoch milliseconds; the time before it where it does not say."""
        message = entry.value.get("message")
        for moment in (entry.value.get("timestamp"), message.get("timestamp") if isinstance(message, dict) else None):
            if isinstance(moment, str):
                try:
                    parsed = datetime.fromisoformat(moment)
                    moment = round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
                except (ValueError, OverflowError):
                    continue
            if isinstance(moment, int | float) and not isinstance(moment, bool) and 0 <= moment < NO_TIME_FROM:
                return int(moment)
        if told:
            self._noted["entries without a time, which take that of the one before"] += 1
        return max(self._clock, 0)


def _role(entry: Entry) -> str | None:
    message = entry.value.get("message") if entry.value["type"] == "message" else None
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else None


def _is_command(text: str, following: Entry | None) -> bool:
    """Tell whether a message is a command that the host answered itself, and no path or sentence with a slash."""
    found = COMMAND.match(text)
    if found is None:
        return False
    message = following.value["message"] if following is not None else {}
    if message.get("role") == "assistant":
        return bool(message.get("model") == HOST_MODEL)
    # Its answer was not written down: nobody but the host can have taken it.
    return found[0].rstrip(":").lower() in OWN_COMMANDS


def _text(content: Any) -> str:
    """Return the words of a message: a string, or the text among its parts."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(part for part in parts if isinstance(part, str))
