"""Calls of every tool and their results, each once, at the turn before them."""

from __future__ import annotations

from typing import Any

from lab.recordings.events import ToolUse
from lab.recordings.openclaw.tools import KEPT
from tests.recordings.openclaw.conftest import Read


def uses(read: Read, log: Any) -> list[ToolUse]:
    return [use for turn in read(log).turns for use in turn.tool_uses]


def test_call_and_result_belong_to_the_turn_before_them(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("assistant", "let me see")
    log.calls("exec", "a", {"command": "ls"})
    log.answers("a", "exec", isError=True)
    log.says("user", "two")
    turns = read(log).turns
    assert [len(turn.tool_uses) for turn in turns] == [0, 2, 0]
    call, result = turns[1].tool_uses
    assert (call.tool, call.text, call.is_result) == ("exec", '{"command": "ls"}', False)
    assert (result.tool, result.text, result.is_result, result.is_error) == ("exec", "done", True, True)
    assert turns[1].time_ms <= call.time_ms <= result.time_ms <= turns[2].time_ms
    assert call.key != result.key


def test_call_through_tool_search_counts_once(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.stores("the gate sticks", "row-1", wrapped=True)
    assert [(use.tool, use.is_result) for use in uses(read, log)] == [("memory_store", False), ("memory_store", True)]


def test_uses_before_the_first_turn_belong_to_it(read: Read, new_log: Any) -> None:
    log = new_log()
    log.calls("exec", "a", {})
    log.says("user", "one")
    assert [use.tool for use in uses(read, log)] == ["exec"]


def test_long_text_is_cut_after_a_word(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.calls("write", "a", {"text": "word " * KEPT})
    (use,) = uses(read, log)
    assert len(use.text) <= KEPT
    assert use.text.endswith(" word")


def test_odd_calls_are_kept_with_what_they_have(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("assistant", [{"type": "toolCall", "id": 5, "name": None, "arguments": "text"}, {"type": "toolCall"}, 3])
    log.says("toolResult", None, toolCallId=None)
    assert [(use.tool, use.text) for use in uses(read, log)] == [("tool", '"text"'), ("tool", "null"), ("tool", "")]
