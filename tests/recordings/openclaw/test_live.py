"""Tests of sessions of real hosts: turns and memories match manual counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.recordings.readers import Library, read_library

Shared = Callable[..., Path]
# First letters of a session -> numbers of user turns, replies and memories.
NEW = {"a1eda9b8": (11, 14, 3), "add43651": (3, 4, 1), "b96e7239": (1, 1, 0), "dc41cebe": (11, 13, 2)}
DELETED = {"aaa016e4": (1, 1, 0)}
OLD = {"8110468b": (11, 13, 2), "af92bee6": (1, 1, 0)}
RESET = {"bfd6d0a7": (10, 13, 3)}


def counts(library: Library) -> dict[str, tuple[int, int, int]]:
    return {
        recording.conversation[:8]: (
            sum(turn.role == "user" for turn in recording.turns),
            sum(turn.role == "assistant" for turn in recording.turns),
            len(recording.memories),
        )
        for recording in library.recordings
    }


@pytest.mark.parametrize(
    ("folder", "form", "expected"),
    [
        ("sessions-2026.9.6", "openclaw", NEW),
        ("sessions-2026.9.6/as-jsonl", "openclaw", NEW),
        ("sessions-2026.9.6", "openclaw-archived", NEW | DELETED),
        ("sessions-2026.6.11", "openclaw", OLD),
        ("sessions-2026.6.11", "openclaw-archived", OLD | RESET),
    ],
)
def test_live_sessions_match_manual_counts(
    shared: Shared, folder: str, form: str, expected: dict[str, tuple[int, int, int]]
) -> None:
    assert counts(read_library(shared("live", *folder.split("/")), form)) == expected


def test_live_database_reads_as_its_json_lines(shared: Shared) -> None:
    database = read_library(shared("live", "sessions-2026.9.6"), "openclaw")
    lines = read_library(shared("live", "sessions-2026.9.6", "as-jsonl"), "openclaw")
    assert database.recordings == lines.recordings
    assert database.inventory is not None
    assert lines.inventory is not None
    own = {"JSON Lines files in as-jsonl/, which is not an agent's sessions folder"}
    own |= {"sessions that were deleted; --format openclaw-archived reads them"}
    assert [skipped for skipped in database.inventory.passed if skipped.what not in own] == list(lines.inventory.passed)


def test_live_reset_begins_a_second_session(shared: Shared) -> None:
    library = read_library(shared("live", "sessions-2026.9.6"), "openclaw")
    (talk,) = [recording for recording in library.recordings if recording.conversation.startswith("a1eda9b8")]
    assert talk.sessions == (talk.conversation, f"{talk.conversation}#2")
    assert [turn.session for turn in talk.turns].count(talk.sessions[1]) == 2


def test_live_memories_match_the_store(shared: Shared) -> None:
    told = {
        memory.text: memory.label
        for folder in ("sessions-2026.9.6", "sessions-2026.6.11")
        for recording in read_library(shared("live", folder), "openclaw-archived").recordings
        for memory in recording.memories
    }
    assert len(told) == 6
    assert sorted(label or "" for label in told.values()) == ["must_remember"] * 3 + ["nice_to_have"] * 3
