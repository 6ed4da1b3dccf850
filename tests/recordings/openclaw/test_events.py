"""Tests of the events of turns: recorded results of the memory tools, and injected blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.recordings.convert import recording_lines
from lab.recordings.events import InjectedBlock, ToolEvent
from lab.recordings.model import Recording
from lab.systems.openclaw.recall.block import wrap
from tests.recordings.openclaw.conftest import Read

ROW = {"id": "row-1", "text": "The gate sticks", "importance_label": "nice_to_have", "score": 0.5, "createdAt": 7}
FOUND = {
    "memories": [ROW, "no row", {"id": 4, "score": "high", "createdAt": True}],
    "receipt": {"model": "a-model", "scope": "global", "ftsCount": 1, "vecCount": 2},
}


def events(recording: Recording) -> list[tuple[int, str]]:
    return [
        (turn.seq, event.tool if isinstance(event, ToolEvent) else "injected")
        for turn in recording.turns
        for event in turn.events
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_recall_is_one_event_of_the_users_turn(read: Read, new_log: Any, *, wrapped: bool) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("assistant", "I will search.")
    log.calls("memory_recall", "c", {"query": "gate", "limit": 3, "scope": "farm"}, wrapped=wrapped)
    details: dict[str, Any] = FOUND
    if wrapped:
        log.effect("c", "memory_recall", {"query": "gate", "limit": 3, "scope": "farm"}, FOUND)
        details = {"tool": {"name": "memory_recall"}, "result": {"content": [], "details": FOUND}}
    log.answers("c", "tool_call" if wrapped else "memory_recall", details)
    log.says("user", "two")
    recording = read(log)
    assert events(recording) == [(0, "memory_recall")]
    (event,) = recording.turns[0].events
    assert isinstance(event, ToolEvent)
    assert (event.query, event.limit, event.scope, event.failed) == ("gate", 3, "farm", False)
    assert (event.model, event.searched_scope, event.fts, event.vec) == ("a-model", "global", 1, 2)
    row, odd = event.memories
    assert (row.id, row.text, row.label, row.score, row.created_at) == (*list(ROW.values())[:4], 7)
    # Fields of another type count as missing.
    assert (odd.id, odd.score, odd.created_at) == ("", None, None)
    assert recording.turns[0].time_ms < event.time_ms <= recording.turns[2].time_ms


@pytest.mark.parametrize(
    ("details", "is_error"), [(FOUND, True), ({"error": "x", "memories": []}, False), (None, False), ({}, False)]
)
def test_recall_without_a_usable_result_failed(read: Read, new_log: Any, details: Any, *, is_error: bool) -> None:
    log = new_log()
    log.says("user", "one")
    log.calls("memory_recall", "c", {"query": "gate"})
    log.answers("c", "memory_recall", details, isError=is_error)
    (event,) = read(log).turns[0].events
    assert isinstance(event, ToolEvent)
    assert event.failed


def test_recall_for_a_heartbeat_is_marked(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("user", "[OpenClaw heartbeat poll]")
    log.calls("memory_recall", "c", {"query": "gate"})
    log.answers("c", "memory_recall", FOUND)
    (event,) = read(log).turns[0].events
    assert isinstance(event, ToolEvent)
    assert event.for_host


def test_store_and_deletion_have_the_id_of_the_row(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.stores("The gate sticks", "row-1", wrapped=True)
    log.says("user", "two")
    log.calls("memory_forget", "c", {"memoryId": "row-1"})
    log.answers("c", "memory_forget", {"action": "deleted", "id": "row-1"})
    log.calls("memory_forget", "d", {"memoryId": "elsewhere"})
    log.answers("d", "memory_forget", {"action": "deleted", "id": "elsewhere"})
    recording = read(log)
    assert events(recording) == [(0, "memory_store"), (1, "memory_forget"), (1, "memory_forget")]
    stored, deleted, other = (event.memories[0] for turn in recording.turns for event in turn.events)
    assert (stored.id, stored.text, deleted.id, deleted.text) == ("row-1", "The gate sticks") * 2
    assert (other.id, other.text) == ("elsewhere", "")


def test_injected_block_is_an_event_and_no_text_of_the_turn(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", f"{wrap([('fact', 'nice_to_have', 'The gate sticks')])}\n\nWhich gate?")
    (turn,) = read(log).turns
    (block,) = turn.events
    assert turn.text == "Which gate?"
    assert isinstance(block, InjectedBlock)
    assert [(memory.text, memory.label) for memory in block.memories] == [("The gate sticks", "nice_to_have")]


def test_events_are_no_part_of_a_recording_that_is_written(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.calls("memory_recall", "c", {"query": "gate"})
    log.answers("c", "memory_recall", FOUND)
    recording = read(log)
    without = replace(recording, turns=tuple(replace(turn, events=()) for turn in recording.turns))
    assert recording.turns[0].events
    assert recording == without
    assert hash(recording.turns[0]) == hash(without.turns[0])
    assert "The gate sticks" not in recording_lines(recording).decode()
