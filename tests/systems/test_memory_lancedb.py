"""``memory_lancedb``: the nearest three memories, what it captures, and its configuration."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.explain import CAUSES
from lab.replay.loop import RecallCall, TurnWrites
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.baselines.memory_lancedb import LanceDbArm
from lab.systems.contract import Ask, Detail, Recall
from lab.systems.kit import Kit
from lab.systems.openclaw.memory import row_of
from lab.systems.registry import info_of, make_arm, parse_arms
from lab.systems.spec import ArmSpec
from tests.playing import OPERATORS, keys_of, played, tools_for

OLD = {"lab": {"arm": "memory_lancedb", "version": "2026.3.13"}}
PEARS = tuple(
    Memory(f"c/s/t0#{number}", text, text, 0, number, category, scope)
    for number, (text, category, scope) in enumerate(
        (
            ("pears ripen in October", "todo", "farm"),
            ("pears <green> & hard", "fact", "shop"),
            ("pears", "preference", "global"),
            ("apples ripen in September", "fact", "global"),
            ("[Telegram Ana +5m] pears pears", "fact", "global"),
        )
    )
)


def arm(config: dict[str, Any] | None = None, **changes: Any) -> LanceDbArm:
    made = make_arm(ArmSpec("memory_lancedb", "memory_lancedb", config, **changes))
    assert isinstance(made, LanceDbArm)
    return made


def opened(config: dict[str, Any] | None = None, *, captures: bool = False, replies: bool = True) -> Any:
    tools = tools_for()
    tools.replies = replies
    return arm(config).open(Kit(tools, "memory_lancedb", captures=captures))


def recalled(text: str, config: dict[str, Any] | None = None, memories: Sequence[Memory] = PEARS, **ask: Any) -> Recall:
    system = opened(config)
    system.remember(memories)
    recall: Recall = system.recall(Ask("c/s/t9", text, 10, **ask))
    return recall


def test_recall_is_the_nearest_three_of_ten_whatever_the_scope() -> None:
    recall = recalled("pears", scope="shop", scoping="given")
    assert [item.id for item in recall.items][:1] == ["c/s/t0#2"]
    assert (recall.injected, len(recall.items), recall.status) == (3, 4, "ok")
    assert {item.signals.scope for item in recall.items} == {"farm", "shop", "global"}
    # The text that the host wrote is nearer, and is left out.
    assert "c/s/t0#4" not in [item.id for item in recall.items]
    assert recall.items[0].score == pytest.approx(1.0)
    assert recall.context.split("\n")[2] == "1. [preference] pears"
    assert "[other] pears ripen" in recall.context
    assert "[fact] pears &lt;green&gt; &amp; hard" in recall.context
    assert recall.receipt == {"plugin": "memory-lancedb", "version": "2026.9.6", "hits": 5, "clean": 4, "injected": 3}


def test_old_version_asks_for_three_and_uses_what_the_host_wrote() -> None:
    recall = recalled("pears pears", OLD)
    assert len(recall.items) == recall.injected == 3
    assert "c/s/t0#4" in [item.id for item in recall.items]


def test_ranking_equals_the_vector_lane_on_shipped_conversations(tmp_path: Path) -> None:
    request = ReplayRequest(str(OPERATORS), "lab", ("memory_lancedb", "vector"), embedder="hashing", limit=4)
    for store in ("exact", "lancedb"):
        run = run_replay(replace(request, store=store, scope="none"), tmp_path / store).run
        rows = [row for name in run.conversations for row in read_table(run.receipts(name)).to_pylist()]
        ours, theirs = ([row for row in rows if row["arm"] == name] for name in ("memory_lancedb", "vector"))
        pairs = [
            (own["item_key"], other["item_key"][: len(own["item_key"])])
            for own, other in zip(ours, theirs, strict=True)
            if own["status"] == "ok"
        ]
        assert len(pairs) > 100
        # Prompts are embedded with white space folded, which changes a few of them.
        assert sum(own == other for own, other in pairs) > 0.95 * len(pairs)
        assert {row["injected"] for row in ours} <= {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("text", "config", "faults", "status", "reason"),
    [
        ("pear", None, (), "skipped", "prompt_too_short"),
        ("  \n \t  ", None, (), "skipped", "prompt_too_short"),
        ("pears?", {"autoRecall": False}, (), "skipped", "auto_recall_off"),
        ("pears?", None, ("embedder_down",), "degraded", "provider_unavailable"),
        ("pears?", None, ("input_too_long",), "degraded", "embedding_input_too_long"),
        ("pears?", None, ("vector_error",), "degraded", "search_failed"),
    ],
)
def test_nothing_is_injected_with_a_reason(
    text: str, config: dict[str, Any] | None, faults: tuple[str, ...], status: str, reason: str
) -> None:
    recall = recalled(text, config, faults=frozenset(faults))
    assert (recall.items, recall.injected, recall.context) == ((), 0, "")
    assert (recall.status, recall.receipt["reason"]) == (status, reason)


def test_nothing_stored_is_skipped_and_a_failing_text_lane_is_not_noticed() -> None:
    assert recalled("pears?", memories=()).receipt["reason"] == "no_hit"
    assert recalled("pears?", faults=frozenset({"fts_error"})).status == "ok"


def test_forgotten_memory_is_not_recalled_again() -> None:
    system = opened()
    system.remember(PEARS)
    system.forget(["c/s/t0#2"])
    assert "c/s/t0#2" not in [item.id for item in system.recall(Ask("c/s/t9", "pears", 10)).items]


def test_probe_leaves_no_trace() -> None:
    system = opened()
    system.remember(PEARS)
    first = system.recall(Ask("c/s/t9", "ripe pears", 10, probe=True))
    again = system.recall(Ask("c/s/t9", "ripe pears", 10))
    assert (first.items, first.context, first.receipt) == (again.items, again.context, again.receipt)


def observed(system: Any, *said: tuple[str, str, str]) -> list[list[str]]:
    """The texts stored at each turn of ``(session, role, text)``."""
    return [
        [stored.text for stored in system.observe(Turn(f"c/{session}/{seq}", seq, session, role, text, seq)).created]
        for seq, (session, role, text) in enumerate(said)
    ]


def test_capture_at_the_first_reply_keeps_what_is_new() -> None:
    wrote: list[TurnWrites] = []
    said = ("I prefer rye bread", "noted", "and butter", "I prefer rye bread", "yes", "it is raining", "so it is")
    roles = ("user", "assistant", "assistant", "user", "assistant", "user", "assistant")
    turns = tuple(
        Turn(f"c/s/{seq}", seq, "s", role, text, 60_000 * seq, "team")
        for seq, (role, text) in enumerate(zip(roles, said, strict=True))
    )
    answers = played(Recording("c", turns, ()), [arm()], source="captured", on_writes=wrote.append)
    created = [(each.turn.key, each.writes.created) for each in wrote]
    assert [(turn, [tuple(stored) for stored in stored_list]) for turn, stored_list in created] == [
        ("c/s/1", [("c/s/1#0", "I prefer rye bread", ("c/s/0",))])
    ]
    assert [answer.failure for answer in answers] == [None] * len(answers)
    assert [keys_of(answer) for answer in answers][-1] == ["c/s/1#0"]
    assert "1. [preference] I prefer rye bread" in answers[-1].recall.context


def test_capture_takes_three_new_texts_a_turn() -> None:
    said = [("s", "user", f"remember the {word} of the house") for word in ("gate", "roof", "lamp", "well", "barn")]
    assert observed(opened(captures=True), *said, ("s", "assistant", "ok"))[-1] == [text for _, _, text in said[:3]]


def test_old_version_captures_three_texts_a_session() -> None:
    words = ("gate", "roof", "lamp", "well", "barn")
    said = [
        entry
        for session in ("s1", "s2")
        for word in words
        for entry in ((session, "user", f"always check the {word}s of {session}"), (session, "assistant", "ok"))
    ]
    stored = [text for texts in observed(opened(OLD, captures=True), *said) for text in texts]
    assert stored == [f"always check the {word}s of {session}" for session in ("s1", "s2") for word in words[:3]]
    now = [text for texts in observed(opened(captures=True), *said) for text in texts]
    assert len(now) > 6


def test_capture_between_people_ends_a_turn_at_every_message() -> None:
    said = (("s", "user", "I always take the stairs"), ("s", "user", "what a nice day"))
    assert observed(opened(captures=True, replies=False), *said) == [["I always take the stairs"], []]


def test_capture_off_and_given_memories_write_nothing() -> None:
    said = (("s", "user", "I always take the stairs"), ("s", "assistant", "ok"))
    assert observed(opened(), *said) == [[], []]
    assert not info_of(ArmSpec("x", "memory_lancedb"), replace(arm({"autoCapture": False}), name="x")).writes


def test_explain_names_a_known_cause_for_every_missed_memory() -> None:
    calls: list[RecallCall] = []
    turn = Turn("c/s/t1", 1, "s", "user", "pears pears?", 5)
    far = tuple(Memory(f"c/s/far#{n}", f"pears pears {n}", f"pears pears {n}", 0, 10 + n) for n in range(12))
    recording = Recording("c", (Turn("c/s/t0", 0, "s", "user", "x", 0), turn), (*PEARS, *far))
    answers = played(recording, [arm()], on_recall=calls.append)
    system: Any = calls[-1].system
    keys = [memory.key for memory in recording.memories]
    explained = system.explain(calls[-1].ask, None, answers[-1].recall, keys, Detail())
    injected = set(keys_of(answers[-1])[:3])
    assert set(explained.causes) == set(keys) - injected
    assert set(explained.causes.values()) == {"slot", "depth"}
    assert set(explained.causes.values()) <= set(CAUSES)
    assert {standing.rank for standing in explained.standings.values()} == set(range(1, len(keys) + 1))
    assert max(map(len, explained.reasons.values())) < 80


def test_configuration_survives_a_round_trip() -> None:
    given = {
        "lab": {"version": "2026.9.6", "maxItems": 5},
        "autoCapture": False,
        "recallMaxChars": 400,
        "captureMaxChars": 100,
        "customTriggers": ["merk dir"],
        "embedding": {"provider": "ollama", "model": "mxbai-embed-large", "dimensions": 1024, "apiKey": "${KEY}"},
    }
    for config in (given, OLD, None):
        one = arm(config)
        info = info_of(ArmSpec("memory_lancedb", "memory_lancedb"), one)
        described = json.loads(json.dumps(info.config))
        assert "apiKey" not in str(described)
        assert replace(arm(described), embedder=one.embedder) == one
        assert pickle.loads(pickle.dumps(one)) == one
        assert info.at_most == info.cutoff == one.settings.max_items
    assert arm(given).embedder == "mxbai-embed-large"
    assert arm(given).widened(100).settings.max_items == 10


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([1], "my.json: expected an object, found a list"),
        ({"autoRecal": True}, "my.json: unknown key 'autoRecal'; known: lab, embedding, dreaming, dbPath"),
        ({"autoRecall": {"maxItems": 6}}, "my.json: autoRecall: expected true or false, found {'maxItems': 6}"),
        ({"recallMaxChars": 99}, "my.json: recallMaxChars: expected a whole number from 100 to 10000, found 99"),
        ({"captureMaxChars": 1e9}, "my.json: captureMaxChars: expected a whole number from 100 to 10000"),
        ({"customTriggers": "x"}, "my.json: customTriggers: expected at most 50 texts of 1 to 100 characters"),
        ({"customTriggers": [""]}, "my.json: customTriggers: expected at most 50 texts"),
        ({"lab": {"version": "1"}}, "my.json: lab: version: expected one of 2026.9.6, 2026.3.13, found '1'"),
        ({"lab": {"maxItems": 11}}, "my.json: lab: maxItems: expected a whole number from 1 to 10, found 11"),
        ({"lab": {"top": 1}}, "my.json: lab: unknown key 'top'; known: arm, version, maxItems"),
        ({**OLD, "recallMaxChars": 200}, "my.json: unknown key 'recallMaxChars'; known: lab, embedding, dbPath"),
        ({"embedding": {"models": "x"}}, "my.json: embedding: unknown key 'models'; known: provider, model"),
        ({"embedding": "x"}, "my.json: embedding: expected an object, found a string"),
    ],
)
def test_refused_configuration_names_file_and_key(config: Any, message: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        arm(config, where="my.json")
    assert str(caught.value).startswith(message)


def test_host_file_holds_the_configurations_of_several_plugins(tmp_path: Path) -> None:
    entries = {
        "openclaw-mem-engine": {"config": {"autoRecall": {"maxItems": 3}}},
        "memory-lancedb": {"enabled": True, "config": {"autoCapture": False, "recallMaxChars": 250}},
    }
    for present in ({**entries}, {"memory-lancedb": entries["memory-lancedb"]}):
        path = tmp_path / "openclaw.json"
        path.write_text(json.dumps({"plugins": {"entries": present}}), encoding="utf-8")
        (spec,) = parse_arms([f"memory_lancedb={path}"])
        made: Any = make_arm(spec)
        assert (made.settings.auto_capture, made.settings.recall_max_chars) == (False, 250)
        assert made.embedder == "text-embedding-3-small"


def test_rows_of_memories_are_those_of_every_arm() -> None:
    system = opened()
    system.remember(PEARS)
    assert [row.key for row in system._table.store.rows] == [row_of(memory).key for memory in PEARS]
