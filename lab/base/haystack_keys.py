"""Keys of haystack memories: memories of other conversations that a replay adds to a conversation.

A key names where its memory came from: ``haystack:<conversation>/…``, and for a memory of another set
``haystack:<set>:<conversation>/…``. Golden sets may judge such memories, so their checks know these keys too.
"""

from __future__ import annotations

PREFIX = "haystack:"


def is_added(key: str) -> bool:
    """Return whether a key is that of a haystack memory."""
    return key.startswith(PREFIX)


def original_key(key: str) -> str:
    """Return a key without the prefix of haystack memories; other keys are returned unchanged.

    This is the key that the memory has in its own conversation, unless that key does not begin with the conversation's
    name or belongs to another set, whose name then comes first.
    """
    return key.removeprefix(PREFIX)


def added_key(conversation: str, key: str, source: str = "") -> str:
    """Return the key of a memory of ``conversation`` when it is added to another conversation.

    ``source`` is the name of its set, blank if it is the set of that other conversation.
    """
    named = key if key.startswith(f"{conversation}/") else f"{conversation}/{key}"
    return f"{PREFIX}{source}:{named}" if source else f"{PREFIX}{named}"
