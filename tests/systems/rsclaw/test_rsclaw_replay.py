"""rsclaw in the loop: what it captures, commands and tools, probes, and whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.recordings.events import RecordedMemory, ToolEvent
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.explain import CAUSES, explanation_of, missed
from lab.replay.loop import RecallCall, TurnWrites
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.contract import Detail
from lab.systems.registry import make_arm
from lab.systems.rsclaw.document import CORE, WORKING
from lab.systems.rsclaw.system import Rsclaw
from lab.systems.spec import ArmSpec
from tests.playing import arms_named, keys_of, played

CODE = {"lab": {"arm": "rsclaw", "profile": "code"}}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def arm(**lab: Any) -> Any:
    return make_arm(ArmSpec("rsclaw", "rsclaw", {"lab": lab}))


def said(number: int, text: str, role: str = "user", *, session: str = "s", **more: Any) -> Turn:
    return Turn(f"c/{session}/t{number}", number, session, role, text, number * 1000, **more)


def captured(*turns: Turn, scoping: str = "open", **lab: Any) -> tuple[list[TurnWrites], list[Any], Rsclaw]:
    """Replay turns with captures; return the writes, the answers, and the system as it ended."""
    wrote: list[TurnWrites] = []
    systems: list[RecallCall] = []
    recording = Recording("c", turns, ())
    answers = played(
        recording, [arm(**lab)], source="captured", scoping=scoping, on_writes=wrote.append, on_recall=systems.append
    )
    assert all(answer.failure is None for answer in answers)
    system = systems[-1].system
    assert isinstance(system, Rsclaw)
    return wrote, answers, system


def test_captures_preferences_entities_and_lessons() -> None:
    wrote, answers, system = captured(
        said(0, "Hello. I prefer green tea. My mail is ada@example.org."),
        said(1, "Noted.", "assistant"),
        said(2, "that's wrong: two tables, not one"),
        said(3, "what tea do I like?"),
    )
    created = [[(one.id, one.text) for one in each.writes.created] for each in wrote]
    assert created == [
        [("c/s/t0#0", "My mail is ada@example.org."), ("c/s/t0#1", "I prefer green tea.")],
        [("c/s/t2#0", "that's wrong: two tables, not one")],
        # The gate lets the question pass, and the rules drop it.
        [],
    ]
    kinds = {one.kind: (one.tier, one.importance, one.pinned) for one in system.documents.by_id.values()}
    assert kinds == {
        "entity": (CORE, 0.9, True),
        "preference": (WORKING, 0.72, False),
        "lesson": (CORE, 0.85, False),
    }
    assert {one.scope for one in system.documents.by_id.values()} == {"agent:main"}
    receipt = wrote[0].writes.receipt
    assert (receipt["extractor"], receipt["gate"], receipt["created"]) == (
        "rules",
        True,
        {"entity": 1, "preference": 1},
    )
    assert "tea" not in json.dumps(receipt)
    assert set(keys_of(answers[-1])) == {"c/s/t0#0", "c/s/t0#1", "c/s/t2#0"}
    assert answers[-1].recall.receipt["extractor"] == "rules"


def test_repeated_statement_refreshes_its_document() -> None:
    wrote, _, system = captured(
        said(0, "I prefer green tea."), said(1, "ok", "assistant"), said(2, "i prefer  GREEN tea.")
    )
    assert [len(each.writes.created) for each in wrote] == [1, 0]
    (updated,) = wrote[1].writes.updated
    assert updated == ("c/s/t0#0", "I prefer green tea.", ("c/s/t0", "c/s/t2"))
    assert wrote[1].writes.receipt["refreshed"] == 1
    (document,) = system.documents.by_id.values()
    assert (document.created_at, document.accessed_at) == (0, 2)


def test_similar_statement_refreshes_one_of_its_kind_only() -> None:
    long = "green tea over black coffee in the morning, at noon, in the afternoon and late at night with some honey"
    wrote, _, system = captured(
        said(0, f"I prefer {long}."),
        said(1, f"I prefer the {long}."),
        said(2, f"/remember I prefer a {long}."),
    )
    assert [(len(each.writes.created), len(each.writes.updated)) for each in wrote] == [(1, 0), (0, 1), (1, 0)]
    assert [one.kind for one in system.documents.by_id.values()] == ["preference", "remember"]


def test_chat_commands_store_search_and_summarise() -> None:
    wrote, answers, system = captured(
        said(0, "We open at nine. Then coffee."),
        said(1, "Fine. Anything else?", "assistant"),
        said(2, "/remember the safe is behind the map"),
        said(3, "/recall safe"),
        said(4, "/compact"),
        said(5, "/compact"),
        said(6, "/remember"),
    )
    stored = [(one.text, one.sources) for each in wrote for one in each.writes.created]
    assert stored == [
        ("the safe is behind the map", ("c/s/t2",)),
        ("We open at nine.\nFine.", ("c/s/t4",)),
    ]
    remembered, summary = system.documents.by_id.values()
    assert (remembered.kind, remembered.importance, remembered.tier) == ("remember", 0.8, WORKING)
    assert (summary.kind, summary.importance) == ("summary", 0.55)
    # Touched by /recall, and by the last turn, which is no command.
    assert remembered.access_count == 2
    assert summary.access_count == 1
    commands = [answer.recall for answer in answers if answer.recall.status == "skipped"]
    assert [recall.receipt["skipped"] for recall in commands] == ["command"] * 4


def test_recorded_summary_replaces_the_rule(tmp_path: Path) -> None:
    path = tmp_path / "found.jsonl"
    candidates = [{"kind": "summary", "text": "They met.", "confidence": 0.9}]
    path.write_text(json.dumps({"turn": "c/s/t1", "candidates": candidates}) + "\n", "utf-8")
    _, _, system = captured(said(0, "Hello there"), said(1, "/compact"), extractions=str(path))
    assert [(one.kind, one.text) for one in system.documents.by_id.values()] == [("summary", "They met.")]


def event(tool: str, *memories: RecordedMemory, **more: Any) -> ToolEvent:
    return ToolEvent(tool, 0, memories, **more)


def test_tool_calls_add_search_pin_and_delete() -> None:
    add = event("memory_add", RecordedMemory("the safe is green", "live-1", "procedure", "must_remember"))
    noise = event("memory_add", RecordedMemory("a boat", "live-2"), failed=False)
    wrote, _, system = captured(
        said(0, "open", events=(add, noise)),
        said(1, "next", events=(event("memory_search", query="safe", limit=1), event("memory_get"))),
        said(2, "pin it", events=(event("memory_pin", RecordedMemory("", "live-1")),)),
        said(3, "drop", events=(event("memory_delete", RecordedMemory("", "live-2")),)),
        said(4, "and that", events=(event("memory_delete", RecordedMemory("", "unknown")),)),
    )
    assert [(len(each.writes.created), each.writes.deleted) for each in wrote] == [(2, ()), (0, ("c/s/t0#1",))]
    (kept,) = system.documents.by_id.values()
    assert (kept.kind, kept.importance, kept.pinned, kept.tier) == ("procedure", 0.8, True, CORE)
    assert kept.access_count == 5


def test_tool_calls_write_into_an_explicit_scope_which_recall_does_not_search() -> None:
    add = event("memory_add", RecordedMemory("the safe is green", scope="global"))
    turns = (
        said(0, "open", events=(add,)),
        said(1, "safe"),
        said(2, "x", events=(event("memory_search", query="safe", scope="global"),)),
    )
    _, answers, system = captured(*turns)
    (document,) = system.documents.by_id.values()
    assert document.scope == "global"
    assert [answer.recall.items for answer in answers] == [()] * 3
    assert document.access_count == 1


def test_tool_calls_can_be_ignored_and_notes_are_never_injected() -> None:
    turns = (said(0, "open", events=(event("memory_add", RecordedMemory("the safe is green")),)), said(1, "safe"))
    assert not captured(*turns, tool_calls=False)[0]
    _, answers, system = captured(*turns, profile="code")
    assert [one.kind for one in system.documents.by_id.values()] == ["note"]
    assert (answers[-1].recall.items, answers[-1].recall.context) == ((), "")


def test_given_memories_are_pinned_by_tools_and_not_stored_again() -> None:
    memory = Memory("c/s/t0#0", "the safe is green", "the safe is green", 1, 0)
    add = event("memory_store", RecordedMemory("the safe is green", "live-1"))
    pin = event("memory_pin", RecordedMemory("", "live-1"))
    turns = (said(0, "/remember x", events=(add,)), said(1, "safe", events=(pin,)), said(2, "safe"))
    answers = played(Recording("c", turns, (memory,)), [arm()])
    assert [answer.failure for answer in answers] == [None] * 3
    assert [[item.tier for item in answer.recall.items] for answer in answers] == [[], [WORKING], [CORE]]


@pytest.mark.parametrize(("scoping", "touched"), [("given", [1, 0]), ("open", [1, 1])])
def test_searches_of_tools_stay_in_an_enforced_scope(scoping: str, touched: list[int]) -> None:
    memories = tuple(
        Memory(f"c/s/t0#{number}", f"the safe is {number}", f"the safe is {number}", 0, 0, scope=scope)
        for number, scope in enumerate(("shop", "farm"))
    )
    turn = said(0, "/compact", scope="shop", events=(event("memory_search", query="safe"),))
    calls: list[RecallCall] = []
    answers = played(Recording("c", (turn,), memories), [arm()], scoping=scoping, on_recall=calls.append)
    assert [answer.recall.status for answer in answers] == ["skipped"]
    system: Any = calls[0].system
    assert [document.access_count for document in system.documents.by_id.values()] == touched


def test_extraction_that_lasts_is_stored_when_it_has_ended() -> None:
    wrote, _, system = captured(
        said(0, "I like tea. My mail is a@b.org."), said(1, "ok", "assistant"), said(2, "hm"), extraction_ms=1500
    )
    assert [(each.turn.seq, [one.id for one in each.writes.created]) for each in wrote] == [
        (0, ["c/s/t0#0"]),
        (2, ["c/s/t0#1"]),
    ]
    assert system.documents.by_key["c/s/t0#1"].created_at == 2


def test_channels_have_scopes_of_their_own() -> None:
    turns = (
        said(0, "I like tea", session="agent:main:cron:daily"),
        said(1, "I like coffee", session="agent:main"),
        said(2, "what do I like?", session="agent:main"),
    )
    _, answers, system = captured(*turns)
    assert [one.scope for one in system.documents.by_id.values()] == ["agent:main:cron", "agent:main"]
    assert [answer.recall.status for answer in answers] == ["skipped", "ok", "ok"]
    assert [item.text for item in answers[-1].recall.items] == ["I like coffee"]


def test_recorded_scopes_replace_those_of_the_agent() -> None:
    turns = (said(0, "I like tea", scope="shop"), said(1, "I like boats", scope="farm"), said(2, "like?", scope="shop"))
    _, answers, system = captured(*turns, scoping="given")
    assert [one.scope for one in system.documents.by_id.values()] == ["shop", "farm"]
    assert [item.text for item in answers[-1].recall.items] == ["I like tea"]


def test_explain_gives_tier_cause_and_reason() -> None:
    texts = [f"pears ripen in week {number}" for number in range(30)]
    memories = tuple(
        Memory(f"c/s/t0#{number}", text, text, 0, 0, "note" if number == 3 else "fact")
        for number, text in enumerate(texts)
    )
    calls: list[RecallCall] = []
    (chosen,) = arms_named("rsclaw")
    (answer,) = played(Recording("c", (said(0, "pears"),), memories), [chosen], on_recall=calls.append)
    system: Any = calls[0].system
    every = [memory.key for memory in memories]
    explained = system.explain(calls[0].ask, None, answer.recall, every, Detail())
    assert set(explained.causes) == set(every) - set(keys_of(answer)[: answer.recall.injected])
    assert set(explained.causes.values()) <= set(CAUSES)
    assert {"slot", "depth"} <= set(explained.causes.values())
    assert {standing.tier for standing in explained.standings.values()} == {WORKING, "peripheral"}
    twin = Memory("c/s/t0#99", answer.recall.items[0].text, answer.recall.items[0].text, 0, 0)
    system.remember([twin])
    assert system.explain(calls[0].ask, None, answer.recall, [twin.key], Detail()).causes == {twin.key: "merged"}
    assert explanation_of(memories, answer, calls[0], chosen.describe(), Detail()).explained.about == "profile seed"


def run(operators: Path, out: Path, tmp_path: Path, **more: Any) -> Any:
    config = tmp_path / "code.json"
    config.write_text(json.dumps(CODE), "utf-8")
    asked = {"embedder": "hashing", "limit": 2, "scope": "recorded"} | more
    return run_replay(ReplayRequest(str(operators), "lab", ("rsclaw", f"code={config}"), **asked), out)


@pytest.mark.parametrize("source", ["given", "captured"])
def test_replay_of_shipped_conversations_fails_nowhere(operators: Path, tmp_path: Path, source: str) -> None:
    outcome = run(operators, tmp_path / "run", tmp_path, source=source)
    assert outcome.failures == ()
    rows = [row for name in outcome.run.conversations for row in read_table(outcome.run.receipts(name)).to_pylist()]
    assert {row["status"] for row in rows} == {"ok"}
    injected = sum(row["injected"] for row in rows)
    assert injected > (500 if source == "given" else 50)
    if source == "given":
        found, counts = missed(outcome.run)
        assert {row.cause for row in found} <= set(CAUSES) - {"unknown"}
        assert all(count.relevant for count in counts.values())
