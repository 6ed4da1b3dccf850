"""Tests of the RealMem reader: gold comes from the next answer, and memories appear after their session."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Turn
from lab.recordings.readers import Library, read_library

Read = Callable[..., Library]
DEC_23 = 1766448000000  # 2025-12-23T00:00:00Z
DAY = 86_400_000


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that writes sessions as one persona to a file and reads it."""

    def from_file(*sessions: Any) -> Library:
        path = tmp_path / "ada.json"
        value = {"_metadata": {"person_name": "Ada"}, "dialogues": list(sessions)}
        path.write_text(json.dumps(value), encoding="utf-8")
        return read_library(path, "realmem")

    return from_file


def _session(
    uuid: str, *turns: Any, memories: tuple[Any, ...] = (), project: str = "Fitness_4", date: str = "2025-12-23"
) -> dict[str, Any]:
    return {
        "session_identifier": f"{project}:S1_01",
        "session_uuid": uuid,
        "current_time": f"{date} (Tuesday)",
        "dialogue_turns": list(turns),
        "extracted_memory": [{"index": "not-unique", "content": memory, "session_uuid": uuid} for memory in memories],
    }


def _user(content: str, **more: Any) -> dict[str, Any]:
    return {"speaker": "User", "content": content, "is_query": False, "query_id": None, **more}


def _query(content: str, **more: Any) -> dict[str, Any]:
    return _user(content, is_query=True, **more)


def _answer(content: str, *used: tuple[str, Any]) -> dict[str, Any]:
    gold = {"memory_used": [{"session_uuid": uuid, "content": text} for uuid, text in used]} if used else {}
    return {"speaker": "Assistant", "content": content, "is_query": False, **gold}


FIRST = _session("u1", _user("I am 75 kg."), _answer("Noted."), memories=("Weighs 75 kg", "Runs at dawn"))


def test_realmem_turns_have_scope_role_and_time(read: Read) -> None:
    (recording,) = read(FIRST).recordings
    assert recording.turns == (
        Turn("Ada/u1/0", 0, "u1", "user", "I am 75 kg.", DEC_23, scope="fitness_4", speaker="User"),
        Turn("Ada/u1/1", 1, "u1", "assistant", "Noted.", DEC_23 + 1, scope="fitness_4", speaker="Assistant"),
    )


def test_realmem_memories_are_visible_after_their_session(read: Read) -> None:
    second = _session(
        "u2", _user("Hi"), _answer("Hi"), _user("Bye"), memories=("Says bye",), project="Travel_1", date="2025-12-24"
    )
    (recording,) = read(FIRST, second, _session("u3", _user("Again"))).recordings
    assert recording.memories == (
        Memory("Ada/u1#0", "Weighs 75 kg", "Weighs 75 kg", 2, DEC_23 + 1, scope="fitness_4"),
        Memory("Ada/u1#1", "Runs at dawn", "Runs at dawn", 2, DEC_23 + 2, scope="fitness_4"),
        Memory("Ada/u2#0", "Says bye", "Says bye", 5, DEC_23 + DAY + 2, scope="travel_1"),
    )
    assert [turn.key for turn in recording.turns[2:6:3]] == ["Ada/u2/0", "Ada/u3/0"]


def test_realmem_days_that_run_backwards_keep_times_increasing(read: Read) -> None:
    early = _session("u2", _user("Hi"), _answer("Hi"), memories=("Greets",), date="2025-12-01")
    (recording,) = read(FIRST, early).recordings
    assert [turn.time_ms - DEC_23 for turn in recording.turns] == [0, 1, 2, 3]
    assert [memory.created_at - DEC_23 for memory in recording.memories] == [1, 2, 3]


def test_realmem_gold_comes_from_the_next_assistant_turn(read: Read) -> None:
    second = _session(
        "u2",
        _answer("Shall we?", ("u1", "Weighs 75 kg")),
        _query("When do I run?", topic="Fitness", category_name="Implicit Preference", session_type="single_session"),
        _answer("At dawn.", ("u1", "Runs at dawn")),
        _answer("And again.", ("u1", "Weighs 75 kg")),
    )
    slices = {"category_name": "Implicit Preference", "session_type": "single_session", "topic": "Fitness"}
    probe = Probe("Ada/u2/1", "Ada", "Ada/u2/1", None, (Judgement("Ada/u1#1"),), slices=slices)
    assert read(FIRST, second).golden == GoldenSet((probe,))


