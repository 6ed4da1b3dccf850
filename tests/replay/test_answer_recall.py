"""AnswerRecall@block: what a receipt keeps of the gold answer in the injected block."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab.golden.model import Probe
from lab.measures.score import score_run
from lab.recordings.model import Chat, Recording
from lab.replay.answer_recall import answer_shares
from lab.replay.loop import Answered
from lab.replay.receipts import receipts_table
from lab.replay.run import run_replay
from lab.replay.timeline import RecallPoint
from lab.runs.request import ReplayRequest
from lab.systems.contract import Item, Recall
from lab.systems.openclaw.recall.block import wrap
from tests.golden.test_errata import sample

MEASURE = "AnswerRecall@block"
NOON = int(datetime(2023, 6, 9, 12, tzinfo=UTC).timestamp()) * 1000


def _recording(*texts: str) -> Recording:
    chat = Chat("c")
    for number, text in enumerate(texts):
        turn = chat.say("s", number, "user", text, NOON)
        chat.keep(f"{turn.key}#0", text, text)
    return chat.recording(())


def _answered(answer: str, recall: Recall) -> Answered:
    probe = Probe("c/q1", "c", None, "What?", (), answer=answer)
    return Answered(RecallPoint("c/q1", 9, "What?", None, NOON, False, probe), "arm", recall, 0, 0)


def _block(recording: Recording, *, cut: int = 0) -> Recall:
    items = tuple(Item(memory.key, memory.text) for memory in recording.memories)
    context = wrap([("fact", "nice_to_have", item.text) for item in items])
    return Recall(items, len(items), context[: len(context) - cut])


@pytest.mark.parametrize(
    ("answer", "text", "share"),
    [
        ("two red boats", "I have 2 boats.", 2 / 3),
        ("8 June 2023", "I sold it yesterday.", 1.0),
        ("7 June 2023", "I sold it yesterday.", 0.0),
        ("9 June 2023", "I sold it.", 1.0),
        ("Ann's <b>", "Ann's <b>", 1.0),
        # What stands in every block is no memory.
        ("memories policy, a fact, nice", "I sold it.", 0.0),
    ],
)
def test_share_is_that_of_the_memories_in_the_block(answer: str, text: str, share: float) -> None:
    recording = _recording(text)
    (found,) = answer_shares([_answered(answer, _block(recording))], recording) or [None]
    assert found == pytest.approx(share)


def test_share_of_a_cut_memory_has_no_date_of_its_time() -> None:
    recording = _recording("I sold the boat yesterday.")
    cut = _block(recording, cut=len(" yesterday.\n</relevant-memories>"))
    assert answer_shares([_answered("a boat, 8 June 2023", cut)], recording) == [0.5]


def test_share_counts_the_working_set_and_not_what_was_ranked_only() -> None:
    recording = _recording("Yesterday was long.", "A boat.")
    first, second = recording.memories
    recall = Recall((Item(second.key, second.text),), 0, "Yesterday was long.", pinned=(first.key,))
    assert answer_shares([_answered("8 June 2023, a boat", recall)], recording) == [0.5]


def test_share_is_missing_without_an_answer_or_content() -> None:
    recording = _recording("A boat.")
    block = _block(recording)
    assert answer_shares([_answered("", block)], recording) is None
    assert answer_shares([_answered("", block), _answered("of the", block)], recording) == [None, None]


def test_receipts_have_the_column_only_with_answers() -> None:
    recording = _recording("A boat.")
    rows = [_answered("boat", _block(recording)), _answered("", _block(recording))]
    with_answers, without = receipts_table(rows, recording, {}), receipts_table(rows[1:], recording, {})
    assert with_answers["answer_share"].to_pylist() == [1.0, None]
    assert "answer_share" not in without.column_names
    assert with_answers.drop_columns(["answer_share"]).schema == without.schema


def test_scores_have_the_measure_where_questions_have_answers(tmp_path: Path) -> None:
    asked = [
        {"question": "Which tea?", "answer": "green", "evidence": ["D1:1"], "category": 4},
        {"question": "What did Ann sell?", "answer": "the old boat", "evidence": ["D1:2"], "category": 1},
        {"question": "Who sold a car?", "adversarial_answer": "Ann", "evidence": ["D1:2"], "category": 5},
    ]
    source = tmp_path / "locomo10.json"
    source.write_text(json.dumps(sample(asked)), "utf-8")
    request = ReplayRequest(str(source), "locomo", ("oracle", "none"), embedder="hashing")
    run = run_replay(request, tmp_path / "run").run
    scores = score_run(run)
    values = {arm: scores.of_arm(arm)[MEASURE] for arm in scores.arms}
    assert values["oracle"].value == [1.0, 0.5]
    assert values["none"].value == [0.0, 0.0]
    assert values["oracle"].at == ["conv-1/q001", "conv-1/q002"]
    files = [path.read_bytes() for path in run.path.rglob("*") if path.is_file()]
    assert not any(b"the old boat" in data for data in files)
    # Without answers nothing names the measure, and the receipts lack the column alone.
    for question in asked:
        question.pop("answer", None)
    source.write_text(json.dumps(sample(asked)), "utf-8")
    silent = run_replay(request, tmp_path / "silent").run
    assert MEASURE not in score_run(silent).measures
    (name,) = run.conversations
    assert run.read_receipts(name).drop_columns(["answer_share"]).equals(silent.read_receipts(name))
