"""Tests of LoCoMo's observations: visible after their session, and relevant if they cite the evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
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
    """Return a function that reads one conversation with the given questions and observations."""

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


def test_observation_exists_after_its_session(read: Read) -> None:
    (recording,) = read(_asked("D1:1")).recordings
    assert [(memory.key, memory.text, memory.visible_from) for memory in recording.memories] == [
        ("c/session_1#0", "Ada glazed a bowl.", 4),
        ("c/session_1#1", "Ada likes blue.", 4),
        ("c/session_1#2", "Ben fixed the kiln.", 4),
        ("c/session_2#0", "Ada sold it.", 6),
    ]
    assert recording.memories[0].created_at == MAY_8 + 3 == recording.turns[3].time_ms
    assert all(memory.index_text == memory.text for memory in recording.memories)


def test_observations_that_cite_the_evidence_are_relevant(read: Read) -> None:
    one, two = read(_asked("D1:1"), _asked("D1:2; D2:1")).golden.probes
    assert one.relevant == (Judgement("c/session_1#0"), Judgement("c/session_1#1"))
    assert two.relevant == tuple(map(Judgement, ("c/session_1#1", "c/session_1#2", "c/session_2#0")))


def test_observations_question_without_citation_is_dropped(read: Read) -> None:
    library = read(_asked("D1:4"), _asked("D1:1", "D2:2"), _asked("D1:1"), _asked())
    assert [probe.id for probe in library.golden.probes] == ["c/q002", "c/q003"]
    assert library.golden.notes == library.recordings[0].notes
    assert library.golden.notes == (
        "c/q001: dropped, no observation cites ['D1:4']",
        "c/q004: dropped, it names no evidence",
        (
            "c: 1 of 4 questions dropped because no observation cites their evidence; "
            "1 of the 2 kept are judged by the cited part of their evidence"
        ),
    )


def test_observation_citing_unknown_turn_is_noted(read: Read) -> None:
    observed = {"session_1_observation": {"Ada": [["Ada glazed a bowl.", "D1:1, D1:9"]]}}
    assert read(_asked("D1:1"), observed=observed).golden.notes == ("c/session_1#0: cites 'D1:9', which is not a turn",)


@pytest.mark.parametrize(
    ("observed", "what"),
    [
        (None, "has no field 'observation'"),
        ({"session_1_observation": []}, "session_1_observation: expected an object, found a list"),
        (
            {"session_1_observation": {"Ada": [["x"]]}},
            r"Ada\[0\]: expected a pair of a statement and the ids that it cites",
        ),
        ({"session_1_observation": {"Ada": [["x", 7]]}}, r"Ada\[0\]\[1\]: expected a string, found a number"),
    ],
)
def test_observations_of_wrong_shape_are_refused(read: Read, observed: Any, what: str) -> None:
    with pytest.raises(UnusableInput, match=what):
        read(_asked("D1:1"), observed=observed)


def test_locomo_default_memories_need_no_observations(read: Read) -> None:
    assert len(read(_asked("D1:1"), observed=None, memories="turns").recordings[0].memories) == 6


def test_observations_public_set_has_expected_counts(locomo: Path) -> None:
    library = read_library(locomo, "locomo", memories="observations")
    assert sum(len(recording.memories) for recording in library.recordings) == 1209
    assert len(library.golden.probes) == 725
    known = {memory.key for recording in library.recordings for memory in recording.memories}
    assert all(judgement.memory in known for probe in library.golden.probes for judgement in probe.relevant)
    assert not [note for note in library.golden.notes if "is no turn" in note]
