"""Tests of the reader of golden sets in the lab format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.golden.files import golden_bytes, read_golden
from lab.golden.model import Change, GoldenSet, Judgement, Probe, differences

Read = Callable[..., GoldenSet]
TURN = "one/s02/t03"


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that writes lines to ``golden.jsonl`` and reads the file."""

    def from_file(*lines: dict[str, Any]) -> GoldenSet:
        path = tmp_path / "golden.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return read_golden(path)

    return from_file


def _line(**more: Any) -> dict[str, Any]:
    return {"kind": "probe", "turn": TURN, **more}


def test_read_probe_on_a_turn(read: Read) -> None:
    golden = read(
        _line(
            type="standing_rule",
            reason="a rule applies",
            relevant=[{"memory": "one/s01/t01#0", "grade": 2, "reason": "the rule"}, {"memory": "one/s01/t02#0"}],
            forbidden=[{"memory": "one/s01/t03#1", "reason": "superseded"}],
        )
    )
    probe = Probe(
        TURN,
        "one",
        TURN,
        None,
        (Judgement("one/s01/t01#0", 2, "the rule"), Judgement("one/s01/t02#0")),
        (Judgement("one/s01/t03#1", 1, "superseded"),),
        {"type": "standing_rule"},
        "a rule applies",
    )
    assert golden == GoldenSet((probe,))
    assert golden.probes[0].grades == {"one/s01/t01#0": 2, "one/s01/t02#0": 1}


def test_read_probe_with_a_query(read: Read) -> None:
    golden = read({"kind": "probe", "id": "q1", "conversation": "one", "query": "Which port?"})
    assert golden == GoldenSet((Probe("q1", "one", None, "Which port?", ()),))


def test_read_probe_without_judgements_has_empty_lists(read: Read) -> None:
    (probe,) = read(_line(type="needs_nothing", relevant=[], forbidden=[])).probes
    assert (probe.relevant, probe.forbidden, probe.grades, probe.reason) == ((), (), {}, "")


def test_read_answer_is_kept_and_a_set_without_keeps_its_bytes(read: Read, tmp_path: Path) -> None:
    golden = read(_line(answer="9 June"), _line(turn="one/s02/t04"))
    assert [probe.answer for probe in golden.probes] == ["9 June", ""]
    path = tmp_path / "written.jsonl"
    path.write_bytes(golden_bytes(golden.probes))
    assert read_golden(path) == golden
    assert path.read_text("utf-8").count("answer") == 1
    other = replace(golden, probes=(replace(golden.probes[0], answer="10 June"), golden.probes[1]))
    assert differences(golden, other).changes == (Change(TURN, "answer", "9 June", "10 June"),)


def test_read_irrelevant_memories_are_judged_but_not_graded(read: Read, tmp_path: Path) -> None:
    keys = ["one/s01/t02#0", "haystack:two/s01/t01#0"]
    golden = read(_line(relevant=[{"memory": "one/s01/t01#0"}], irrelevant=keys), _line(turn="one/s02/t04"))
    first, second = golden.probes
    assert (first.irrelevant, second.irrelevant) == (tuple(keys), ())
    assert first.grades == {"one/s01/t01#0": 1}
    path = tmp_path / "written.jsonl"
    path.write_bytes(golden_bytes(golden.probes))
    assert read_golden(path) == golden
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    # A set without such memories keeps its bytes.
    assert [line.get("irrelevant") for line in lines] == [keys, None]


def test_read_golden_folder_keeps_file_and_line_order(tmp_path: Path) -> None:
    for name, turns in (("b", ("b/s/1", "b/s/0")), ("a", ("a/s/9",))):
        text = "".join(json.dumps(_line(turn=turn)) + "\n" for turn in turns)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "card.md").write_text("no probes here", encoding="utf-8")
    golden = read_golden(tmp_path)
    assert [probe.id for probe in golden.probes] == ["a/s/9", "b/s/1", "b/s/0"]
    assert [probe.id for probe in golden.of("b")] == ["b/s/1", "b/s/0"]
    assert golden.of("c") == ()


def test_read_golden_missing_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_golden(tmp_path)
    assert str(caught.value) == f"{tmp_path}: no *.jsonl file in this folder"
    with pytest.raises(UnusableInput) as caught:
        read_golden(tmp_path / "none.jsonl")
    assert str(caught.value) == f"{tmp_path / 'none.jsonl'}: no such file"


