"""Conversations that are the same under several names: as evidence they are one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from lab.recordings.model import Recording

# Where a run names them, if it has any.
EQUAL = "equal_conversations"
# Characters of a turn that are taken at a time.
PIECE = 1 << 16


def equal_conversations(recordings: Iterable[Recording]) -> list[tuple[str, ...]]:
    """Groups of two or more conversations that say the same, names in order, the groups by their first name.

    Two say the same where their turns have the same roles and texts in the same order, whatever their ids, times and
    memories are; case, white space and the conversation's own name do not count.
    """
    groups: dict[bytes, list[str]] = {}
    for recording in recordings:
        groups.setdefault(_fingerprint(recording), []).append(recording.conversation)
    return sorted(tuple(sorted(names)) for names in groups.values() if len(names) > 1)


def _fingerprint(recording: Recording) -> bytes:
    found = sha256()
    for turn in recording.turns:
        found.update(f"{turn.role}\x00".encode())
        # Piece by piece: a turn may hold a whole file, and its words as a list would take twenty times its size.
        for begin in range(0, len(turn.text), PIECE):
            words = turn.text[begin : begin + PIECE].replace(recording.conversation, "").casefold().split()
            found.update(" ".join(words).encode("utf-8", "surrogatepass"))
        found.update(b"\x01")
    return found.digest()
