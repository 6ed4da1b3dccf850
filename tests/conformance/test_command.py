"""``python -m tests.conformance`` on a few hand-written vectors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import xmlschema

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[2]
Write = Callable[[Path, list[dict[str, Any]]], Path]
CONFIG = {"skipTrivialPrompts": True, "trivialMinChars": 8}
PROMPTS: list[dict[str, Any]] = [
    {"id": "a", "input": {"prompt": "hello", "cfg": CONFIG}, "output": True},
    {"id": "b", "input": {"prompt": "why?", "cfg": CONFIG}, "output": False},
]
LINES: list[dict[str, Any]] = [
    {"id": "s", "fn": "stripScopeTagLinePrefix", "input": {"line": "- [x] go"}, "output": "go"},
]


def check(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the check in a process of its own, for a plain terminal of 80 columns."""
    command = [sys.executable, "-m", "tests.conformance", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "80"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path, write_lines: Write) -> Path:
    """A folder that holds ``vectors``."""
    write_lines(tmp_path / "vectors" / "skip_prompt.jsonl", PROMPTS)
    write_lines(tmp_path / "vectors" / "scope_extract.jsonl", LINES)
    return tmp_path


def test_conformance_with_equal_records_passes(folder: Path) -> None:
    shown = check("vectors", cwd=folder)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [line.split() for line in shown.stdout.splitlines()[2:]] == [
        ["scope_extract", "1", "0", "0"],
        ["skip_prompt", "2", "0", "0"],
        ["3", "0", "0"],
    ]
    done = check("vectors", "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    none: dict[str, Any] = {"failed": 0, "skipped": 0, "reasons": {}, "first_failure": None}
    assert json.loads(done.stdout) == {
        "files": {"scope_extract": {"passed": 1, **none}, "skip_prompt": {"passed": 2, **none}},
        "passed": 3,
        "failed": 0,
        "skipped": 0,
        "lancedb": None,
    }


def test_conformance_with_altered_records_shows_a_small_diff(folder: Path, write_lines: Write) -> None:
    write_lines(folder / "vectors" / "skip_prompt.jsonl", [PROMPTS[0], {**PROMPTS[1], "output": True}])
    write_lines(folder / "vectors" / "scope_extract.jsonl", [{**LINES[0], "output": "gone"}])
    shown = check("vectors", cwd=folder)
    assert (shown.returncode, shown.stderr) == (1, "error: vectors: 2 of 3 records differ\n")
    assert shown.stdout.endswith(
        'scope_extract: s, line 1\n  at output, character 2\n  - "gone"\n  + "go"\n'
        "\nskip_prompt: b, line 2\n  at output\n  - true\n  + false\n"
    )
    done = check("vectors", "--json", cwd=folder)
    assert done.returncode == 1
    found = json.loads(done.stdout)["files"]["skip_prompt"]
    assert (found["passed"], found["failed"]) == (1, 1)
    assert found["first_failure"] == {"id": "b", "line": 2, "path": "output", "expected": True, "found": False}


def test_malformed_line_fails_with_position(folder: Path) -> None:
    with (folder / "vectors" / "skip_prompt.jsonl").open("a") as file:
        file.write("{broken\n")
    shown = check("vectors/skip_prompt.jsonl", cwd=folder)
    assert (shown.returncode, shown.stderr) == (1, "error: vectors/skip_prompt.jsonl: 1 of 3 records differ\n")
    assert "\n  skip_prompt.jsonl:3: not a record in JSON: Expecting property name" in shown.stdout


@pytest.mark.parametrize(("name", "message"), [("empty", "has no vector files"), ("nowhere", "no such file")])
def test_conformance_without_records_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    done = check(name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {name}: {message}")


def test_junit_has_a_case_for_each_file_and_no_values(folder: Path, write_lines: Write) -> None:
    write_lines(folder / "vectors" / "scope_extract.jsonl", [{**LINES[0], "output": "wombat"}])
    write_lines(folder / "vectors" / "of_ours.jsonl", [{"id": "x", "input": {}, "output": 1}])
    done = check("vectors", "--junit", "out/conformance.xml", cwd=folder)
    assert done.returncode == 1
    data = (folder / "out" / "conformance.xml").read_bytes()
    assert b"wombat" not in data
    root = ElementTree.fromstring(data)
    xmlschema.XMLSchema(Path(__file__).parents[1] / "gate" / "junit.xsd").validate(root)
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3", "failures": "1", "errors": "0", "skipped": "1"
    }  # fmt: skip
    found = {case.get("name"): [(child.tag, child.get("message")) for child in case] for case in suite}
    assert found["skip_prompt"] == []
    assert found["scope_extract"] == [("failure", "1 of 1 records differ; the first: s, line 1 at output")]
    assert found["of_ours"][0][0] == "skipped"
