"""The rule extractor and recorded extractions of rsclaw."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.recordings.model import Turn
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.extract import (
    Candidate,
    entities,
    failure,
    kept,
    lessons,
    main_pass,
    passes_gate,
    read_extractions,
)
from lab.systems.rsclaw.observe import Extractor


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("My name is Ada.", True),
        ("please remember that the gate closes at six", True),
        ("I'm from Tainan", True),
        ("call me after six", True),
        ("我叫东升", True),
        ("帮我记一下,周五交稿", True),
        ("the siam cat is asleep", False),
        ("open the report", False),
        ("我喜", False),
        ("i am", True),
        ("我是王", False),
        ("i am " + "x" * 3996, False),
    ],
)
def test_gate_by_marker_and_length(text: str, passes: bool) -> None:
    assert passes_gate(text, fold=False) is passes


def test_gate_reads_traditional_characters_only_when_folded() -> None:
    assert not passes_gate("我最近很喜歡喝茶", fold=False)
    assert passes_gate("我最近很喜歡喝茶", fold=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My name is Ada.", ("entity", 0.9 - 0.1)),
        ("My wife plays the viola.", ("relationship", 0.8)),
        ("Always run the linter first.", ("procedure", 0.8)),
        ("I prefer green tea.", ("preference", 0.8)),
        ("I use the old repo for that.", ("project_state", 0.8)),
        ("I live by the canal.", ("fact", 0.65)),
        ("I'm tired.", ("fact", 0.6)),
        ("Remember that the key is under the mat.", ("fact", 0.9)),
        ("我喜欢狗", ("preference", 0.8)),
    ],
)
def test_main_pass_kind_and_confidence(text: str, expected: tuple[str, float]) -> None:
    (found,) = main_pass(text, fold=True)
    assert (found.kind, pytest.approx(found.confidence)) == expected
    # The text stays as it was written, in its own language.
    assert found.text == text


def test_main_pass_drops_questions_and_suppositions() -> None:
    text = "Do I like tea? If I live in Rome, fine. I like tea."
    assert [candidate.text for candidate in kept(main_pass(text, fold=True), 6)] == ["I like tea."]


def test_kept_applies_confidence_then_limit() -> None:
    weak = [Candidate("fact", f"weak {number}", 0.54) for number in range(9)]
    sure = [Candidate("fact", f"sure {number}", 0.55) for number in range(9)]
    found = kept([*weak, *sure, Candidate("fact", "SURE  0", 0.9)], 6)
    assert [candidate.text for candidate in found] == [f"sure {number}" for number in range(6)]


@pytest.mark.parametrize(
    "text",
    [
        "write to ada@example.org, please",
        "ring +44 20 7946 0018 now",
        "手机 13800138000",
        "打 0912-345-678",
        "身份证 11010519491231002X",
        "身分證 A123456789",
    ],
)
def test_entities_finds_identifiers(text: str) -> None:
    assert [candidate.text for candidate in entities(text)] == [text]


@pytest.mark.parametrize(
    "text", ["version 1.2.3", "commit 138001380001234", "a @ b", "invoice 2024-11-05", "A12345678"]
)
def test_entities_leaves_other_numbers(text: str) -> None:
    assert entities(text) == []


def test_lessons_come_from_corrections() -> None:
    found = lessons("不对。回答以后不要用表格。Next time, ask first. Was that wrong?", fold=True)
    assert [candidate.text for candidate in found] == ["回答以后不要用表格。", "Next time, ask first."]


def test_failure_at_the_third_equal_result_only() -> None:
    assert failure(["Error: no", "Error: no"]) is None
    found = failure(["ok", "Error: no", "error:  NO", "Error: no"])
    assert found is not None
    assert found.kind == "failure"
    assert failure(["Error: no"] * 4) is None
    assert failure(["", "", ""]) is None


def turn(number: int, text: str, role: str = "user", time_ms: int = 0) -> Turn:
    return Turn(f"c/s/t{number}", number, "s", role, text, time_ms or number * 1000)


def test_extractor_drops_the_fifth_extraction_in_flight() -> None:
    extractor = Extractor(Settings(extraction_ms=10_000), {})
    receipts = [
        extractor.turn(turn(number, f"I like tea number {number}. My mail is a{number}@b.org"))[1]
        for number in range(5)
    ]
    assert [receipt.get("dropped") for receipt in receipts] == [None] * 4 + ["in_flight"]
    # Identifiers are captured whatever the cap.
    assert [receipt["entities"] for receipt in receipts] == [1] * 5
    assert extractor.ended(9_999) == []
    assert [waiting.turn.seq for waiting in extractor.ended(11_000)] == [0, 1]
    assert "dropped" not in extractor.turn(turn(12, "I like tea"))[1]


def test_extractor_counts_only_extractions_that_still_run() -> None:
    extractor = Extractor(Settings(extraction_ms=10_000), {})
    for number in range(4):
        extractor.turn(turn(number, f"I like tea number {number}"))
    # Nothing has asked for those that have ended, and all four have.
    assert "dropped" not in extractor.turn(turn(13, "I like coffee"))[1]


@pytest.mark.parametrize(
    ("text", "is_lesson"),
    [
        # The document's own example, its translation, and variants.
        ("回答不要用表格", True),
        ("回覆請不要用表格。", True),
        ("Please don't use tables in your answers.", True),
        ("Never reply with bullet points.", True),
        # What the user wants, not how the agent answers.
        ("我不要糖，谢谢", False),
        ("Do not touch the tablesaw.", False),
    ],
)
def test_form_of_the_answers_is_a_lesson_of_the_document_alone(text: str, is_lesson: bool) -> None:
    assert bool(lessons(text, fold=True, style=True)) is is_lesson
    assert lessons(text, fold=True) == []


def test_extractor_needs_a_reply_before_a_lesson() -> None:
    extractor = Extractor(Settings(), {})
    assert extractor.turn(turn(0, "that's wrong, use metres")) == ([], {})
    extractor.turn(turn(1, "noted", "assistant"))
    assert extractor.turn(turn(2, "that's wrong, use metres"))[1]["kept"] == 1
    (waiting,) = extractor.ended(2000)
    assert [(item.kind, item.defaults) for item in waiting.proposed] == [("lesson", (0.85, "core", False))]
    extractor.new_session()
    assert extractor.turn(turn(3, "that's wrong, use feet")) == ([], {})


def test_extractor_uses_recorded_candidates_behind_the_gate() -> None:
    recorded = {
        "c/s/t0": (Candidate("fact", "never asked", 0.9),),
        "c/s/t1": (
            *(Candidate("fact", f"fact {number}", 0.9) for number in range(8)),
            *(Candidate("lesson", f"lesson {number}", 0.9, 0.4) for number in range(3)),
            Candidate("preference", "unsure", 0.5),
        ),
    }
    extractor = Extractor(Settings(extractor="recorded"), recorded)
    assert extractor.turn(turn(0, "open the report")) == ([], {})
    receipt = extractor.turn(turn(1, "I like tea"))[1]
    assert receipt == {"gate": True, "candidates": 12, "kept": 8, "low_confidence": 1, "recorded": True}
    (waiting,) = extractor.ended(1000)
    assert [item.kind for item in waiting.proposed] == ["lesson"] * 2 + ["fact"] * 6
    assert waiting.proposed[0].defaults.importance == 0.4
    assert extractor.turn(turn(2, "I like coffee"))[1]["recorded"] is False


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"turn": "t"}', ":1: has no field 'candidates'"),
        ('{"turn": "t", "candidates": {}}', ":1: field 'candidates': expected a list, found an object"),
        ('{"turn": "t", "candidates": [3]}', ":1: candidate 1: expected an object, found a number"),
        (
            '{"turn": "t", "candidates": [{"kind": "wish", "text": "x", "confidence": 1}]}',
            ":1: candidate 1: unknown kind 'wish'; known: entity,",
        ),
        (
            '{"turn": "t", "candidates": [{"kind": "fact", "text": "x", "confidence": 1.5}]}',
            ":1: candidate 1: field 'confidence': expected a number from 0 to 1, found 1.5",
        ),
        ('{"turn": "t", "candidates": [{"kind": "fact", "text": " ", "confidence": 1}]}', "field 'text' is blank"),
        ('{"turn": "t", "candidates": [], "more": 1}', ":1: unknown key 'more'"),
        ('{"turn": "t", "candidates": []}\n{"turn": "t", "candidates": []}', ":2: turn 't' occurs twice"),
    ],
)
def test_read_extractions_names_the_line_of_an_error(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "found.jsonl"
    path.write_text(line + "\n", "utf-8")
    with pytest.raises(UnusableInput) as error:
        read_extractions(path)
    assert message in str(error.value)
    with pytest.raises(UnusableInput, match="no such file"):
        read_extractions(tmp_path / "absent.jsonl")
