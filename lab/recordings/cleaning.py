"""Remove what the host added around a user's message, and tell the messages that are the host's as a whole (E-63).

A transcript holds the text that the model saw, including injected memories, channel envelopes and prompts that the host
wrote. A replay needs the text that the person wrote. :func:`read_message` decides what of a user message is the host's;
docs/formats.md lists the rules, OC-H1 to OC-H7.

A host puts its text before and after a person's words, so pieces are taken off at both ends until a person's words
stand there. What is in their midst is theirs, even if it looks like the host's: people quote their agents. Only blocks
that the memory engine injected are removed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lab.base.regex import regex
from lab.recordings.host_prompts import EVENTS, EXTERNAL, prompt_kind, silent_token
from lab.recordings.injected import gap
from lab.recordings.peeling import DIRECTIVE, peel

_CHINESE = regex("[\u3400-\u4dbf\u4e00-\u9fff]")


class Cleaned(NamedTuple):
    """A text without the host's additions, and how many of each kind were removed."""

    text: str
    stripped: dict[str, int]


class Message(NamedTuple):
    """A user message as the host recorded it.

    ``text`` is what the person said. ``host`` names the kind of prompt if the message is the host's as a whole, else
    None. ``has_sender`` says that the host named a sender, a channel or an attachment, which only a person has.
    """

    text: str
    removed: dict[str, int]
    host: str | None
    has_sender: bool


def read_message(text: str) -> Message:
    """Return what the person said in a user message, and whether the message is the host's."""
    peeled = peel(text)
    said = peeled.said
    host = prompt_kind(said) if said else None
    if not said and set(peeled.removed) & {"event of the host", "external content"} and not peeled.has_sender:
        host = EXTERNAL if peeled.removed["external content"] else EVENTS
    return Message(said, dict(+peeled.removed), host, peeled.has_sender)


def clean_user_text(text: str) -> Cleaned:
    """Return the text that the person wrote, trimmed at both ends and otherwise unchanged."""
    peeled = peel(text)
    return Cleaned(peeled.said, dict(+peeled.removed))


def clean_assistant_text(text: str) -> str | None:
    """Return the reply without its directives, or None if the agent chose not to reply."""
    reply = DIRECTIVE.sub(gap, text).strip()
    return None if silent_token(reply) else reply


def language_of(texts: Iterable[str]) -> str:
    """Return ``zh`` if at least a tenth of the letters are Chinese characters, else ``en``."""
    letters = chinese = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        chinese += len(_CHINESE.findall(text))
    return "zh" if chinese and chinese * 10 >= letters else "en"
