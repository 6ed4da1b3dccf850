"""Tests of the LoCoMo reader: every turn is a memory, and evidence is repaired."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.golden.model import Judgement, Probe
from lab.recordings.locomo import pictures, split_evidence
from lab.recordings.model import Memory, Turn
from lab.recordings.readers import Library, read_library

Read = Callable[[Any], Library]
MAY_8 = 1683554160000  # 1:56 pm on 8 May, 2023, UTC


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that writes samples to a file and reads it."""

    def from_file(samples: Any) -> Library:
        path = tmp_path / "locomo.json"
        path.write_text(json.dumps(samples), encoding="utf-8")
        return read_library(path, "locomo")

    return from_file


def _said(identity: str, text: str, speaker: str = "Ada", **more: str) -> dict[str, str]:
    return {"speaker": speaker, "dia_id": identity, "text": text, **more}


def _asked(question: str, evidence: list[str], category: int = 4) -> dict[str, Any]:
    return {"question": question, "answer": "yes", "evidence": evidence, "category": category}


SAMPLE: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_2_date_time": "9:05 am on 1 June, 2023",
        "session_2": [_said("D2:1", "The kiln is fixed.", "Ben")],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            _said("D1:1", "I glazed a bowl."),
            _said("D1:2", "Look!", "Ben", img_url="there", blip_caption="a photo of a blue bowl", query="bowl"),
            _said("D1:3", "Nice.", blip_caption=""),
        ],
        "session_10_date_time": "12:10 am on 2 July, 2023",
        "session_10": [_said("D10:1", "Late, I know.")],
        "session_11_date_time": "8:00 am on 3 July, 2023",
        "session_12_date_time": "8:00 am on 4 July, 2023",
        "session_12": [],
    },
    "qa": [_asked("What was glazed?", ["D1:1"])],
}


def _sample(**changes: Any) -> dict[str, Any]:
    return deepcopy(SAMPLE) | changes


def _with_questions(*questions: dict[str, Any]) -> list[dict[str, Any]]:
    return [_sample(qa=list(questions))]


def test_locomo_keys_contain_session_and_dialogue_id(read: Read) -> None:
    (recording,) = read([SAMPLE]).recordings
    bowl = 'Ben said, "Look!" and shared a photo of a blue bowl'
    date = "1:56 pm on 8 May, 2023"
    key, dated = "conv-1/session_1/D1:2", f"{date}\n{date} {bowl}"
    assert recording.turns[1] == Turn(
        key, 1, "session_1", "user", "Look!", MAY_8 + 1, speaker="Ben", said=bowl, index_text=dated
    )
    media: dict[str, Any] = {"media_refs": ("there",), "media_kind": "image"}
    assert recording.memories[1] == Memory(f"{key}#0", bowl, dated, visible_from=2, created_at=MAY_8 + 1, **media)
    assert (recording.language, recording.has_labels) == ("en", False)


def test_locomo_index_text_has_date_and_any_caption(read: Read) -> None:
    (recording,) = read([SAMPLE]).recordings
    may, june, july = "1:56 pm on 8 May, 2023", "9:05 am on 1 June, 2023", "12:10 am on 2 July, 2023"
    assert [memory.index_text for memory in recording.memories] == [
        f'{may}\n{may} Ada said, "I glazed a bowl."',
        f'{may}\n{may} Ben said, "Look!" and shared a photo of a blue bowl',
        f'{may}\n{may} Ada said, "Nice."',
        f'{june}\n{june} Ben said, "The kiln is fixed."',
        f'{july}\n{july} Ada said, "Late, I know."',
    ]


def test_locomo_sessions_are_ordered_and_empty_ones_dropped(read: Read) -> None:
    (recording,) = read([SAMPLE]).recordings
    assert recording.sessions == ("session_1", "session_2", "session_10")
    assert [turn.seq for turn in recording.turns] == [0, 1, 2, 3, 4]
    assert [memory.visible_from for memory in recording.memories] == [1, 2, 3, 4, 5]


def test_read_dates_that_run_backwards_keep_times_increasing(read: Read) -> None:
    sample = _sample()
    sample["conversation"]["session_2_date_time"] = "9:05 am on 1 June, 2022"
    (recording,) = read([sample]).recordings
    july = 1688256600000
    assert [turn.time_ms for turn in recording.turns] == [MAY_8, MAY_8 + 1, MAY_8 + 2, MAY_8 + 3, july]
    assert [memory.created_at for memory in recording.memories] == [turn.time_ms for turn in recording.turns]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("D1:3", ["D1:3"]),
        ("D8:6; D9:17", ["D8:6", "D9:17"]),
        ("D8:6;D9:17", ["D8:6", "D9:17"]),
        ("D22:21, D22:23", ["D22:21", "D22:23"]),
        ("D9:1 D4:4 D4:6", ["D9:1", "D4:4", "D4:6"]),
        ("  D9:1\tD4:4 ", ["D9:1", "D4:4"]),
        ("D:11:26", ["D11:26"]),
        ("D30:05", ["D30:5"]),
        ("D05:10", ["D5:10"]),
        ("D10:19", ["D10:19"]),
        ("D", ["D"]),
        ("D1:3x", ["D1:3x"]),
        ("", []),
        (" ; ", []),
    ],
)
def test_split_evidence_repairs_ids(text: str, ids: list[str]) -> None:
    assert split_evidence(text) == ids


