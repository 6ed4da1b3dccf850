"""Endless, deeply nested or very long input is refused or read within limits, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DEEP = {"jsonl": "[" * 100_000, "json": '{"a":' * 100_000, "toml": f"a = {'[' * 100_000}", "log": "[" * 100_000}
READS = {
    "golden lint {}": "jsonl",
    "golden judge {} --out made.jsonl --json": "jsonl",
    "gate {}": "json",
    "config check {}": "json",
    "runs import --qrels {} --run {}": "text",
    "canary audit {}": "log",
}
LINES: tuple[dict[str, Any], ...] = (
    {"kind": "recording", "schema": "lab.recording.v1", "conversation": "den"},
    {"kind": "session", "session": "s1", "time": "2026-03-01T09:00:00+00:00"},
    {"kind": "turn", "turn": "t1", "role": "user", "text": "hello"},
    {"kind": "memory", "text": "the kiln fires at 900 degrees", "importance_label": "must_remember"},
    {"kind": "turn", "turn": "t2", "role": "user", "text": "how hot is the kiln?"},
)


def lab(command: str, cwd: Path, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does; a hang is an error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"}
    words = [sys.executable, "-m", "lab", *command.split()]
    return subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line with which a command refused its input."""
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("command", READS)
def test_endless_device_is_refused_at_once(command: str, tmp_path: Path) -> None:
    assert "/dev/zero: is a device or a socket, not a file" in refused(
        lab(command.replace("{}", "/dev/zero"), tmp_path)
    )


@pytest.mark.parametrize("command", [read for read in READS if not read.startswith("canary")])
def test_named_pipe_without_writer_is_refused_at_once(command: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "pipe: is a pipe, not a file" in refused(lab(command.replace("{}", "pipe"), tmp_path))


@pytest.mark.parametrize(
    "command", ["recordings validate {} --format lab", "gate --policy {}", "nightly run --plan {}"]
)
def test_device_instead_of_file_or_folder_is_refused(command: str, tmp_path: Path) -> None:
    assert "/dev/zero: " in refused(lab(command.replace("{}", "/dev/zero"), tmp_path))


@pytest.mark.parametrize(
    "command", [*READS, "gate --policy {}", "nightly run --plan {}", "recordings validate {} --format lab"]
)
def test_deeply_nested_input_is_refused_with_its_position(command: str, tmp_path: Path) -> None:
    form = READS.get(command, "toml" if "--p" in command else "jsonl")
    (tmp_path / f"deep.{form}").write_text(DEEP.get(form, DEEP["json"]))
    done = lab(command.replace("{}", f"deep.{form}"), tmp_path)
    if command.startswith("canary"):
        # Lines of a log that are not the engine's are skipped.
        assert (done.returncode, "no recall receipt in" in done.stdout + done.stderr) == (0, True)
    else:
        assert f"deep.{form}" in refused(done)


def test_pipe_from_a_shell_is_read(tmp_path: Path) -> None:
    command = f"echo '{{}}' | {sys.executable} -m lab config check /dev/stdin"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
def test_turn_of_50_megabytes_is_replayed_in_500_megabytes(tmp_path: Path) -> None:
    # Four bytes a character, the maximum of Python's strings.
    long = "🔥abc " * (50_000_000 // 8)
    lines = (*LINES[:4], {"kind": "turn", "turn": "t2", "role": "user", "text": long}, LINES[4] | {"turn": "t3"})
    with (tmp_path / "den.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    # The kernel's peak memory of a process survives exec, and would include these tests.
    code = (
        "from lab.cli.main import main\n"
        "try: main()\n"
        "finally: print('peak', *[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LAB_CACHE_DIR": str(tmp_path / "cache")}
    for command in ("recordings validate den.jsonl --format lab", "replay den.jsonl --format lab --out run"):
        words = [*command.split(), *(("--embedder", "hashing") if command.startswith("replay") else ())]
        done = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        peak = int(done.stdout.split()[-1]) / 1e3
        assert peak < 500, f"{command}: {peak:.0f} MB"
        if command.startswith("recordings"):
            assert "den/s1/t2 is long: text search reads only its first 200,000 characters" in " ".join(
                done.stdout.split()
            )


def test_sampled_mutants_in_separate_processes_end_cleanly(tmp_path: Path) -> None:
    # A process also covers the entry point, real streams, and output at exit.
    sound = "".join(json.dumps(line) + "\n" for line in LINES).encode()
    mutants = {
        "cut": sound[:-40],
        "zeros": sound.replace(b"hello", b"\x00" * 40),
        "latin": sound.replace(b"hello", b"\xe9"),
        "surrogate": sound.replace(b'"hello"', b'"\\ud800"'),
        "name": sound.replace(b'"den"', b'"::error::\\u001b[2J\\ud800\\uffff"'),
        "huge": sound.replace(b'"hello"', b"1e999"),
        "digits": sound.replace(b'"hello"', b"9" * 5_000),
        "twice": sound.replace(b'"role"', b'"role": "user", "role"', 1),
    }
    for name, data in mutants.items():
        (tmp_path / f"{name}.jsonl").write_bytes(data)
        for command in (
            f"recordings validate {name}.jsonl --format lab",
            f"replay {name}.jsonl --format lab --embedder hashing --out {name}",
        ):
            done = lab(command, tmp_path, 120)
            said = done.stdout + done.stderr
            assert done.returncode in (0, 2), (command, said)
            assert "Traceback" not in said
            assert "\x1b" not in said
            assert not [line for line in said.splitlines() if line.lstrip().startswith("::")]
            assert done.returncode == 0 or done.stderr.count("\n") == 1
