"""Commands on mutated files end in time, with a message and a documented exit code."""

from __future__ import annotations

import json
import os
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ground import Target, targets
from mutations import mutant

# Number of mutants; raise it to search for more: LAB_MUTANTS=5000 pytest tests/mutants.
COUNT = int(os.environ.get("LAB_MUTANTS", "400"))
SEED = int(os.environ.get("LAB_MUTANTS_SEED", "14"))
# Optional file to which results of each kind are appended as JSON Lines.
REPORT = os.environ.get("LAB_MUTANTS_REPORT")
TARGETS = {target.kind: target for target in targets()}
WEIGHT = sum(target.weight for target in TARGETS.values())
# Exit code 1 means that the checked thing failed; the output of these commands must then match.
FINDS = {
    "recordings validate": r"^error: .*: \d+ errors?$",
    "golden lint": r"^error: .*: \d+ errors?$",
    "config check": r"^error: .*: \d+ problems? ",
    "golden diff": r"^\d+ probes? added, \d+ removed; ",
    "canary audit": r"^error: .*: (\d+ damaged lines?|no recall receipt in \d+ lines?)\b",
    "nightly baseline list": r"^error: .*: changed since the approval: ",
    "conformance vectors": r"^error: vectors: \d+ of \d+ records differ$",
    "diff run": r"differ",
}
# Reports of unexpected exceptions.
UNEXPECTED = re.compile(r"Traceback|a defect of the lab|\b\w+(?:Error|Exception|Warning) in \S+\.py, line \d+|HUNG")
# Sequences that a terminal or a CI log interprets.
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|^\s*::|##\[", re.MULTILINE)


def wrong(words: list[str], code: int, said: str) -> str | None:
    """Return what is wrong with the result of a command, or None."""
    if result := UNEXPECTED.search(said):
        return f"unexpected: {result[0]}"
    if code not in (0, 1, 2, 3, 4):
        return f"exit code {code}"
    if code == 1 and not _is_finding(words, said):
        return "exit code 1 without a finding"
    if code in (2, 4) and words[0] != "gate" and not re.search(r"^error: \S", said, re.MULTILINE):
        return f"exit code {code} without a message"
    if result := OBEYED.search(said):
        return f"control characters or a command in the output: {result[0]!r}"
    return None


def _is_finding(words: list[str], said: str) -> bool:
    if words[0] == "gate" or words[:2] == ["nightly", "run"]:
        return re.search(r"\bfail", said) is not None
    expected = next((FINDS[name] for count in (2, 3) if (name := " ".join(words[:count])) in FINDS), None)
    return expected is not None and re.search(expected, said, re.MULTILINE) is not None


@pytest.mark.parametrize("kind", TARGETS)
def test_mutants_of_every_file_end_in_time_with_a_message(
    kind: str, ground: Any, run_lab: Callable[..., tuple[int, str]]
) -> None:
    target: Target = TARGETS[kind]
    count = max(3, round(COUNT * target.weight / WEIGHT))
    files = target.paths()
    assert files, "nothing to mutate"
    ends: Counter[str] = Counter()
    bad: list[str] = []
    for number in range(count):
        seed = zlib.crc32(f"{SEED}/{kind}/{number}".encode())
        draw = random.Random(seed)
        file = draw.choice(files)
        words = draw.choice(target.commands).replace("{}", str(file)).split()
        what, data = mutant(file.read_bytes(), _form(file, target), draw)
        file.write_bytes(data)
        try:
            code, said = run_lab(*words)
        finally:
            ground.put_back()
        ends[str(code)] += 1
        problem = wrong(words, code, said)
        if problem:
            bad.append(
                f"number {number} ({what}) of {file}: lab {' '.join(words)} -> {code}: {problem}\n{said[-600:]!r}"
            )
    if REPORT:
        with Path(REPORT).open("a") as opened:
            opened.write(json.dumps({"kind": kind, "mutants": count, "codes": ends, "bad": bad}) + "\n")
    assert not bad, f"{len(bad)} of {count}:\n" + "\n".join(bad[:20])


@pytest.mark.parametrize("kind", TARGETS)
def test_sound_file_is_read(kind: str, ground: Any, run_lab: Callable[..., tuple[int, str]]) -> None:
    # Else a mutant would show nothing: every one of them would be refused for the same reason.
    target: Target = TARGETS[kind]
    for command in dict.fromkeys(target.commands):
        try:
            code, said = run_lab(*command.replace("{}", str(target.paths()[0])).split())
        finally:
            ground.put_back()
        assert code in (0, 3), (command, said)


def _form(file: Path, target: Target) -> str:
    """The form of a file: that of its name, where the target has files of several."""
    return "parquet" if file.suffix == ".parquet" else "jsonl" if file.suffix == ".jsonl" else target.form