def test_locomo_repaired_question_is_kept_with_a_note(read: Read) -> None:
    library = read(_with_questions(_asked("Which?", ["D:1:01; D2:1", "D10:1 D1:1"], 1)))
    gold = ("conv-1/session_1/D1:1#0", "conv-1/session_2/D2:1#0", "conv-1/session_10/D10:1#0")
    relevant, slices = tuple(Judgement(key) for key in gold), {"category": "multi-hop"}
    probe = Probe("conv-1/q001", "conv-1", None, "Which?", relevant, slices=slices, answer="yes")
    notes = ("conv-1/q001: evidence ['D:1:01; D2:1', 'D10:1 D1:1'] read as ['D1:1', 'D2:1', 'D10:1', 'D1:1']",)
    assert library.golden.probes == (probe,)
    assert library.golden.notes == notes
    assert library.recordings[0].notes == notes


@pytest.mark.parametrize(
    ("evidence", "note"),
    [
        ([], "dropped, it names no evidence"),
        (["D1:99"], "dropped, evidence ['D1:99'] is no turn"),
        (["D1:1", "D"], "dropped, evidence ['D'] is no turn"),
        (["D11:1"], "dropped, evidence ['D11:1'] is no turn"),
    ],
    ids=["none", "beyond the session", "one of two is dead", "session never spoken"],
)
def test_locomo_unresolved_question_is_dropped_with_a_note(read: Read, evidence: list[str], note: str) -> None:
    library = read(_with_questions(_asked("Lost?", evidence), _asked("Kept?", ["D1:1"])))
    # Ids count all questions of the file, so dropping one does not rename others.
    assert [probe.id for probe in library.golden.probes] == ["conv-1/q002"]
    assert library.golden.notes == (f"conv-1/q001: {note}",)


def test_locomo_answers_are_texts_or_numbers_and_none_for_adversarial_questions(read: Read) -> None:
    answers: list[Any] = ["a bowl", 2022, None]
    questions = [_asked("Which?", ["D1:1"]) | {"answer": answer} for answer in answers]
    silent = [_asked("What else?", ["D1:1"], 5)]
    golden = read(_with_questions(*questions, *silent)).golden
    assert [probe.answer for probe in golden.probes] == ["a bowl", "2022", "", ""]
    with pytest.raises(UnusableInput, match=r"qa\[0\]: answer: expected a string or a number, found a list"):
        read(_with_questions(_asked("Which?", ["D1:1"]) | {"answer": ["a bowl"]}))


@pytest.mark.parametrize(
    ("category", "name"),
    [(1, "multi-hop"), (2, "temporal"), (3, "open-domain"), (4, "single-hop"), (5, "adversarial"), (6, "6")],
)
def test_locomo_category_becomes_a_slice(read: Read, category: int, name: str) -> None:
    library = read(_with_questions(_asked("Q?", ["D1:1"], category)))
    assert [probe.slices for probe in library.golden.probes] == [{"category": name}]


def _without(record: dict[str, Any], name: str) -> None:
    del record[name]


SPOILED: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("no sample_id", lambda one: _without(one, "sample_id"), "[0]: has no field 'sample_id'"),
    ("no qa", lambda one: _without(one, "qa"), "[0]: has no field 'qa'"),
    ("qa object", lambda one: one.update(qa={}), "[0]: field 'qa': expected a list, found an object"),
    (
        "conversation list",
        lambda one: one.update(conversation=[]),
        "[0]: field 'conversation': expected an object, found a list",
    ),
    (
        "no date",
        lambda one: _without(one["conversation"], "session_2_date_time"),
        "[0]: has no field 'session_2_date_time'",
    ),
    (
        "other date",
        lambda one: one["conversation"].update(session_2_date_time="2023-06-01"),
        "[0]: session_2: date '2023-06-01' is not like '1:56 pm on 8 May, 2023'",
    ),
    (
        "session as text",
        lambda one: one["conversation"].update(session_2="hello"),
        "[0]: session_2: expected a list, found a string",
    ),
    (
        "turn as text",
        lambda one: one["conversation"].update(session_2=["hello"]),
        "[0]: session_2[0]: expected an object, found a string",
    ),
    (
        "no dia_id",
        lambda one: _without(one["conversation"]["session_1"][2], "dia_id"),
        "[0]: session_1[2]: has no field 'dia_id'",
    ),
    (
        "evidence number",
        lambda one: one["qa"][0].update(evidence=[3]),
        "[0]: qa[0]: evidence: expected a string, found a number",
    ),
    (
        "evidence null",
        lambda one: one["qa"][0].update(evidence=None),
        "[0]: qa[0]: field 'evidence': expected a list, found null",
    ),
    (
        "category true",
        lambda one: one["qa"][0].update(category=True),
        "[0]: qa[0]: field 'category': expected a number, found true or false",
    ),
]


