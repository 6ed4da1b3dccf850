"""Find duplicate conversations. Several copies of a conversation count as one piece of evidence."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from lab.recordings.model import Recording

# The field of a run's manifest that lists them.
EQUAL = "equal_conversations"
# Characters of a turn that are hashed at a time.
PIECE = 1 << 16


def equal_conversations(recordings: Iterable[Recording]) -> list[tuple[str, ...]]:
    """Return the groups of two or more equal conversations: sorted tuples of names, in sorted order.

    Two conversations are equal if their turns have the same roles and texts in the same order. Ids, times, memories,
    case, white space and the conversation's name are ignored.
    """
    groups: dict[bytes, list[str]] = {}
    for recording in recordings:
        groups.setdefault(_fingerprint(recording), []).append(recording.conversation)
    return sorted(tuple(sorted(names)) for names in groups.values() if len(names) > 1)


def _fingerprint(recording: Recording) -> bytes:
    digest = sha256()
    for turn in recording.turns:
        digest.update(f"{turn.role}\x00".encode())
        # In pieces, because a turn may quote an entire file, and a list of its words takes twenty times its size.
        for begin in range(0, len(turn.text), PIECE):
            words = turn.text[begin : begin + PIECE].replace(recording.conversation, "").casefold().split()
            digest.update(" ".join(words).encode("utf-8", "surrogatepass"))
        digest.update(b"\x01")
    return digest.digest()
