"""A disk that is full at any step: one line, the old state, and the same command goes on."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands import run_here
from tests.memory.ledger.ledgers import filled, rows, write_log

MANY = [{"summary": f"basil and {number} other words of a long text"} for number in range(6000)]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let writes beyond this many bytes of a file fail, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def failed(size: int, *words: str | Path) -> str:
    """Return the only error of a command that cannot write all."""
    with largest_file(size):
        done = run_here("memory", "ledger", *words)
    assert done.returncode == 4, done.stdout
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    assert done.stderr.endswith(errors[0] + "\n")
    assert "a bug in the lab" not in errors[0]
    return errors[0]


def done_by(*words: str | Path) -> None:
    again = run_here("memory", "ledger", *words)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("kilobytes", [0, 3, 40, 120, 300, 700])
def test_ingest_on_a_full_disk_goes_on_later(tmp_path: Path, kilobytes: int) -> None:
    log, path = write_log(tmp_path / "o.jsonl", MANY), tmp_path / "l.sqlite"
    command = ("ingest", path, log, "--write")
    assert "l.sqlite" in failed(kilobytes << 10, *command)
    done_by(*command)
    assert [row.summary for row in rows(path)] == [item["summary"] for item in MANY]


def test_grade_on_a_full_disk_goes_on_later(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", MANY)
    before = rows(path)
    assert "the ledger is as before this batch" in failed(300 << 10, "grade", path, "--write")
    for row, old in zip(rows(path), before, strict=True):
        assert (row[:7], row.detail | {"importance": 0}) == (old[:7], old.detail | {"importance": 0})
    done_by("grade", path, "--write")
    assert all("importance" in row.detail for row in rows(path))


def test_archive_on_a_full_disk_keeps_the_log(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", MANY[:10])
    log = path.with_suffix(".jsonl")
    data = log.read_bytes()
    failed(1000, "archive", path, log, "--write")
    assert log.read_bytes() == data
    done_by("archive", path, log, "--write")
    assert [file.read_bytes() for file in (tmp_path / "archive").iterdir()] == [data]


@pytest.mark.parametrize("cut", [False, True])
def test_capture_on_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path, cut: bool) -> None:
    transcript, log = tmp_path / "s.jsonl", tmp_path / "o.jsonl"
    lines: list[dict[str, object]] = [{"type": "session", "version": 3, "id": "s"}]
    for number in range(100):
        message = {"role": "toolResult", "toolName": "exec", "content": [{"type": "text", "text": f"line {number}"}]}
        lines.append({"type": "message", "id": f"e{number}", "timestamp": "2026-11-20T10:00:00Z", "message": message})
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = ("capture", transcript, log, "--write")
    if cut:
        log.write_text('{"summary": "cut')
    before = log.read_bytes() if cut else b""
    assert "the log is as before, run the command again" in failed(2000, *command)
    assert log.read_bytes() == before
    done_by(*command)
    captured = [json.loads(line)["summary"] for line in log.read_text().splitlines()[cut:]]
    assert captured == [f"line {number}" for number in range(100)]
