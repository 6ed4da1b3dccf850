"""Fixtures: the installed command in a subprocess, and a small invented set to run it on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_here, run_installed
from tests.small_disk import Disk, mounted

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid", "none")
# A word that occurs in texts of memories alone, and one of turns alone.
MEMORY_WORD, TURN_WORD = "wombatmemory", "quokkaturn"


def _recording(name: str, sessions: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{"kind": "recording", "schema": "lab.recording.v1", "conversation": name}]
    for number in range(1, sessions + 1):
        time = f"2026-03-{number:02}T09:00:00+00:00"
        lines.append({"kind": "session", "session": f"s{number:02}", "time": time, "scope": "shop"})
        for turn in (1, 3):
            lines.append({"kind": "turn", "turn": f"t{turn:02}", "role": "user", "text": f"{TURN_WORD} lamp {number}"})
            lines += [
                {
                    "kind": "memory",
                    "text": f"{MEMORY_WORD} lamp {number} shelf {part}",
                    "importance_label": ("must_remember", "nice_to_have", "unknown")[part % 3],
                    "scope": "shop",
                }
                for part in range(4)
            ]
            # Conversations that say the same count as one.
            said = f"{TURN_WORD} fine{'!' * len(name)}"
            lines.append({"kind": "turn", "turn": f"t{turn + 1:02}", "role": "assistant", "text": said})
    return lines


def _probes(name: str, sessions: int) -> list[dict[str, Any]]:
    return [
        {
            "kind": "probe",
            "turn": f"{name}/s{number:02}/t01",
            "type": "fact" if number % 2 else "rule",
            "reason": "it was said before",
            "relevant": [{"memory": f"{name}/s{number - 1:02}/t03#{1 + number % 2}", "grade": 2, "reason": "said"}],
        }
        for number in range(2, sessions + 1)
    ]


@pytest.fixture(scope="session")
def write_lines() -> Callable[[Path, list[dict[str, Any]]], Path]:
    """Writes objects as JSON Lines."""

    def write(path: Path, lines: list[dict[str, Any]]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def make_set(write_lines: Callable[[Path, list[dict[str, Any]]], Path]) -> Callable[..., Path]:
    """Writes recordings and their golden sets below a folder: ``datasets/NAME`` and ``golden/NAME``."""

    def make(folder: Path, *names: str, called: str = "tiny", sessions: int = 4) -> Path:
        for name in names:
            write_lines(folder / "datasets" / called / f"{name}.jsonl", _recording(name, sessions))
            write_lines(folder / "golden" / called / f"{name}.jsonl", _probes(name, sessions))
        return folder / "datasets" / called

    return make


@pytest.fixture(scope="session")
def lab() -> Lab:
    """Runs the command in this process."""
    return run_here


@pytest.fixture(scope="session")
def installed() -> Lab:
    """Runs the installed command in a process of its own."""
    return run_installed


@pytest.fixture(scope="session")
def six(tmp_path_factory: pytest.TempPathFactory, lab: Lab, make_set: Callable[..., Path]) -> Path:
    """A folder with a finished run, ``run``, of six conversations: the fewest that have an interval."""
    folder = tmp_path_factory.mktemp("six")
    make_set(folder, "den", "attic", "cellar", "kitchen", "bathroom", "hallways!")
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    done = lab(
        *("replay", "datasets/tiny", "--format", "lab", *arms, "--out", "run", "--embedder", "hashing"), cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, lab: Lab, make_set: Callable[..., Path]) -> Path:
    """A folder with ``datasets/tiny`` (two conversations) and a finished run of it, ``run``."""
    folder = tmp_path_factory.mktemp("place")
    make_set(folder, "den", "attic")
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    done = lab(
        *("replay", "datasets/tiny", "--format", "lab", *arms, "--out", "run", "--embedder", "hashing"), cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("run: 2 done, 0 skipped, 0 failed. Next: lab score run\n")
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of twelve megabytes."""
    with mounted(tmp_path / "disk", "12m") as made:
        yield made