@pytest.mark.parametrize(("spoil", "problem"), [case[1:] for case in SPOILED], ids=[name for name, _, _ in SPOILED])
def test_read_wrong_shape_names_file_and_position(
    tmp_path: Path, read: Read, spoil: Callable[[dict[str, Any]], None], problem: str
) -> None:
    sample = _sample()
    spoil(sample)
    with pytest.raises(UnusableInput) as caught:
        read([sample])
    assert str(caught.value) == f"{tmp_path / 'locomo.json'}: {problem}"


def test_locomo_public_file_has_855_questions(locomo: Path) -> None:
    library = read_library(locomo, "locomo")
    kept = {recording.conversation: len(library.golden.of(recording.conversation)) for recording in library.recordings}
    assert kept == {"conv-26": 197, "conv-30": 105, "conv-41": 193, "conv-44": 158, "conv-50": 202}
    assert len(library.golden.probes) == 855
    assert Counter(probe.slices["category"] for probe in library.golden.probes) == {
        "single-hop": 349,
        "adversarial": 193,
        "temporal": 146,
        "multi-hop": 136,
        "open-domain": 31,
    }
    assert library.golden.notes == (
        "conv-26/q031: dropped, it names no evidence",
        "conv-26/q038: evidence ['D8:6; D9:17'] read as ['D8:6', 'D9:17']",
        "conv-26/q047: dropped, it names no evidence",
        "conv-50/q040: dropped, it names no evidence",
        "conv-50/q043: dropped, it names no evidence",
        "conv-50/q070: evidence ['D30:05'] read as ['D30:5']",
    )


def test_locomo_public_turns_are_memories_in_order(locomo: Path) -> None:
    raw = {sample["sample_id"]: sample["conversation"] for sample in json.loads(locomo.read_text(encoding="utf-8"))}
    library = read_library(locomo, "locomo")
    assert [recording.conversation for recording in library.recordings] == sorted(raw)
    for recording in library.recordings:
        spoken = raw[recording.conversation]
        expected = []
        for number in range(1, 100):
            date = spoken.get(f"session_{number}_date_time")
            for turn in spoken.get(f"session_{number}") or []:
                said = f'{turn["speaker"]} said, "{turn["text"]}"'
                if turn.get("blip_caption"):
                    said += f" and shared {turn['blip_caption']}"
                key = f"{recording.conversation}/session_{number}/{turn['dia_id']}"
                expected.append((key, f"{key}#0", said, f"{date}\n{date} {said}"))
        assert [
            (turn.key, memory.key, memory.text, memory.index_text)
            for turn, memory in zip(recording.turns, recording.memories, strict=True)
        ] == expected
        assert [memory.visible_from for memory in recording.memories] == list(range(1, len(expected) + 1))


def test_locomo_public_times_increase(locomo: Path) -> None:
    for recording in read_library(locomo, "locomo").recordings:
        born = [memory.created_at for memory in recording.memories]
        assert all(before < after for before, after in pairwise(born))
        assert born == [turn.time_ms for turn in recording.turns]


def test_locomo_public_gold_matches_evidence(locomo: Path) -> None:
    raw = {sample["sample_id"]: sample["qa"] for sample in json.loads(locomo.read_text(encoding="utf-8"))}
    for probe in read_library(locomo, "locomo").golden.probes:
        match = re.fullmatch(r"(conv-\d+)/q(\d{3})", probe.id)
        assert match is not None
        question = raw[match[1]][int(match[2]) - 1]
        assert (probe.turn, probe.query) == (None, question["question"])
        named = {judgement.memory.split("/")[2] for judgement in probe.relevant}
        if probe.id not in ("conv-26/q038", "conv-50/q070"):
            assert named == {f"{identity}#0" for identity in question["evidence"]}


@pytest.mark.parametrize(
    ("given", "refs"), [("a.jpg", ("a.jpg",)), (["a.jpg", 5], ("a.jpg",)), (5, ()), ({"x": 1}, ())]
)
def test_pictures_are_the_texts_among_what_is_given(given: object, refs: tuple[str, ...]) -> None:
    assert pictures({"img_url": given}).get("media_refs", ()) == refs
