"""Tell, for every user message of a branch, what a person said and what the host or another agent asked (OC-H5, OC-H6).

The text of a message tells most prompts of the host. Where it does not, the answer does: the prompt before a bare
``HEARTBEAT_OK`` or ``NO_REPLY`` is a machine's, and so is a longer text that is repeated word for word elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lab.recordings.cleaning import Message, read_message
from lab.recordings.host_prompts import CURRENT_TIME, EXTERNAL, INTERNAL, JOBS, OTHERS, SUBAGENTS, silent_token
from lab.recordings.openclaw.entries import Entry, text_of

# The model name of a reply that the host wrote.
HOST_MODEL = "gateway-injected"
# Prompts of a session without a person. They are left out where a person speaks as well.
TASKS = (JOBS, SUBAGENTS, OTHERS, EXTERNAL)
SOURCES = {"internal_system": INTERNAL, "inter_session": OTHERS}
_TASK = re.compile(r"\[cron:[^\]\n]+\][ \t]*|(?:\[Subagent Context\][^\n]*\n+)*\[Subagent Task\]:?\s*")
_DELIVERED = re.compile(r"\n\s*Return your (?:summary|response) as plain text;[^\n]*\s*\Z")
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
