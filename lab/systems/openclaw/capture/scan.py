"""Read the user's texts from the messages of a conversation, within bounds (E-73)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.base.utf16 import js_length, js_slice


class Message(NamedTuple):
    """A user's message: its text blocks, the key of its turn, and the recorded scope (None: tags decide)."""

    texts: tuple[str, ...]
    source: str = ""
    scope: str | None = None


class Text(NamedTuple):
    """A text of a message, whole or cut, with the key of its turn and the recorded scope."""

    text: str
    source: str = ""
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is read: messages, text blocks of a message, and UTF-16 units in all. None: everything.

    With ``newest_first``, new texts take their share of the units before old ones.
    """

    messages: int | None = None
    blocks: int | None = None
    units: int | None = None
    newest_first: bool = False
    # Cuts a text to a number of units.
    cut: Callable[[str, int], str] = js_slice


class Scanned(NamedTuple):
    """The texts read, oldest first; how many messages, blocks and units were read; and what was left out."""

    texts: Sequence[Text]
    messages: int
    blocks: int
    units: int
    older: int
    truncated: int


def scan(messages: Sequence[Message], bounds: Bounds) -> Scanned:
    """Return the texts of the last messages within the bounds.

    Text blocks beyond the bound count as left out. Messages after the one that used up the units do not count as read,
    and all of their units count as left out.
    """
    recent = messages if bounds.messages is None else messages[-bounds.messages :]
    kept: list[Text] = []
    read = used = truncated = 0
    for message in reversed(recent) if bounds.newest_first else recent:
        read += bounds.units is None or used < bounds.units
        texts = [text for text in message.texts if text]
        truncated += sum(map(js_length, () if bounds.blocks is None else texts[bounds.blocks :]))
        texts = texts[: bounds.blocks]
        for text in reversed(texts) if bounds.newest_first else texts:
            length = js_length(text)
            if bounds.units is not None and length > bounds.units - used:
                text = bounds.cut(text, bounds.units - used)
            units = js_length(text)
            truncated += length - units
            used += units
            if text:
                kept.append(Text(text, message.source, message.scope))
    if bounds.newest_first:
        kept.reverse()
    return Scanned(kept, read, len(kept), used, len(messages) - len(recent), truncated)