@pytest.mark.parametrize(
    "asked",
    [_user("When?"), {"speaker": "User", "content": "When?"}, _user("When?", is_query=None)],
    ids=["false", "absent", "null"],
)
def test_realmem_turn_without_query_mark_is_not_a_probe(read: Read, asked: dict[str, Any]) -> None:
    library = read(FIRST, _session("u2", asked, _answer("At dawn.", ("u1", "Runs at dawn"))))
    assert library.golden == GoldenSet()
    assert [turn.text for turn in library.recordings[0].turns[2:]] == ["When?", "At dawn."]


def test_realmem_gold_resolves_in_the_named_session_once(read: Read) -> None:
    again = _session("u2", _user("Yes"), memories=("Weighs 75 kg", "Runs at dawn", "Runs at dawn"))
    asking = _session(
        "u3", _query("Well?"), _answer("So.", ("u2", "Runs at dawn"), ("u1", "Weighs 75 kg"), ("u2", "Runs at dawn"))
    )
    (probe,) = read(FIRST, again, asking).golden.probes
    assert probe.relevant == (Judgement("Ada/u2#1"), Judgement("Ada/u1#0"))


def test_realmem_object_content_becomes_json_and_resolves(read: Read) -> None:
    first = _session("u1", _user("Plan"), memories=({"trip": "騎車", "days": 26, "stops": [{"b": 1, "a": None}]},))
    used = {"stops": [{"a": None, "b": 1}], "days": 26, "trip": "騎車"}
    library = read(first, _session("u2", _query("How long?"), _answer("26 days", ("u1", used))))
    text = '{"days": 26, "stops": [{"a": null, "b": 1}], "trip": "騎車"}'
    (memory,) = library.recordings[0].memories
    assert (memory.text, memory.index_text) == (text, text)
    assert [probe.relevant for probe in library.golden.probes] == [(Judgement("Ada/u1#0"),)]


@pytest.mark.parametrize(
    ("turns", "missing"),
    [
        ((_query("Q"),), "0 of 0"),
        ((_query("Q"), _answer("A")), "0 of 0"),
        ((_query("Q"), _answer("A", ("u1", "Weighs 80 kg"))), "1 of 1"),
        ((_query("Q"), _answer("A", ("u9", "Weighs 75 kg"))), "1 of 1"),
        ((_query("Q"), _answer("A", ("u1", "Weighs 75 kg"), ("u1", "weighs 75 kg"))), "1 of 2"),
    ],
    ids=["no answer", "an answer without gold", "another text", "another session", "one of two"],
)
def test_realmem_query_with_unresolved_gold_is_dropped(
    read: Read, turns: tuple[dict[str, Any], ...], missing: str
) -> None:
    library = read(FIRST, _session("u2", *turns))
    note = f"Ada/u2/0: dropped, {missing} references of its gold do not resolve"
    assert library.golden == GoldenSet((), (note,))
    assert library.recordings[0].notes == (note,)


SPOILED: list[tuple[str, dict[str, Any], str]] = [
    ("no uuid", {key: FIRST[key] for key in FIRST if key != "session_uuid"}, "has no field 'session_uuid'"),
    ("no turns", FIRST | {"dialogue_turns": None}, "field 'dialogue_turns': expected a list, found null"),
    ("turn as text", _session("u1", "hello"), "dialogue_turns[0]: expected an object, found a string"),
    ("no speaker", _session("u1", {"content": "hello"}), "dialogue_turns[0]: has no field 'speaker'"),
    (
        "content number",
        _session("u1", _user("x") | {"content": 3}),
        "dialogue_turns[0]: field 'content': expected a string",
    ),
    ("date", FIRST | {"current_time": "23.12.2025"}, "current_time '23.12.2025' does not begin with YYYY-MM-DD"),
    ("memory without content", FIRST | {"extracted_memory": [{}]}, "extracted_memory[0]: has no field 'content'"),
    (
        "gold no list",
        _session("u1", _query("Q"), _answer("A") | {"memory_used": None}),
        "dialogue_turns[0]: the answer: field 'memory_used': expected a list, found null",
    ),
    (
        "answer as text",
        _session("u1", _query("Q"), "A"),
        "dialogue_turns[0]: the answer: expected an object, found a string",
    ),
]


