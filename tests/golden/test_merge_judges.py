"""Tests of tests/trials/merge_judges.py: one golden set of three judges' and the settled disagreements."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lab.base.files import read_json_lines
from lab.golden.files import golden_bytes, read_golden
from lab.golden.model import GoldenSet, Judgement, Probe, is_added, marks

ROOT = Path(__file__).resolve().parents[2]
TURN = "c/s1/t1"
A, B, C, FAR = "c/s0/t1#0", "c/s0/t2#0", "c/s0/t3#0", "haystack:d/s0/t1#0"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("merge_judges", ROOT / "tests" / "trials" / "merge_judges.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _probe(turn: str = TURN, **grades: str) -> Probe:
    """Return a probe with grades by the names of memories; the reason of each is the grade."""
    keys = {"a": A, "b": B, "c": C, "far": FAR}
    by = {keys[name]: grade for name, grade in grades.items()}
    return Probe(
        *(turn, "c", turn, None),
        tuple(Judgement(key, int(grade), f"because {grade}") for key, grade in by.items() if grade in "12"),
        tuple(Judgement(key, 1, "misleads") for key, grade in by.items() if grade == "f"),
        irrelevant=tuple(key for key, grade in by.items() if grade == "0"),
    )


def _golden(*probes: Probe) -> GoldenSet:
    return GoldenSet(probes)


def test_equal_votes_hold_and_unlisted_memories_are_irrelevant_only_if_named(script: ModuleType) -> None:
    writer = _golden(_probe(a="2"), _probe("c/s1/t3", b="1"))
    # The judges were offered a, and a memory of the haystack; the second probe was not given to them.
    judge = _golden(_probe(a="2", far="0"))
    merged, unsettled = script.merge([writer, judge, judge], {})
    assert unsettled == {}
    assert merged.probes == (replace(writer.probes[0], irrelevant=(FAR,)), writer.probes[1])


def test_disagreements_are_listed_with_votes_until_settled(script: ModuleType) -> None:
    writer, second = _golden(_probe(a="1", b="f")), _golden(_probe(a="2", c="1"))
    third = _golden(_probe(a="1", b="0", far="2"))
    _, unsettled = script.merge([writer, second, third], {})
    items = {(item.memory, item.what): votes for item, votes in unsettled.items()}
    assert items == {
        (A, "relevant"): (1, 2, 1),
        (B, "forbidden"): (1, 0, 0),
        # The third lists an irrelevant memory, so it has not judged what it does not list.
        (C, "relevant"): (0, 1, None),
    }
    settled = {
        script.Item(TURN, A, "relevant"): script.Settled(2, "why a"),
        script.Item(TURN, B, "forbidden"): script.Settled(0, "why b"),
        script.Item(TURN, C, "relevant"): script.Settled(1, "why c"),
    }
    merged, unsettled = script.merge([writer, second, third], settled)
    assert unsettled == {}
    assert marks(merged.probes[0]) == {A: "2", C: "1", FAR: "2", B: "0"}
    assert [judgement.reason for judgement in merged.probes[0].relevant] == ["because 1", "because 1", "because 2"]


def test_settled_line_may_name_a_memory_that_no_set_lists(script: ModuleType) -> None:
    settled = {script.Item(TURN, A, "forbidden"): script.Settled(1, "it misleads")}
    merged, _ = script.merge([_golden(_probe())] * 3, settled)
    assert merged.probes[0].forbidden == (Judgement(A, 1, "it misleads"),)


def _write(folder: Path, name: str, *probes: Probe) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_bytes(golden_bytes(probes))
    return path


def _settled(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "settled.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


LINE = {"turn": TURN, "memory": A, "what": "relevant", "settled": 1}


def test_script_writes_only_when_all_is_settled(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(_write(tmp_path, name, _probe(a=grade))) for name, grade in (("w", "1"), ("s", "2"), ("t", "1"))]
    command = [*files, "--settled", str(_settled(tmp_path)), "--out", str(tmp_path / "out")]
    assert script.main(command) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{TURN}  {A}  relevant: writer 1, second 2, third 1\n"
    assert "1 disagreements are not settled" in printed.err
    assert not (tmp_path / "out").exists()
    _settled(tmp_path, LINE)
    assert [script.main(command), script.main(command)] == [0, 0]
    assert read_golden(tmp_path / "out" / "c.jsonl").probes == (_probe(a="1"),)
    _settled(tmp_path, LINE | {"settled": 2})
    assert script.main(command) == 2
    assert read_golden(tmp_path / "out" / "c.jsonl").probes == (_probe(a="1"),)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([LINE | {"settled": 3}], "settled.jsonl:1: settled 3 of relevant is not a whole number from 0 to 2"),
        ([LINE | {"what": "forbidden", "settled": 2}], "settled.jsonl:1: settled 2 of forbidden is not"),
        ([LINE | {"settled": True}], "settled.jsonl:1: field 'settled': expected a number"),
        ([LINE | {"what": "needed"}], 'settled.jsonl:1: "what" must be'),
        ([LINE, LINE], f"settled.jsonl:2: {A} at {TURN} is settled twice as relevant"),
        ([LINE | {"turn": "c/s9/t9"}], "probe c/s9/t9: was judged or settled, but the writer's set does not have it"),
        ([LINE, LINE | {"what": "forbidden"}], f"probe {TURN}: {A} would be both relevant and forbidden"),
    ],
)
def test_script_unusable_settled_line_is_named(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[dict[str, Any]], problem: str
) -> None:
    path = str(_write(tmp_path, "w", _probe()))
    command = [path, path, path, "--settled", str(_settled(tmp_path, *lines)), "--out", str(tmp_path / "out")]
    assert script.main(command) == 2
    assert problem in capsys.readouterr().err


def _before_settling(shipped: GoldenSet, lines: list[dict[str, Any]]) -> GoldenSet:
    """Return the writer's set as it was, from the writer's votes beside the settled lines."""
    votes = {(line["turn"], line["memory"], line["what"]): line["writer"] for line in lines}
    probes = []
    for probe in shipped.probes:
        now = [judgement.memory for judgement in (*probe.relevant, *probe.forbidden)]
        keys = dict.fromkeys((*now, *(memory for turn, memory, _ in votes if turn == probe.id)))
        forbidden = {judgement.memory for judgement in probe.forbidden}
        grade = {key: votes.get((probe.id, key, "relevant"), probe.grades.get(key, 0)) for key in keys}
        misleads = {key for key in keys if votes.get((probe.id, key, "forbidden"), key in forbidden)}
        relevant = tuple(Judgement(key, value) for key, value in grade.items() if value)
        probes.append(
            replace(probe, relevant=relevant, forbidden=tuple(Judgement(key) for key in keys if key in misleads))
        )
    return GoldenSet(tuple(probes))


def test_shipped_set_follows_from_its_judges(script: ModuleType) -> None:
    folder = ROOT / "golden" / "operators"
    second, third = (read_golden(folder / "judges" / name) for name in ("second", "third"))
    settled_file = folder / "judges" / "settled.jsonl"
    settled = script.read_settled(settled_file)
    judged = {probe.id for probe in second.probes}
    shipped = GoldenSet(tuple(replace(one, irrelevant=()) for one in read_golden(folder).probes if one.id in judged))
    writer = _before_settling(shipped, [line for _, line in read_json_lines(settled_file)])
    merged, unsettled = script.merge([writer, second, third], settled)
    assert (len(settled), len(shipped.probes), unsettled) == (409, 784, {})
    for after, before in zip(merged.probes, shipped.probes, strict=True):
        assert {key: mark for key, mark in marks(after).items() if mark != "0"} == marks(replace(before, irrelevant=()))
    _, unsettled = script.merge([writer, second, third], {})
    # The judges' files leave out what they graded 0, and so their votes on memories of the haystack.
    assert set(unsettled) == {item for item in settled if not is_added(item.memory)}
