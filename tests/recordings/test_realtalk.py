"""Tests of the REALTALK reader: every turn is a memory, evidence is repaired, and unknown ids are counted."""

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
from lab.recordings.realtalk import split_evidence

Sample = Callable[[str, Path], Path]
NAME = "Chat_1_Ada_Ben"
DEC_29 = 1703887200000  # 29.12.2023, 22:00:00, UTC


def _keys(*identities: str) -> tuple[Judgement, ...]:
    return tuple(Judgement(f"{NAME}/session_{identity[1]}/{identity}#0") for identity in identities)


def test_realtalk_every_turn_is_a_memory(sample: Sample, tmp_path: Path) -> None:
    library = read_library(sample("realtalk", tmp_path), "realtalk")
    (recording,) = library.recordings
    date = "29.12.2023, 22:01:00"
    said, dated = "Ben: Look! a blue bowl", f"{date}\n{date} Ben: Look! a blue bowl"
    key, at = f"{NAME}/session_1/D1:2", DEC_29 + 120_000
    assert recording.turns[1] == Turn(
        key, 1, "session_1", "user", "Look!", at, speaker="Ben", said=said, index_text=dated
    )
    assert recording.memories[1] == Memory(f"{key}#0", said, dated, visible_from=2, created_at=at, media_kind="image")
    # The second session has an earlier time; the times of the turns still increase.
    assert [turn.time_ms - DEC_29 for turn in recording.turns] == [60_000, 120_000, 180_000, 180_001, 300_000]
    assert recording.sessions == ("session_1", "session_2")
    # A session without a date uses the date of its first turn.
    assert [memory.index_text.split("\n")[0] for memory in recording.memories[3:]] == ["29.12.2023, 22:00:00"] * 2


def test_realtalk_question_with_any_resolved_evidence_is_kept(sample: Sample, tmp_path: Path) -> None:
    golden = read_library(sample("realtalk", tmp_path), "realtalk").golden
    found = [(probe.id[-4:], probe.relevant, probe.slices) for probe in golden.probes]
    assert found == [
        ("q001", _keys("D1:1"), {"category": "multi-hop", "evidence": "verbatim"}),
        # The evidence is a range, and D1:3 within it is missing.
        ("q002", _keys("D1:1", "D1:2", "D1:4", "D2:1"), {"category": "commonsense", "evidence": "partial"}),
        ("q003", _keys("D1:2", "D2:2"), {"category": "temporal", "evidence": "repaired"}),
        ("q004", _keys("D1:4"), {"category": "multi-hop", "evidence": "partial"}),
    ]
    assert golden.probes[0] == Probe(
        f"{NAME}/q001", NAME, None, "What was glazed?", _keys("D1:1"), slices=golden.probes[0].slices, answer="yes"
    )
    assert golden.notes == (
        f"{NAME}/q002: evidence read: 'D1:1-D1:4' as ['D1:1', 'D1:2', 'D1:3', 'D1:4'], 'D2:1.' as ['D2:1']",
        f"{NAME}/q002: judged by the rest, evidence ['D1:3'] names no turn",
        f"{NAME}/q003: evidence read: 'D1:02:D2:2' as ['D1:2', 'D2:2']",
        f"{NAME}/q004: judged by the rest, evidence ['D1:3'] names no turn",
        f"{NAME}/q005: dropped, it names no evidence",
        f"{NAME}/q006: dropped, evidence ['D1:3', 'D9:1', 'D17;39', ''] names no turn",
        f"{NAME}: evidence that names no turn: 3 holes, 1 past the end, 2 unreadable",
    )


@pytest.mark.parametrize(
    ("text", "ids", "unread"),
    [
        ("D1:3", ["D1:3"], ""),
        ("D12:3-D12:5", ["D12:3", "D12:4", "D12:5"], ""),
        ("D12:3 - D12:5", ["D12:3", "D12:4", "D12:5"], ""),
        ("D12:3-D13:5", ["D12:3", "D13:5"], "-"),
        ("D11:17; D16:1", ["D11:17", "D16:1"], ""),
        ("D13:4. D14:4", ["D13:4", "D14:4"], ""),
        ("D13:45:D20:19", ["D13:45", "D20:19"], ""),
        ("D5:3.", ["D5:3"], ""),
        ("D05:03", ["D5:3"], ""),
        *((dead, [], dead.replace(";", " ").replace(":", " ").strip()) for dead in ("", "D17;39", "D:56", "D58")),
        ("D 2:18", [], "D 2 18"),
        ("D1:2-D1:99999999", ["D1:2"], "-D1 99999999"),
        (f"D1:{'9' * 5000}", [], f"D1 {'9' * 5000}"),
        ("23:29", [], "23 29"),
    ],
)
def test_realtalk_split_evidence_repairs_ids(text: str, ids: list[str], unread: str) -> None:
    assert split_evidence(text) == (ids, unread)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"session_1": [{"clean_text": "x"}]}, ": session_1[0]: has no field 'dia_id'"),
        ({"session_1": "x"}, ": session_1: expected a list, found a string"),
        ({"qa": [{"evidence": "D1:1"}]}, ": qa[0]: field 'evidence': expected a list, found a string"),
        ({"session_01": [], "session_2": "x"}, ": session_2: expected a list, found a string"),
        ({"qa": None}, ": field 'qa': expected a list, found null"),
        (
            {"session_2": [{"clean_text": "x", "speaker": "A", "dia_id": "D2:1", "date_time": "2023-12-29"}]},
            ": session_2[0]: date_time '2023-12-29' is not like '29.12.2023, 22:42:04'",
        ),
    ],
)
def test_read_wrong_shape_names_file_and_position(
    sample: Sample, tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    path = sample("realtalk", tmp_path) / f"{NAME}.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "realtalk")
    assert str(caught.value) == f"{path}{problem}"


def test_realtalk_public_chats_have_284_questions(shared: Callable[..., Path]) -> None:
    library = read_library(shared("data", "realtalk"), "realtalk")
    counts = [
        (len(recording.sessions), len(recording.turns), len(library.golden.of(recording.conversation)))
        for recording in library.recordings
    ]
    assert counts == [(18, 476, 70), (22, 453, 73), (21, 422, 71), (20, 410, 70)]
    assert len(library.golden.probes) == 284
    slices = Counter(probe.slices["category"] for probe in library.golden.probes)
    assert slices == {"multi-hop": 120, "temporal": 121, "commonsense": 43}
    kinds = Counter(probe.slices["evidence"] for probe in library.golden.probes)
    assert kinds == {"verbatim": 264, "repaired": 1, "partial": 19}
    # Counted by hand in the raw files: 35 strings name no turn verbatim, and one of them joins two ids with ". ".
    assert library.golden.notes[-1].endswith("1 holes")
    assert not any(memory.text == "" for recording in library.recordings for memory in recording.memories)
