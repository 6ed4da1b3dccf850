"""Tests of the BEAM reader: messages are memories, and the ability of a question determines its judgements."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.golden.model import Judgement, Probe
from lab.recordings.model import Memory, Turn
from lab.recordings.readers import read_library

Sample = Callable[[str, Path], Path]
MARCH_15 = 1710460800000  # 2024-03-15T00:00:00Z
KEYS = {number: f"100K-7/batch-{1 + number // 4}/{number}#0" for number in range(6)}


def _gold(*numbers: int) -> tuple[Judgement, ...]:
    return tuple(Judgement(KEYS[number]) for number in numbers)


def test_beam_message_is_turn_and_memory_without_marker(sample: Sample, tmp_path: Path) -> None:
    (recording,) = read_library(sample("beam", tmp_path), "beam").recordings
    text = "My kiln fires at 900 degrees."
    assert recording.turns[0] == Turn("100K-7/batch-1/0", 0, "batch-1", "user", text, MARCH_15, speaker="user")
    assert recording.memories[0] == Memory(KEYS[0], text, text, visible_from=1, created_at=MARCH_15)
    assert [turn.role for turn in recording.turns] == ["user", "assistant"] * 3
    assert [memory.key for memory in recording.memories] == list(KEYS.values())
    assert [turn.time_ms - MARCH_15 for turn in recording.turns] == [0, 1, 2, 3, 4, 5]
    assert recording.notes[:2] == (
        "100K-7: batch-2 has no date (None), so it continues from the previous session",
        "100K-7: markers of the form '->-> 1,22' removed: 2",
    )


def test_beam_ability_determines_judgements(sample: Sample, tmp_path: Path) -> None:
    golden = read_library(sample("beam", tmp_path), "beam").golden
    replaced = (Judgement(KEYS[0], reason="replaced since"),)
    assert [(probe.id, probe.relevant, probe.forbidden) for probe in golden.probes] == [
        ("100K-7/abstention-1", (), ()),
        ("100K-7/knowledge_update-1", _gold(4), replaced),
        # One message contains both the old and the new value, so it is relevant and nothing is forbidden.
        ("100K-7/knowledge_update-2", _gold(4), ()),
        ("100K-7/contradiction_resolution-1", _gold(4, 0), ()),
        ("100K-7/event_ordering-1", _gold(0, 2, 4), ()),
    ]
    assert golden.probes[0] == Probe(
        "100K-7/abstention-1",
        "100K-7",
        None,
        "Who built the kiln?",
        (),
        slices={"ability": "abstention", "difficulty": "easy"},
    )
    assert golden.notes[2:] == (
        "100K-7/knowledge_update-2: sources [77] are not messages of this chat",
        "100K-7/summarization-1: dropped, it names no source",
    )


def test_beam_answers_are_in_the_field_of_their_ability(sample: Sample, tmp_path: Path) -> None:
    folder = sample("beam", tmp_path)
    path = folder / "100K" / "7" / "probing_questions" / "probing_questions.json"
    questions = json.loads(path.read_text("utf-8"))
    questions["abstention"][0]["ideal_response"] = "Nothing is known."
    questions["abstention"][0]["answer"] = "Nothing."
    questions["knowledge_update"][0]["answer"] = "1100 degrees"
    questions["contradiction_resolution"][0]["ideal_answer"] = "You said both."
    path.write_text(json.dumps(questions), "utf-8")
    golden = read_library(folder, "beam").golden
    assert [probe.answer for probe in golden.probes] == ["", "1100 degrees", "", "You said both.", ""]


def test_beam_chat_at_any_depth_is_named_by_folder(sample: Sample, tmp_path: Path) -> None:
    folder = sample("beam", tmp_path / "chats")
    names = {"100K/7/chat.json", "100K/7/probing_questions/probing_questions.json"}
    for path in (tmp_path, folder, folder / "100K", folder / "100K" / "7", folder / "100K" / "7" / "chat.json"):
        library = read_library(path, "beam")
        assert [recording.conversation for recording in library.recordings] == ["100K-7"]
        assert set(library.names) == names
    (folder / "100K").rename(folder / "some")
    assert [recording.conversation for recording in read_library(tmp_path, "beam").recordings] == ["7"]


def test_beam_chat_without_questions_has_no_probes(sample: Sample, tmp_path: Path) -> None:
    folder = sample("beam", tmp_path)
    (folder / "100K" / "7" / "probing_questions" / "probing_questions.json").unlink()
    library = read_library(folder, "beam")
    assert library.golden.probes == ()
    assert library.golden.notes[-1] == "100K-7: no probing_questions.json beside the chat, so there are no probes"


def test_beam_duplicate_message_is_refused(sample: Sample, tmp_path: Path) -> None:
    path = sample("beam", tmp_path) / "100K" / "7" / "chat.json"
    chat = json.loads(path.read_text("utf-8"))
    chat[1]["turns"][0][1]["id"] = 0
    path.write_text(json.dumps(chat), "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "beam")
    assert str(caught.value) == f"{path}: [1].turns[0][1]: message 0 occurs twice"


def test_beam_source_that_is_not_a_number_is_refused(sample: Sample, tmp_path: Path) -> None:
    folder = sample("beam", tmp_path)
    path = folder / "100K" / "7" / "probing_questions" / "probing_questions.json"
    path.write_text(json.dumps({"event_ordering": [{"question": "Q", "source_chat_ids": [[1, "2"]]}]}), "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(folder, "beam")
    place = f"{path}: event_ordering[0]: source_chat_ids"
    assert str(caught.value) == f"{place}: expected a number, found a string"


def test_beam_public_chats_have_160_questions(shared: Callable[..., Path]) -> None:
    library = read_library(shared("data", "beam", "100K"), "beam")
    turns = {recording.conversation.removeprefix("100K-"): len(recording.turns) for recording in library.recordings}
    assert turns == {"1": 188, "4": 212, "6": 258, "8": 268, "11": 388, "13": 310, "16": 322, "18": 362}
    abilities = Counter(probe.slices["ability"] for probe in library.golden.probes)
    left_out = [note for note in library.golden.notes if "dropped" in note]
    assert len(library.golden.probes) + len(left_out) == 160
    assert {note.split("/")[1].split("-")[0] for note in left_out} == {"summarization"}
    assert abilities == dict.fromkeys(abilities, 16) | {"summarization": 14}
    assert len(abilities) == 10
    # Only abstention has no relevant memory; every source id names a message.
    assert {probe.slices["ability"] for probe in library.golden.probes if not probe.relevant} == {"abstention"}
    assert not any("are not messages of this chat" in note for note in library.golden.notes)
    assert not any("->->" in turn.text for recording in library.recordings for turn in recording.turns)
    assert sum(int(note.rsplit(" ", 1)[1]) for note in library.golden.notes if "markers" in note) == 853
    stale = [probe for probe in library.golden.probes if probe.forbidden]
    assert {one.slices["ability"] for one in stale} == {"knowledge_update"}
    assert (len(stale), sum(len(one.forbidden) for one in stale)) == (15, 17)
