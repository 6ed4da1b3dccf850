"""Conversations that are the same under several names: as evidence they are one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from lab.recordings.model import Recording

# Where a run names them, if it has any.
EQUAL = "equal_conversations"


def equal_conversations(recordings: Iterable[Recording]) -> list[tuple[str, ...]]:
    """Groups of two or more conversations that say the same, names in order, the groups by their first name.

    Two say the same where their turns have the same roles and texts in the same order, whatever their ids, times and
    memories are; case and white space do not count.
    """
    groups: dict[bytes, list[str]] = {}
    for recording in recordings:
        groups.setdefault(_fingerprint(recording), []).append(recording.conversation)
    return sorted(tuple(sorted(names)) for names in groups.values() if len(names) > 1)


def _fingerprint(recording: Recording) -> bytes:
    found = sha256()
    for turn in recording.turns:
        text = " ".join(turn.text.casefold().split())
        found.update(f"{turn.role}\x00{text}\x01".encode("utf-8", "surrogatepass"))
    return found.digest()
