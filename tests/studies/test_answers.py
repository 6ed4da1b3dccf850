"""Recorded answers beside a judge's votes, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.studies import answers as module
from lab.studies.answers import agreements, read_answers
from tests.commands import run_here

File = Callable[..., Path]


def _entry(gold: object, said: str, *votes: object, category: object = "4") -> dict[str, Any]:
    judged = {f"judgment_{number}": vote for number, vote in enumerate(votes, 1)}
    return {
        "question_id": "locomo_0_qa0",
        "question": "What?",
        "golden_answer": gold,
        "generated_answer": said,
        "llm_judgments": judged,
        "category": category,
    }


@pytest.fixture
def file(tmp_path: Path) -> File:
    def write(*entries: object, name: str = "answers_a") -> Path:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"correct": 1, "detailed_results": {"user_0": entries}}), "utf-8")
        return path

    return write


GOOD = (
    _entry("a red boat", "The boat was red.", True, True, False),
    _entry("a red boat", "It was a boat", True, False, True),
    _entry("7 May 2023", "on May 7th", True, category=2),
    _entry("a red boat", "A kite.", True),
    _entry("a red boat", "Red boat!", False, False, True),
    _entry(2022, "2021", False, category=2),
    _entry("of the", "anything", True),
)


def test_answers_are_read_with_shares_and_the_majority_of_votes(file: File) -> None:
    found = read_answers(file(*GOOD))
    assert [one.share for one in found[:-1]] == [1.0, 0.5, 1.0, 0.0, 1.0, 0.0]
    assert math.isnan(found[-1].share)
    assert [one.right for one in found] == [True, True, True, True, False, False, True]
    assert {one.category for one in found} == {"single-hop", "temporal"}


def test_agreement_equals_the_one_by_hand(file: File) -> None:
    overall, single, temporal = agreements(file(*GOOD))
    # Accepted: four, of which three are right, of four that are right.
    assert (overall.file, overall.category, overall.n, overall.empty) == ("answers_a", "all", 6, 1)
    assert (overall.right, overall.accepted) == (pytest.approx(4 / 6), pytest.approx(4 / 6))
    assert (overall.precision, overall.recall) == (pytest.approx(3 / 4), pytest.approx(3 / 4))
    # Right ones have 1, .5, 1 and 0, wrong ones 1 and 0: 2 * (.5 + 1) + 1 + .5 of 8 pairs.
    assert overall.auroc == pytest.approx((1.5 + 1 + 1.5 + 0.5) / 8)
    assert (single.n, temporal.n) == (4, 2)
    assert (temporal.precision, temporal.recall, temporal.auroc) == (1.0, 1.0, 1.0)


def test_agreement_without_a_wrong_answer_has_no_auroc(file: File) -> None:
    overall, _ = agreements(file(GOOD[3]))
    assert (overall.precision, overall.recall, overall.auroc) == (None, 0.0, None)


def test_command_shows_agreement_and_wrong_answers(file: File) -> None:
    wrong = file(_entry("a red boat", "a blue boat", True), _entry("a red boat", "a car", False), name="wrong")
    done = run_here("golden", "answers", file(*GOOD), "--wrong", wrong)
    assert (done.returncode, done.stderr) == (0, "")
    assert "show nothing about" in " ".join(done.stdout.split())
    value = json.loads(run_here("golden", "answers", file(*GOOD), "--wrong", wrong, "--json").stdout)
    assert value["threshold"] == 0.5
    assert [(one["category"], one["accepted"], one["right"]) for one in value["wrong"]] == [
        ("all", 0.5, 0.5),
        ("single-hop", 0.5, 0.5),
    ]


VOTES = "user_0[0]: llm_judgments"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([_entry("a", "a", True) | {"question": ""}], "user_0[0]: question: expected text"),
        ([{"golden_answer": "a"}], "user_0[0]: question: expected text, found null"),
        (["a"], "user_0[0]: expected an object, found a string"),
        ([_entry("a", "a", "yes")], f"{VOTES}: judgment_1: expected true or false, found a string"),
        ([_entry("a", "a", True, 1)], f"{VOTES}: judgment_2: expected true or false, found a number"),
        ([_entry("a", "a")], f"{VOTES}: has no votes"),
        ([_entry("a", "a", True) | {"llm_judgments": [True]}], "'llm_judgments': expected an object, found a list"),
        ([_entry(None, "a", True)], "golden_answer: expected a string or a number, found null"),
        ([], "has no answers"),
    ],
)
def test_command_refuses_answers_of_another_form(file: File, entries: list[object], said: str) -> None:
    done = run_here("golden", "answers", file(*entries))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_command_refuses_a_file_that_is_too_large_unread(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    large = file(*GOOD)
    with large.open("r+b") as stream:
        stream.truncate(100_000_000)
    monkeypatch.setattr(module, "read_json", None)
    done = run_here("golden", "answers", large)
    assert (done.returncode, done.stdout) == (2, "")
    assert "has 100 MB, and answers are read up to 32 MB at once" in done.stderr
    assert done.stderr.count("\n") == 1


def test_command_names_a_missing_file(tmp_path: Path) -> None:
    done = run_here("golden", "answers", tmp_path / "none.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no such file" in done.stderr
