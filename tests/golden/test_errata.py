"""Errata of a golden set: read, refused, applied, and shown beside the figures that they correct."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.golden.errata import corrected, read_errata
from lab.golden.model import GoldenSet
from lab.recordings.model import keys_of
from lab.recordings.readers import read_library
from tests.commands import run_here


def sample(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A file of LoCoMo with one conversation of six turns."""
    said = ["Tea is green.", "I sold the boat.", "Mia likes plums.", "Rain again.", "The code is nine.", "Good night."]
    turns = [{"speaker": "Ann", "dia_id": f"D1:{n}", "text": text} for n, text in enumerate(said, 1)]
    talk = {"speaker_a": "Ann", "speaker_b": "Bo", "session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    return [{"sample_id": "conv-1", "conversation": talk, "observation": {}, "qa": questions}]


QUESTIONS = [
    {"question": "Which tea?", "answer": "green", "evidence": ["D1:1"], "category": 4},
    {"question": "What did Ann sell?", "answer": "a boat", "evidence": ["D1:3"], "category": 4},
    {"question": "What does Mia like?", "answer": "figs", "evidence": ["D1:3"], "category": 4},
]
ENTRIES = [
    {
        "question_id": "locomo_0_qa1",
        "question": "What did Ann sell?",
        "golden_answer": "a boat",
        "error_type": "WRONG_CITATION",
        "cited_evidence": ["D1:3"],
        "correct_evidence": ["D1:2"],
        "reasoning": "turn 2 says it",
        "correct_answer": "a boat",
    },
    {
        "question_id": "locomo_0_qa2",
        "question": "What does Mia like?",
        "golden_answer": "figs",
        "error_type": "HALLUCINATION",
        "cited_evidence": ["D1:3"],
        "correct_evidence": ["D1:3"],
        "reasoning": "plums",
        "correct_answer": "plums",
    },
]


@pytest.fixture
def locomo_set(tmp_path: Path) -> Path:
    file = tmp_path / "locomo10.json"
    file.write_text(json.dumps(sample(QUESTIONS)), "utf-8")
    return file


def read(file: Path) -> tuple[dict[str, frozenset[str]], GoldenSet]:
    library = read_library(file, "locomo")
    return keys_of(library.recordings), library.golden


def written(tmp_path: Path, entries: list[dict[str, Any]], name: str = "errors.json") -> Path:
    file = tmp_path / name
    text = json.dumps(entries) if name.endswith(".json") else "".join(json.dumps(one) + "\n" for one in entries)
    file.write_text(text, "utf-8")
    return file


def test_the_published_audit_is_applied_to_what_it_corrects_and_to_nothing_else(
    tmp_path: Path, locomo_set: Path
) -> None:
    keys, golden = read(locomo_set)
    found = read_errata(written(tmp_path, ENTRIES), keys, golden)
    assert found.kinds() == {"wrong_citation": 1, "hallucination": 1}
    assert found.reach(golden) == {"conv-1": 2}
    tea, boat, plums = corrected(golden, found).probes
    assert boat.grades == {"conv-1/session_1/D1:2#0": 1}
    # What was called relevant was looked at and is not.
    assert boat.irrelevant == ("conv-1/session_1/D1:3#0",)
    assert (tea, plums) == (golden.probes[0], golden.probes[2])
    assert [one.answer for one in found.entries] == [None, "plums"]
    # In the project's own form they say the same.
    own = written(tmp_path, found.lines(golden), "own.jsonl")
    assert read_errata(own, keys, golden).entries == found.entries


def test_a_question_that_the_set_lacks_is_counted(tmp_path: Path, locomo_set: Path) -> None:
    found = read_errata(written(tmp_path, [*ENTRIES, ENTRIES[0] | {"question": "Who?"}]), *read(locomo_set))
    assert (len(found.entries), found.elsewhere) == (2, 1)


ERRATUM = {"kind": "erratum", "probe": "conv-1/q001", "error": "wrong", "by": "me", "relevant": []}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [ERRATUM | {"was": ["conv-1/session_1/D1:6#0"]}],
            "own.jsonl:1: conv-1/q001: the set calls .* another version",
        ),
        ([ERRATUM | {"probe": "conv-1/q009"}], "own.jsonl:1: the golden set has no probe 'conv-1/q009'"),
        (
            [ERRATUM | {"relevant": [{"memory": "gone"}]}],
            "own.jsonl:1: relevant: the conversation has no memory 'gone'",
        ),
        ([ERRATUM, ERRATUM], "own.jsonl:2: a second erratum of conv-1/q001"),
        ([ERRATUM | {"kind": "probe"}], '"kind" must be "erratum"'),
        ([ERRATUM | {"grade": 1}], "an erratum has no field 'grade'"),
        ([{name: value for name, value in ERRATUM.items() if name != "relevant"}], "neither relevant nor answer"),
        ([{name: value for name, value in ERRATUM.items() if name != "by"}], "by"),
    ],
)
def test_bad_errata_are_refused_by_line(
    tmp_path: Path, locomo_set: Path, lines: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(UnusableInput, match=said):
        read_errata(written(tmp_path, lines, "own.jsonl"), *read(locomo_set))


def test_errata_of_another_version_are_refused(tmp_path: Path, locomo_set: Path) -> None:
    other = [one | {"cited_evidence": ["D1:6"]} for one in ENTRIES]
    with pytest.raises(UnusableInput, match=r"\[0\]: the set cites other evidence .* another version"):
        read_errata(written(tmp_path, other), *read(locomo_set))
    with pytest.raises(UnusableInput, match="correct_evidence: D7:7 is no turn of conv-1"):
        read_errata(written(tmp_path, [ENTRIES[0] | {"correct_evidence": ["D7:7"]}]), *read(locomo_set))


@pytest.mark.slow
def test_each_command_shows_corrected_figures_beside_the_others(tmp_path: Path, locomo_set: Path) -> None:
    errata, run = written(tmp_path, ENTRIES), tmp_path / "run"
    arms = ("--arm", "oracle", "--arm", "bm25", "--embedder", "hashing", "--labels", "sampled")
    words = ("replay", locomo_set, "--format", "locomo", *arms, "--out", run)
    refused = run_here(*words, "--errata", errata)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "needs --score" in refused.stderr
    done = run_here(*words, "--score", "--errata", errata, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    before, after = found["scores"]["arms"]["oracle"]["measures"], found["errata"]["arms"]["oracle"]["measures"]
    assert (before["Success@6"], after["Success@6"]) == (1.0, pytest.approx(2 / 3))
    assert found["errata"]["ceiling"]["Success@6"] == pytest.approx(2 / 3)
    # The run keeps its judgements, and its scores.
    sealed = (run / "manifest.json").read_bytes()
    scored = run_here("score", run, "--errata", errata)
    assert "they change what is relevant at 1 of 3 probes" in " ".join(scored.stdout.split())
    assert "Success@6 0.667" in " ".join(scored.stdout.split())
    assert (run / "manifest.json").read_bytes() == sealed
    compared = run_here("compare", run, "--baseline", "bm25", "--candidate", "oracle", "--errata", errata, "--json")
    assert json.loads(compared.stdout)["errata"]["comparison"]["differences"]["Success@6"]["candidate"] < 1
    judged = run_here("gate", run, "--candidate", "bm25", "--baseline", "oracle", "--errata", errata, "--json")
    assert json.loads(judged.stdout)["errata"]["status"] == json.loads(judged.stdout)["status"]
    assert run_here("report", run, "--errata", errata).returncode == 0
    assert "<h3>With errata</h3>" in (run / "report.html").read_text("utf-8")
    assert "With errata" not in run_here("score", run).stdout


def test_the_whole_audit_fits_the_five_conversations(shared: Callable[..., Path]) -> None:
    keys, golden = read(shared("data", "locomo"))
    found = read_errata(shared("data", "locomo_audit", "errors.json"), keys, golden)
    assert (len(found.entries), found.elsewhere) == (73, 0)
    assert sum(found.reach(golden).values()) == 73
    changed = sum(one != other for one, other in zip(corrected(golden, found).probes, golden.probes, strict=True))
    assert changed == len(found.corrections) == 43