@pytest.mark.parametrize(("session", "problem"), [case[1:] for case in SPOILED], ids=[name for name, _, _ in SPOILED])
def test_read_wrong_shape_names_file_and_position(
    tmp_path: Path, read: Read, session: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UnusableInput) as caught:
        read(_session("u0", _user("Hi")), session)
    told = str(caught.value)
    assert told.startswith(f"{tmp_path / 'ada.json'}: dialogues[1]")
    assert problem in told


@pytest.mark.parametrize("reference", ["u1", None, ["u1", "Weighs 75 kg"]], ids=["text", "null", "list"])
def test_realmem_reference_that_is_not_an_object_is_refused(read: Read, reference: Any) -> None:
    with pytest.raises(UnusableInput, match=r"Ada/u2/0|dialogues\[1\]"):
        read(FIRST, _session("u2", _query("Q"), _answer("A") | {"memory_used": [reference]}))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "expected an object, found a list"),
        ({}, "has no field '_metadata'"),
        ({"_metadata": {}}, "has no field 'person_name'"),
        ({"_metadata": {"person_name": "Ada"}}, "has no field 'dialogues'"),
    ],
)
def test_realmem_file_without_persona_is_refused(tmp_path: Path, value: Any, problem: str) -> None:
    path = tmp_path / "ada.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "realmem")
    assert str(caught.value) == f"{path}: {problem}"


@pytest.fixture(scope="module")
def personas(realmem: Path) -> Library:
    """Return the four public personas."""
    return read_library(realmem, "realmem")


@pytest.fixture(scope="module")
def raw(realmem: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the sessions in the files of the public personas."""
    values = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(realmem.glob("*.json"))]
    return {value["_metadata"]["person_name"]: value["dialogues"] for value in values}


def _as_text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, sort_keys=True)


def test_realmem_four_public_personas_have_604_probes(personas: Library) -> None:
    counts = {
        recording.conversation: (
            len(recording.sessions),
            len(recording.memories),
            len(personas.golden.of(recording.conversation)),
        )
        for recording in personas.recordings
    }
    assert counts == {
        "Ethan_Hunt": (207, 585, 162),
        "Kenta_Tanaka": (191, 424, 153),
        "Lin_Wanyu": (207, 443, 126),
        "Sophie_Dubois": (135, 595, 163),
    }
    assert len(personas.golden.probes) == 604
    assert personas.golden.notes == ()


def test_realmem_public_memories_appear_after_their_session(
    personas: Library, raw: dict[str, list[dict[str, Any]]]
) -> None:
    for recording in personas.recordings:
        expected, spoken = [], 0
        for session in raw[recording.conversation]:
            spoken += len(session["dialogue_turns"])
            for ordinal, memory in enumerate(session["extracted_memory"]):
                key = f"{recording.conversation}/{session['session_uuid']}#{ordinal}"
                expected.append((key, _as_text(memory["content"]), spoken))
        assert [(memory.key, memory.text, memory.visible_from) for memory in recording.memories] == expected
        assert len(recording.turns) == spoken


def test_realmem_public_gold_is_what_the_next_turn_used(
    personas: Library, raw: dict[str, list[dict[str, Any]]]
) -> None:
    expected = {}
    for name, sessions in raw.items():
        for session in sessions:
            for index, (turn, answer) in enumerate(pairwise(session["dialogue_turns"])):
                if turn.get("is_query"):
                    used = {(one["session_uuid"], _as_text(one["content"])) for one in answer["memory_used"]}
                    expected[f"{name}/{session['session_uuid']}/{index}"] = used
    texts = {memory.key: memory.text for recording in personas.recordings for memory in recording.memories}
    found = {
        probe.turn: {
            (judgement.memory.split("/")[1].split("#")[0], texts[judgement.memory]) for judgement in probe.relevant
        }
        for probe in personas.golden.probes
    }
    assert found == expected


def test_realmem_public_times_increase(personas: Library) -> None:
    for recording in personas.recordings:
        for times in ([turn.time_ms for turn in recording.turns], [memory.created_at for memory in recording.memories]):
            assert all(before < after for before, after in pairwise(times))


def test_realmem_public_object_memory_becomes_json(personas: Library) -> None:
    odd = [memory for recording in personas.recordings for memory in recording.memories if memory.text.startswith("{")]
    assert [memory.key for memory in odd] == ["Lin_Wanyu/543fda9f#2"]
    assert json.loads(odd[0].text)["trip_name"] == "Chengdu to Lhasa Bike Trip"
