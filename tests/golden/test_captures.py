"""Captures: what a golden set says of the candidates of a turn, read, written, checked and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.compare.agreement import agree
from lab.golden.files import golden_bytes, read_golden
from lab.golden.lint import lint
from lab.golden.model import GoldenSet, Probe, differences, split
from lab.recordings.model import Memory, Recording, Turn

TURNS = tuple(Turn(f"c/s/t{seq}", seq, "s", "user", f"plums {seq}", 1000 + seq) for seq in range(2))
CANDIDATES = (
    Memory("c/s/t0#0", "I take my tea at five.", "x", 1, 1),
    Memory("c/s/t0#1", "How are you?", "x", 1, 2),
    Memory("c/s/t0#2", "password: plum-jam", "x", 1, 3),
)
RECORDING = Recording("c", TURNS, CANDIDATES)
LINE: dict[str, Any] = {
    "kind": "capture",
    "turn": "c/s/t0",
    "relevant": [{"memory": "c/s/t0#0", "grade": 2, "reason": "a habit"}],
    "forbidden": [{"memory": "c/s/t0#2", "reason": "a password"}],
    "irrelevant": ["c/s/t0#1"],
}


def golden(folder: Path, *lines: dict[str, Any]) -> GoldenSet:
    path = folder / "golden.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return read_golden(path)


def test_probes_of_each_conversation_are_found_in_one_pass() -> None:
    class Counted(tuple[Probe, ...]):
        passes = 0

        def __iter__(self) -> Iterator[Probe]:
            type(self).passes += 1
            return super().__iter__()

    probes = Counted(Probe(f"{name}-{number}", name, f"{name}/s/t0", None, ()) for name in "abc" for number in range(2))
    everything = GoldenSet(probes)
    for name in "abcab":
        expected = tuple(probe for probe in tuple.__iter__(probes) if probe.conversation == name)
        assert everything.of(name) == everything.alone(name).probes == expected
    assert everything.of("d") == ()
    assert Counted.passes == 1


def test_captures_are_no_probes_and_come_back_from_disk(tmp_path: Path) -> None:
    probe = {"kind": "probe", "turn": "c/s/t0", "relevant": []}
    read = golden(tmp_path, LINE, probe)
    assert ([one.id for one in read.probes], [one.id for one in read.captures]) == (["c/s/t0"], ["capture c/s/t0"])
    assert read.kept("c") == {"c/s/t0#0": 2, "c/s/t0#1": 0, "c/s/t0#2": -1}
    assert read.kept("d") == {}
    (tmp_path / "again.jsonl").write_bytes(golden_bytes(read.judged))
    assert read_golden(tmp_path / "again.jsonl") == read


def test_capture_needs_a_turn(tmp_path: Path) -> None:
    line = {"kind": "capture", "id": "q", "conversation": "c", "query": "tea?"}
    with pytest.raises(UnusableInput, match=r":1: a capture needs a turn"):
        golden(tmp_path, line)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"irrelevant": []}, "does not judge c/s/t0#1"),
        ({"turn": "c/s/t1"}, "judges c/s/t0#0, which is no candidate of its turn"),
        ({"turn": "c/s/t9"}, "names turn 'c/s/t9', which the recording does not have"),
        ({"irrelevant": ["c/s/t0#1", "c/s/t0#7"]}, "names memory 'c/s/t0#7', which the recording does not have"),
    ],
)
def test_lint_of_a_capture(tmp_path: Path, change: dict[str, Any], problem: str | None) -> None:
    report = lint(golden(tmp_path, LINE | change), [RECORDING])
    if problem is None:
        assert (report.errors, report.captures) == ((), {"keep": 1, "not to keep": 1, "never to store": 1})
    else:
        assert any(error.endswith(problem) for error in report.errors), report.errors


def test_judges_of_captures_are_compared_over_the_candidates_of_the_turn(tmp_path: Path) -> None:
    first = golden(tmp_path, LINE)
    other = golden(tmp_path, LINE | {"relevant": [], "irrelevant": ["c/s/t0#0", "c/s/t0#1"]})
    assert [(one.what, one.before, one.after) for one in differences(first, other).changes] == [("c/s/t0#0", "2", "0")]
    agreement = agree(first, other, {"c": RECORDING})
    assert (agreement.rows[0].pairs, agreement.rows[0].raw) == (3, pytest.approx(2 / 3))
    assert agreement.forbidden.both == 1
    more = golden(tmp_path, LINE, LINE | {"turn": "d/s/t0", "relevant": [], "forbidden": [], "irrelevant": []})
    assert sorted(len(half.captures) for half in split(more, 0.5, 0)) == [1, 1]
