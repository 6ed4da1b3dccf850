"""Grading: fill what is missing, change nothing else, and measure the grader on judged cases (LD-2, LD-5)."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.ledger import grading as ledger_grading
from lab.memory.ledger.grading import benchmark, grade, label_of
from lab.systems.sidecar import Grade, grade_observation
from tests.memory.ledger.ledgers import NOW, filled, rows

GIVEN = [
    {"kind": "decision", "summary": "We decided to use LanceDB"},
    {"summary": "Never push to main without review", "detail": {"importance": 0.1}},
    {"summary": "收到，謝謝", "detail": {"importance": None, "scope": "x"}},
]


def test_grade_fills_what_is_missing_and_keeps_the_rest(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", GIVEN)
    before = rows(path)
    assert grade(path, now=NOW).grades.filled == 2
    assert rows(path) == before
    done = grade(path, write=True, now=NOW).receipt()
    assert (done["graded_filled"], done["skipped_existing"], done["label_counts"]["ignore"]) == (2, 1, 2)
    first, second, third = rows(path)
    assert first.detail["importance"] == {
        "score": 0.6,
        "label": "nice_to_have",
        "rationale": "Captures a decision that should be consistent over time.",
        "method": "heuristic-v1",
        "version": 1,
        "graded_at": "2026-11-23T12:00:00Z",
    }
    assert second == before[1]
    assert (third.detail["scope"], third.detail["importance"]["label"]) == ("x", "ignore")
    assert grade(path, write=True, now=NOW).receipt()["graded_filled"] == 0


def test_grade_leaves_rows_that_changed_meanwhile_or_cannot_be_read(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [*GIVEN, {"summary": "broken"}])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE observations SET detail_json = '[1]' WHERE id = 4")
    connection.close()

    def edit(observation: Any) -> Grade:
        # An operator writes between the read of the row and its grade.
        if observation["id"] == 1:
            with sqlite3.connect(path) as other:
                other.execute("""UPDATE observations SET detail_json = '{"importance": 1}' WHERE id = 1""")
            other.close()
        return grade_observation(observation)

    done = grade(path, write=True, scorer=edit, now=NOW)
    assert (done.grades.filled, done.unreadable, done.changed_meanwhile) == (1, 1, 1)
    assert rows(path)[0].detail == {"importance": 1}
    assert rows(path)[3].detail_json == "[1]"


def test_grade_in_batches_equals_grade_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = GIVEN * 7
    once, batched = filled(tmp_path / "a.sqlite", many), filled(tmp_path / "b.sqlite", many)
    grade(once, write=True, now=NOW)
    monkeypatch.setattr(ledger_grading, "BATCH", 4)
    grade(batched, write=True, now=NOW)
    assert rows(once) == rows(batched)


@pytest.mark.parametrize(
    ("importance", "label"),
    [
        (None, "unknown"),
        (0.9, "must_remember"),
        ("60%", "nice_to_have"),
        ("high", "must_remember"),
        ({"label": "nice to have", "score": 0.1}, "nice_to_have"),
        ({"score": 0.1}, "ignore"),
        ("soon", "unknown"),
        (True, "unknown"),
        ({"label": "odd"}, "unknown"),
    ],
)
def test_label_is_the_given_one_or_that_of_the_score(importance: Any, label: str) -> None:
    assert label_of({"importance": importance}) == label


def test_benchmark_counts_agreement_and_names_failures(tmp_path: Path) -> None:
    cases = [
        {
            "id": "a",
            "obs": {"summary": "We decided: never expose port 18888, see https://x/y"},
            "expect": {"label": "must_remember"},
        },
        {"id": "b", "obs": {"summary": "thanks"}, "expect": {"label": "must_remember", "score_min": 0.8}},
        {"id": "c", "obs": {"summary": "Deploy done"}, "expect": {"score_max": 0.05}},
        {"id": "d", "obs": {"summary": "ok"}, "expect": {"label": "ignore", "score_max": 0.3}},
    ]
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    receipt = benchmark(path)
    figures = receipt["benchmark"]
    assert (figures["total_cases"], figures["label_agreement"], figures["out_of_bounds"]) == (4, 0.6667, 2)
    assert figures["confusion_matrix"]["must_remember"] == {
        "must_remember": 1,
        "nice_to_have": 0,
        "ignore": 1,
        "unknown": 0,
    }
    assert (receipt["metrics"]["must_remember_precision"], receipt["metrics"]["ignore_precision"]) == (1.0, 0.5)
    assert [case["id"] for case in receipt["failed"]] == ["b", "c"]
    assert "port 18888" not in json.dumps(receipt)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "has no cases"),
        ('{"id": "a"}', ":1: a case needs the objects obs and expect"),
        ('{"obs": {}, "expect": {"label": "must"}}', ":1: unknown label 'must'"),
        ('{"obs": {}, "expect": {"score_min": "x"}}', ":1: score_min 'x' is no number"),
        ("{", "not JSON"),
    ],
)
def test_benchmark_refuses_cases_that_it_cannot_read(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(line)
    with pytest.raises(UnusableInput, match=message):
        benchmark(path)
