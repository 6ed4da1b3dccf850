"""Tests of what memory tools did on abandoned branches: it happened, at its own time, and no message is replayed."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.times import epoch_ms
from lab.recordings.openclaw.entries import active_branch, parse_file
from lab.recordings.openclaw.transcript import session_of
from tests.recordings.openclaw.conftest import Log, Read


def spans(recording: Any) -> list[tuple[str, int, int | None]]:
    return [(memory.text, memory.visible_from, memory.visible_until) for memory in recording.memories]


def notes(recording: Any) -> list[str]:
    return [note.partition(": ")[2] for note in recording.notes]


def test_store_on_an_abandoned_branch_is_a_memory_at_its_time(read: Read, new_log: Any) -> None:
    log = new_log()
    root = log.says("user", "one")
    log.says("user", "left")
    log.stores("The ferry leaves at six", "row-1")
    log.says("user", "two", parent=root)
    recording = read(log)
    assert [turn.text for turn in recording.turns] == ["one", "two"]
    assert spans(recording) == [("The ferry leaves at six", 1, None)]
    assert recording.memories[0].created_at == recording.turns[0].time_ms + 15000
    assert notes(recording) == [
        "messages on abandoned branches, not replayed: 3",
        "effects of memory tools on abandoned branches, which happened all the same: 1",
    ]
    assert [event.tool for turn in recording.turns for event in turn.events if turn.seq == 0] == ["memory_store"]


def test_forget_on_an_abandoned_branch_ends_the_memory(read: Read, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.stores("The ferry leaves at six", "row-1")
    kept = log.says("user", "two")
    log.calls("memory_forget", "f", {"memoryId": "row-1"})
    log.answers("f", "memory_forget", {"action": "deleted", "id": "row-1"})
    log.says("user", "three", parent=kept)
    assert spans(read(log)) == [("The ferry leaves at six", 1, 2)]


def test_failed_store_and_recall_of_an_abandoned_branch_leave_nothing(read: Read, new_log: Any) -> None:
    log = new_log()
    root = log.says("user", "one")
    log.calls("memory_store", "s", {"text": "x"})
    log.answers("s", "memory_store", {"error": "readonly_mode"})
    log.calls("memory_recall", "r", {"query": "x"})
    log.answers("r", "memory_recall", {"memories": []})
    log.says("user", "two", parent=root)
    recording = read(log)
    assert (recording.memories, [turn.events for turn in recording.turns]) == ((), [(), ()])


def test_store_that_a_heartbeat_asked_for_is_the_hosts_on_every_branch(read: Read, new_log: Any) -> None:
    log = new_log()
    root = log.says("user", "one")
    beat = log.says("user", "[OpenClaw heartbeat poll] go", provenance={"kind": "internal_system"})
    log.stores("of the host, abandoned", "row-1")
    log.says("user", "left", parent=beat)
    log.stores("of a person, abandoned", "row-2")
    log.says("user", "two", parent=root)
    log.stores("of a person", "row-3")
    recording = read(log)
    events: list[Any] = [event for turn in recording.turns for event in turn.events]
    assert [(event.memories[0].id, event.for_host) for event in events] == [
        ("row-1", True),
        ("row-2", False),
        ("row-3", False),
    ]


# One step of a log: the parent's number, what happens, and the row that it is about.
STEPS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["turn", "store", "fail", "forget"]), st.integers(0, 9)))


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_effects_of_any_tree_are_those_of_all_confirmed_calls_in_order(steps: list[tuple[int, str, int]]) -> None:
    log = Log()
    ends = [log.says("user", "root")]
    times: dict[str, str] = {}
    expected: dict[str, list[int | None]] = {}
    rows: list[str] = []
    order: list[tuple[str, str]] = []
    for number, (parent, what, about) in enumerate(steps):
        above = ends[parent % len(ends)]
        if what == "turn":
            ends.append(log.says("user", f"turn {number}", parent=above))
            order.append(("turn", ends[-1]))
            continue
        row = f"row-{number}" if what != "forget" or not rows else rows[about % len(rows)]
        tool = "memory_forget" if what == "forget" else "memory_store"
        arguments = {"memoryId": row} if what == "forget" else {"text": f"text of {row}"}
        call = {"type": "toolCall", "id": "call_1", "name": tool, "arguments": arguments}
        log.says("assistant", [call], parent=above)
        details = {"action": "deleted" if what == "forget" else "created", "id": row}
        details = {"error": "readonly_mode"} if what == "fail" else details
        ends.append(log.answers("call_1", tool, details))
        times[row] = times.get(row, log.lines[-1]["timestamp"])
        if what == "store":
            rows.append(row)
        if what != "fail":
            order.append((what, row))
    transcript = parse_file(log.text().encode())
    entries = transcript.entries[1:]
    recording = session_of("log", transcript, active_branch(entries), (), is_file=True).recording
    on_branch = {turn.key.rpartition("/")[2] for turn in recording.turns}
    seq = 1
    for what, about_row in order:
        seq += what == "turn" and about_row in on_branch
        if what == "store":
            expected[about_row] = [seq, None]
        elif what == "forget" and expected.get(about_row, [0, 0])[1] is None:
            expected[about_row][1] = seq
    expected = {row: span for row, span in expected.items() if span[0] != span[1]}
    found = {memory.text.removeprefix("text of "): memory for memory in recording.memories}
    assert {row: [memory.visible_from, memory.visible_until] for row, memory in found.items()} == expected
    assert list(found) == [row for what, row in order if what == "store" and row in expected]
    own = [epoch_ms(times[row]) for row in found]
    assert [memory.created_at for memory in found.values()] == own
