"""Tests of the TREC iKAT reader: statements exist before the first turn, and every utterance is judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.golden.model import Judgement, Probe
from lab.recordings.model import Memory, Turn
from lab.recordings.readers import read_library

Sample = Callable[[str, Path], Path]


def test_ikat_statements_exist_before_the_first_turn(sample: Sample, tmp_path: Path) -> None:
    recording, other = read_library(sample("ikat", tmp_path), "ikat").recordings
    assert recording.memories == (
        Memory("2024_test-3/ptkb#1", "I own a kiln.", "I own a kiln.", visible_from=0, created_at=0),
        Memory("2024_test-3/ptkb#2", "I live in Tainan.", "I live in Tainan.", visible_from=0, created_at=1),
    )
    assert recording.turns[:2] == (
        Turn("2024_test-3/talk/1", 0, "talk", "user", "Where can I buy clay?", 2, speaker="user"),
        Turn("2024_test-3/talk/1-answer", 1, "talk", "assistant", "I see.", 3, speaker="assistant"),
    )
    # Statements in a list are numbered from 1, and a blank answer is not a turn.
    assert [memory.key for memory in other.memories] == ["2025_test-1-1/ptkb#1", "2025_test-1-1/ptkb#2"]
    assert len(other.turns) == 1


def test_ikat_duplicate_statements_resolve_to_the_first(tmp_path: Path) -> None:
    said = {"turn_id": 1, "utterance": "Hi", "response": "", "relevant_ptkbs": ["i own  a kiln."]}
    topic = {"number": "1", "ptkb": ["I own a kiln.", "I own a kiln."], "responses": [said]}
    (tmp_path / "2025_topics.json").write_text(json.dumps([topic]), "utf-8")
    (probe,) = read_library(tmp_path, "ikat").golden.probes
    assert [judgement.memory for judgement in probe.relevant] == ["2025-1/ptkb#1"]


def test_ikat_every_utterance_is_a_probe(sample: Sample, tmp_path: Path) -> None:
    golden = read_library(sample("ikat", tmp_path), "ikat").golden

    def probe(turn: str, *keys: str) -> Probe:
        name = turn.split("/")[0]
        slices = {"year": name[:9]}
        return Probe(turn, name, turn, None, tuple(Judgement(key) for key in keys), slices=slices)

    assert golden.probes == (
        probe("2024_test-3/talk/1", "2024_test-3/ptkb#2"),
        probe("2024_test-3/talk/2"),
        probe("2024_test-3/talk/3", "2024_test-3/ptkb#1"),
        # By text, ignoring white space and case.
        probe("2025_test-1-1/talk/1", "2025_test-1-1/ptkb#2"),
    )
    assert golden.notes == (
        "2024_test-3/talk/3: ptkb_provenance[2] names no statement",
        "2024_test-3/talk/3: a statement is named twice; it counts once",
    )


@pytest.mark.parametrize(
    ("topic", "problem"),
    [
        ({"ptkb": {}, "turns": []}, "has no field 'number'"),
        ({"number": [1], "ptkb": {}, "turns": []}, "field 'number': expected a number, found a list"),
        ({"number": 1, "ptkb": "x", "turns": []}, "ptkb: expected an object, found a string"),
        ({"number": 1, "ptkb": {"1": 2}, "turns": []}, "ptkb[1]: expected a string, found a number"),
        ({"number": 1, "ptkb": {}}, "has no field 'turns'"),
        ({"number": 1, "ptkb": {}, "turns": [{"turn_id": 1}]}, "turns[0]: has no field 'utterance'"),
    ],
)
def test_read_wrong_shape_names_file_and_position(tmp_path: Path, topic: dict[str, object], problem: str) -> None:
    path = tmp_path / "2023_test_topics.json"
    path.write_text(json.dumps([topic]), "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "ikat")
    assert str(caught.value) == f"{path}: [0]: {problem}"


def test_ikat_public_topics_have_313_utterances(shared: Callable[..., Path]) -> None:
    library = read_library(shared("data", "ikat"), "ikat")
    for year, topics, turns, with_gold, gold in (("2023_train", 11, 95, 42, 64), ("2024_test", 17, 218, 95, 175)):
        probes = [probe for probe in library.golden.probes if probe.conversation.startswith(year)]
        assert sum(recording.conversation.startswith(year) for recording in library.recordings) == topics
        assert len(probes) == turns
        assert sum(bool(probe.relevant) for probe in probes) == with_gold
        assert sum(len(probe.relevant) for probe in probes) == gold
    assert library.golden.notes == ()
    assert {len(recording.sessions) for recording in library.recordings} == {1}
    assert all(memory.visible_from == 0 for recording in library.recordings for memory in recording.memories)
