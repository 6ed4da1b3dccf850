"""Replace the memories of recordings by the lines and sentences of their turns, to judge what should be kept.

A candidate is a line, or in a text of one line a sentence (E-72). Its key is ``<turn>#<ordinal>``.
"""

from __future__ import annotations

from dataclasses import replace

from lab.golden.model import GoldenSet
from lab.recordings.model import Memory, Recording, in_birth_order
from lab.recordings.readers import Library
from lab.systems.openclaw.capture.candidates import split_candidates
from lab.systems.openclaw.capture.categories import detect_category


def with_candidates(library: Library) -> Library:
    """Return the recordings with the candidates of every turn as memories, and without probes."""
    return replace(library, recordings=tuple(map(_of_lines, library.recordings)), golden=GoldenSet())


def _of_lines(recording: Recording) -> Recording:
    memories = in_birth_order(
        Memory(
            f"{turn.key}#{number}",
            line,
            line,
            visible_from=turn.seq + 1,
            created_at=turn.time_ms,
            category=detect_category(line) or "other",
            scope=turn.scope,
        )
        for turn in recording.turns
        for number, line in enumerate(split_candidates(turn.text, chinese=True))
    )
    return replace(recording, memories=memories)
