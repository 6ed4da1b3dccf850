"""Mutated files: whatever a file holds, a command ends in time, with a word on it and an exit code that is meant."""

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

# How many mutants are made in all; raise it to look for more: LAB_MUTANTS=5000 pytest tests/mutants.
COUNT = int(os.environ.get("LAB_MUTANTS", "400"))
SEED = int(os.environ.get("LAB_MUTANTS_SEED", "14"))
# Where to append what became of each kind, as JSON Lines.
REPORT = os.environ.get("LAB_MUTANTS_REPORT")
TARGETS = {one.kind: one for one in targets()}
WEIGHT = sum(one.weight for one in TARGETS.values())
# Exit code 1 says that the checked thing failed: which sentence, or which file, of which command says so.
FINDS = {
    "recordings validate": r"^error: .*: \d+ errors?$",
    "golden lint": r"^error: .*: \d+ errors?$",
    "config check": r"^error: .*: \d+ problems? ",
    "golden diff": r"^\d+ probes? added, \d+ removed; ",
    "receipts audit": r"^error: .*: (\d+ damaged lines?|no receipt of recall in \d+ lines?)\b",
    "baseline list": r"^error: .*: changed since the approval: ",
    "conformance vectors": r"^error: vectors: \d+ of \d+ records differ$",
    "diff run": r"differ",
}
# A fault that nobody foresaw, in whatever words it is told.
UNEXPECTED = re.compile(r"Traceback|a bug in the lab|\b\w+(?:Error|Exception|Warning) in \S+\.py, line \d+|HUNG")
# What a terminal or a CI log would obey.
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|^\s*::|##\[", re.MULTILINE)


def wrong(words: list[str], code: int, said: str) -> str | None:
    """What is wrong with the end of a command, if anything."""
    if found := UNEXPECTED.search(said):
        return f"unexpected: {found[0]}"
    if code not in (0, 1, 2, 3, 4):
        return f"exit code {code}"
    if code == 1 and not _is_finding(words, said):
        return "exit code 1 without a finding"
    if code in (2, 4) and words[0] != "gate" and not re.search(r"^error: \S", said, re.MULTILINE):
        return f"exit code {code} without a word"
    if found := OBEYED.search(said):
        return f"control characters or a command in the output: {found[0]!r}"
    return None


def _is_finding(words: list[str], said: str) -> bool:
    if words[0] in ("gate", "nightly"):
        return re.search(r"\bfail", said) is not None
    wanted = FINDS.get(" ".join(words[:2]))
    return wanted is not None and re.search(wanted, said, re.MULTILINE) is not None


@pytest.mark.parametrize("kind", TARGETS)
def test_mutants_of_a_file_end_in_time_with_a_word(
    kind: str, ground: Any, run_lab: Callable[..., tuple[int, str]]
) -> None:
    target: Target = TARGETS[kind]
    count = max(3, round(COUNT * target.weight / WEIGHT))
    files = target.found()
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
def test_file_that_is_sound_is_read(kind: str, ground: Any, run_lab: Callable[..., tuple[int, str]]) -> None:
    # Else a mutant would show nothing: every one of them would be refused for the same reason.
    target: Target = TARGETS[kind]
    for command in dict.fromkeys(target.commands):
        try:
            code, said = run_lab(*command.replace("{}", str(target.found()[0])).split())
        finally:
            ground.put_back()
        assert code in (0, 3), (command, said)


def _form(file: Path, target: Target) -> str:
    """The form of a file: that of its name, where the target has files of several."""
    return "parquet" if file.suffix == ".parquet" else "jsonl" if file.suffix == ".jsonl" else target.form