SHAPE = 'each judgement is {"memory": KEY, "grade": 1 or 2, "reason": TEXT}'
GRADE = "is not an integer from 1 to 100"
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("no kind", {"turn": TURN}, '"kind" must be "probe" or "capture"'),
    ("other kind", _line(kind="question"), '"kind" must be "probe" or "capture"'),
    ("a recording", _line(kind="turn"), "this is a turn line of a recording, not a probe of a golden set"),
    ("typo", _line(relevent=[]), "a probe has no field 'relevent'"),
    ("neither turn nor query", {"kind": "probe"}, "a probe needs either a turn or a query, not both"),
    ("turn and query", _line(query="Which?"), "a probe needs either a turn or a query, not both"),
    ("short turn", _line(turn="s02/t03"), "turn 's02/t03' is not <conversation>/<session>/<turn>"),
    ("turn number", _line(turn=3), "turn 3 is not <conversation>/<session>/<turn>"),
    (
        "query without id",
        {"kind": "probe", "query": "Which?", "conversation": "one"},
        "a probe with a query needs the strings id, conversation and query",
    ),
    (
        "query without conversation",
        {"kind": "probe", "query": "Which?", "id": "q1"},
        "a probe with a query needs the strings id, conversation and query",
    ),
    (
        "query a number",
        {"kind": "probe", "query": 1, "id": "q1", "conversation": "one"},
        "a probe with a query needs the strings id, conversation and query",
    ),
    ("relevant object", _line(relevant={}), "relevant: expected a list"),
    ("relevant null", _line(relevant=None), "relevant: expected a list"),
    ("forbidden text", _line(forbidden="k"), "forbidden: expected a list"),
    ("judgement text", _line(relevant=["k"]), f"relevant: {SHAPE}"),
    ("judgement without memory", _line(forbidden=[{"reason": "x"}]), f"forbidden: {SHAPE}"),
    ("memory number", _line(relevant=[{"memory": 1}]), f"relevant: {SHAPE}"),
    ("grade 0", _line(relevant=[{"memory": "k", "grade": 0}]), f"relevant: grade 0 of k {GRADE}"),
    ("grade huge", _line(relevant=[{"memory": "k", "grade": 101}]), f"relevant: grade 101 of k {GRADE}"),
    ("grade text", _line(relevant=[{"memory": "k", "grade": "2"}]), f"relevant: grade '2' of k {GRADE}"),
    ("grade fraction", _line(relevant=[{"memory": "k", "grade": 1.0}]), f"relevant: grade 1.0 of k {GRADE}"),
    ("grade true", _line(relevant=[{"memory": "k", "grade": True}]), f"relevant: grade True of k {GRADE}"),
    ("irrelevant null", _line(irrelevant=None), "irrelevant: expected a list, found null"),
    ("irrelevant text", _line(irrelevant="k"), "irrelevant: expected a list, found a string"),
    (
        "irrelevant object",
        _line(irrelevant=["k", {"memory": "l"}]),
        "irrelevant: entry 2: expected the key of a memory, found an object",
    ),
    ("irrelevant number", _line(irrelevant=[1]), "irrelevant: entry 1: expected the key of a memory, found a number"),
    ("irrelevant twice", _line(irrelevant=["k", "l", "k"]), "irrelevant: k is listed twice"),
    (
        "irrelevant and relevant",
        _line(irrelevant=["l", "k"], relevant=[{"memory": "k"}]),
        "irrelevant: k is also relevant or forbidden; remove it from one list",
    ),
    (
        "irrelevant and forbidden",
        _line(irrelevant=["k"], forbidden=[{"memory": "k"}]),
        "irrelevant: k is also relevant or forbidden; remove it from one list",
    ),
    ("grade null", _line(forbidden=[{"memory": "k", "grade": None}]), f"forbidden: grade None of k {GRADE}"),
]


@pytest.mark.parametrize(("line", "problem"), [case[1:] for case in BAD], ids=[name for name, _, _ in BAD])
def test_read_invalid_probe_names_file_and_line(tmp_path: Path, read: Read, line: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read(_line(), line)
    assert str(caught.value) == f"{tmp_path / 'golden.jsonl'}:2: {problem}"


@pytest.mark.parametrize(
    "line",
    [_line(type=None), _line(reason=7), _line(relevant=[{"memory": "k", "reason": None}])],
    ids=["type null", "reason number", "reason of a judgement null"],
)
def test_read_null_text_never_becomes_the_string_none(tmp_path: Path, read: Read, line: dict[str, Any]) -> None:
    with pytest.raises(UnusableInput) as caught:
        read(_line(), line)
    assert str(caught.value).startswith(f"{tmp_path / 'golden.jsonl'}:2: ")


def test_read_shipped_set_matches_its_lines(operators: Path) -> None:
    folder = operators.parents[1] / "golden" / operators.name
    raw = [
        json.loads(line)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
    ]
    golden = read_golden(folder)
    assert [
        (
            probe.turn,
            probe.slices,
            probe.reason,
            [(it.memory, it.grade, it.reason) for it in probe.relevant],
            [(it.memory, it.reason) for it in probe.forbidden],
        )
        for probe in golden.probes
    ] == [
        (
            line["turn"],
            {name: line[name] for name in ("type", "condition") if name in line},
            line["reason"],
            [(it["memory"], it["grade"], it["reason"]) for it in line["relevant"]],
            [(it["memory"], it["reason"]) for it in line["forbidden"]],
        )
        for line in raw
    ]
    assert all(probe.id == probe.turn and probe.query is None for probe in golden.probes)


def test_read_duplicate_field_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    path.write_text('{"kind": "probe", "turn": "a/b/c", "relevant": [{"memory": "k"}], "relevant": []}\n', "utf-8")
    with pytest.raises(UnusableInput, match=r"golden\.jsonl:1: .*field 'relevant' occurs twice"):
        read_golden(path)
