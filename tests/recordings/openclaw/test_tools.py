"""Tests of memory-tool calls: direct calls, calls through tool search, failures, and forgotten memories."""

from __future__ import annotations

from typing import Any

import pytest

from lab.recordings.convert import recording_lines
from lab.recordings.model import Recording
from tests.recordings.openclaw.conftest import Read


def notes(recording: Recording) -> list[str]:
    return [note.removeprefix(f"{recording.conversation}: ") for note in recording.notes]


def spans(recording: Recording) -> list[tuple[str, int, int | None]]:
    return [(memory.text, memory.visible_from, memory.visible_until) for memory in recording.memories]


def test_store_through_tool_search_counts_once(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.stores("The gate sticks", "row-1", wrapped=True)
    log.says("user", "two")
    recording = read(log)
    (memory,) = recording.memories
    assert (memory.key, memory.label) == (f"{log.id}/{log.id}/0001-0002#0", "nice_to_have")
    assert (spans(recording), notes(recording)) == ([("The gate sticks", 1, None)], [])


def test_store_whose_wrapper_answers_first_counts_once(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    made = {"action": "created", "id": "row-1"}
    log.calls("memory_store", "c", {"text": "x y"}, wrapped=True)
    log.answers("c", "tool_call", {"tool": {}, "result": {"details": made}})
    log.effect("c", "memory_store", {"text": "x y"}, made)
    assert spans(read(log)) == [("x y", 1, None)]


def test_store_confirmed_only_by_the_wrapper_counts(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.calls("memory_store", "c", {"text": "x y"}, wrapped=True)
    log.answers("c", "tool_call", {"tool": {}, "result": {"details": {"action": "created", "category": "Fact"}}})
    (memory,) = read(log).memories
    assert (memory.text, memory.category) == ("x y", "fact")


def test_several_effects_of_one_call_are_separate_memories(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("assistant", [{"type": "toolCall", "id": "c", "name": "tool_search_code", "arguments": {"code": "…"}}])
    first = log.effect("c", "memory_store", {"text": "a b"}, {"action": "created", "id": "row-1"}, 1)
    second = log.effect("c", "memory_store", {"text": "c d"}, {"action": "created", "id": "row-2"}, 2)
    recording = read(log)
    assert [memory.key for memory in recording.memories] == [f"{log.id}/{log.id}/{one}#0" for one in (first, second)]


def test_effect_that_failed_stores_nothing(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    for number, (details, more) in enumerate([({"error": "readonly_mode"}, {}), ({}, {"isError": True})]):
        log.calls("memory_store", f"c{number}", {"text": "x"}, wrapped=True)
        log.effect(f"c{number}", "memory_store", {"text": "x"}, details, **more)
    log.calls("memory_store", "c9", {"text": "x"})
    log.answers("c9", "memory_store", {"action": "duplicate"})
    recording = read(log)
    assert recording.memories == ()
    assert notes(recording) == [
        "calls of memory_store that stored nothing (duplicate): 1",
        "calls of memory_store that stored nothing (failed): 1",
        "calls of memory_store that stored nothing (refused): 1",
    ]


def test_repeated_call_id_is_another_call(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    for number in (1, 2):
        log.calls("memory_store", "call_1", {"text": f"text {number}"}, wrapped=True)
        log.effect("call_1", "memory_store", {"text": f"text {number}"}, {"action": "created", "id": f"row-{number}"})
    assert [memory.text for memory in read(log).memories] == ["text 1", "text 2"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_forgotten_memory_is_invisible_from_the_next_turn(read: Read, new_log: Any, wrapped: bool) -> None:
    log = new_log()
    log.says("user", "one")
    log.stores("The gate sticks", "row-1")
    log.stores("The roof leaks", "row-2")
    log.says("user", "two")
    log.calls("memory_forget", "f", {"memoryId": "row-1"}, wrapped=wrapped)
    told = {"action": "deleted", "id": "row-1"}
    if wrapped:
        log.effect("f", "memory_forget", {"memoryId": "row-1"}, told)
    log.answers("f", "memory_forget", {"tool": {}, "result": {"details": told}} if wrapped else told)
    log.says("user", "three")
    recording = read(log)
    assert spans(recording) == [("The gate sticks", 1, 2), ("The roof leaks", 1, None)]
    assert notes(recording) == ["memories forgotten, which later turns cannot recall: 1"]


def test_forget_that_deletes_nothing_is_counted(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.stores("The gate sticks", "row-1")
    results: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        ({"query": "gate"}, {"action": "candidates", "found": 1, "candidates": [{"id": "row-1", "text": "x"}]}, {}),
        ({"memoryId": "row-1"}, {"error": "readonly_mode", "id": "row-1"}, {}),
        ({"memoryId": "row-1"}, {"action": "deleted", "id": "row-1"}, {"isError": True}),
        ({"memoryId": "row-9"}, {"action": "deleted", "id": "row-9"}, {}),
    ]
    for number, (given, details, more) in enumerate(results):
        log.calls("memory_forget", f"f{number}", given)
        log.answers(f"f{number}", "memory_forget", details, **more)
    log.calls("memory_forget", "f8", {"memoryId": "row-1"})
    recording = read(log)
    assert spans(recording) == [("The gate sticks", 1, None)]
    assert notes(recording) == [
        "calls of memory_forget for memories that were stored elsewhere: 1",
        "calls of memory_forget that deleted nothing (failed): 1",
        "calls of memory_forget that deleted nothing (refused): 1",
        "calls of memory_forget that listed candidates and deleted nothing: 1",
        "calls of memory_forget without a result, which count as not deleted: 1",
    ]


def test_forget_finds_a_row_by_what_recall_listed(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.calls("memory_store", "s", {"text": "The gate sticks"})
    log.answers("s", "memory_store")
    log.calls("memory_recall", "r", {"query": "gate"})
    log.answers("r", "memory_recall", {"memories": [{"id": "row-7", "text": "The gate sticks"}]})
    log.calls("memory_forget", "f", {"memoryId": "row-7"})
    log.says("user", "two")
    log.answers("f", "memory_forget")
    assert spans(read(log)) == [("The gate sticks", 1, 2)]


@pytest.mark.parametrize("turns", [0, 1])
def test_memory_that_no_turn_can_recall_is_dropped(read: Read, new_log: Any, turns: int) -> None:
    log = new_log()
    for _ in range(turns):
        log.says("user", "one")
    for row in ("row-1", "row-2"):
        log.stores(f"The gate of {row} sticks", row)
    log.calls("memory_forget", "f", {"memoryId": "row-1"})
    log.answers("f", "memory_forget", {"action": "deleted", "id": "row-1"})
    log.says("user", "two")
    recording = read(log)
    assert spans(recording) == [("The gate of row-2 sticks", turns, None)]
    assert notes(recording) == ["memories forgotten before a turn could recall them, dropped: 1"]
    assert b"The gate of row-2 sticks" in recording_lines(recording)


def test_tools_of_rsclaw_store_delete_and_pin(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    for call, text in (("a", "x y"), ("b", "z")):
        log.calls("memory_add", call, {"text": text, "kind": "Procedure"})
        log.answers(call, "memory_add", {"stored": True, "id": f"row-{call}"})
    log.says("user", "two")
    log.calls("memory_pin", "c", {"id": "row-a"})
    log.answers("c", "memory_pin", {})
    log.calls("memory_search", "d", {"query": "x", "top_k": 3})
    log.answers("d", "memory_search", {"count": 0})
    log.says("user", "three")
    log.calls("memory_delete", "e", {"id": "row-b"})
    log.answers("e", "memory_delete", {"deleted": True, "id": "row-b"})
    log.says("user", "four")
    recording = read(log)
    assert [memory.category for memory in recording.memories] == ["procedure", "procedure"]
    assert spans(recording) == [("x y", 1, None), ("z", 1, 3)]
    events: list[Any] = [event for turn in recording.turns for event in turn.events]
    assert [(event.tool, [memory.id for memory in event.memories]) for event in events] == [
        ("memory_store", ["row-a"]),
        ("memory_store", ["row-b"]),
        ("memory_pin", ["row-a"]),
        ("memory_search", []),
        ("memory_forget", ["row-b"]),
    ]
    assert (events[3].query, events[3].limit) == ("x", 3)
