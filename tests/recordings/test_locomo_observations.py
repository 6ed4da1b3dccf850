"""LoCoMo's observations as memories: born when their session has ended, gold where they cite the evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.errors import UnusableInput
from lab.golden.model import Judgement
from lab.recordings.readers import Library, read_library

MAY_8 = 1683554160000  # 1:56 pm on 8 May, 2023, UTC
Read = Callable[..., Library]


def _said(identity: str) -> dict[str, str]:
    return {"speaker": "Ada", "dia_id": identity, "text": f"words of {identity}"}


def _asked(*evidence: str) -> dict[str, Any]:
    return {"question": "What?", "answer": "yes", "evidence": list(evidence), "category": 4}


OBSERVED = {
    "session_1_observation": {
        "Ada": [["Ada glazed a bowl.", "D1:1"], ["Ada likes blue.", "D1:1, D1:2"]],
        "Ben": [["Ben fixed the kiln.", ["D1:3", "D1:2"]]],
    },
    "session_2_observation": {"Ada": [["Ada sold it.", "D2:1"]], "Ben": []},
    "session_9_observation": {"Ada": [["Never spoken.", "D9:1"]]},
}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads one conversation with the given questions and observations."""

    def from_file(*questions: dict[str, Any], observed: Any = OBSERVED, memories: str = "observations") -> Library:
        conversation = {
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [_said("D1:1"), _said("D1:2"), _said("D1:3"), _said("D1:4")],
            "session_2_date_time": "9:05 am on 1 June, 2023",
            "session_2": [_said("D2:1"), _said("D2:2")],
        }
        sample = {"sample_id": "c", "conversation": conversation, "qa": list(questions)}
        path = tmp_path / "locomo.json"
        path.write_text(json.dumps([sample | ({"observation": observed} if observed is not None else {})]))
        return read_library(path, "locomo", memories=memories)

    return from_file


def test_an_observation_is_born_when_its_session_has_ended(read: Read) -> None:
    (recording,) = read(_asked("D1:1")).recordings
    assert [(one.key, one.text, one.visible_from) for one in recording.memories] == [
        ("c/session_1#0", "Ada glazed a bowl.", 4),
        ("c/session_1#1", "Ada likes blue.", 4),
        ("c/session_1#2", "Ben fixed the kiln.", 4),
        ("c/session_2#0", "Ada sold it.", 6),
    ]
    assert recording.memories[0].created_at == MAY_8 + 3 == recording.turns[3].time_ms
    assert all(one.index_text == one.text for one in recording.memories)


def test_gold_are_the_observations_that_cite_the_evidence(read: Read) -> None:
    one, two = read(_asked("D1:1"), _asked("D1:2; D2:1")).golden.probes
    assert one.relevant == (Judgement("c/session_1#0"), Judgement("c/session_1#1"))
    assert two.relevant == tuple(map(Judgement, ("c/session_1#1", "c/session_1#2", "c/session_2#0")))


def test_a_question_that_no_observation_answers_is_left_out_and_counted(read: Read) -> None:
    library = read(_asked("D1:4"), _asked("D1:1", "D2:2"), _asked("D1:1"), _asked())
    assert [probe.id for probe in library.golden.probes] == ["c/q002", "c/q003"]
    assert library.golden.notes == library.recordings[0].notes
    assert library.golden.notes == (
        "c/q001: left out, no observation cites ['D1:4']",
        "c/q004: left out, it names no evidence",
        (
            "c: 1 of 4 questions are left out because no observation cites their evidence; "
            "1 of the 2 kept are judged by the part that is cited"
        ),
    )


def test_a_cited_turn_that_is_none_is_noted(read: Read) -> None:
    observed = {"session_1_observation": {"Ada": [["Ada glazed a bowl.", "D1:1, D1:9"]]}}
    assert read(_asked("D1:1"), observed=observed).golden.notes == ("c/session_1#0: cites 'D1:9', which is no turn",)


@pytest.mark.parametrize(
    ("observed", "what"),
    [
        (None, "has no field 'observation'"),
        ({"session_1_observation": []}, "session_1_observation: expected an object, found a list"),
        ({"session_1_observation": {"Ada": [["x"]]}}, r"Ada\[0\]: expected a statement and the ids that it cites"),
        ({"session_1_observation": {"Ada": [["x", 7]]}}, r"Ada\[0\]\[1\]: expected a string, found a number"),
    ],
)
def test_observations_of_another_form_are_refused(read: Read, observed: Any, what: str) -> None:
    with pytest.raises(UnusableInput, match=what):
        read(_asked("D1:1"), observed=observed)


def test_turns_stay_the_default_and_need_no_observations(read: Read) -> None:
    assert len(read(_asked("D1:1"), observed=None, memories="turns").recordings[0].memories) == 6


def test_the_real_set(locomo: Path) -> None:
    library = read_library(locomo, "locomo", memories="observations")
    assert sum(len(recording.memories) for recording in library.recordings) == 1209
    assert len(library.golden.probes) == 725
    known = {memory.key for recording in library.recordings for memory in recording.memories}
    assert all(one.memory in known for probe in library.golden.probes for one in probe.relevant)
    assert not [note for note in library.golden.notes if "is no turn" in note]
