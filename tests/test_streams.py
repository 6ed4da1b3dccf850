"""Standard streams take whatever a command prints, and change no exit code."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from lab.base.streams import Steady, failure, steady
from lab.cli import main as cli
from lab.cli.output import emit, emit_json


class Raw(io.RawIOBase):
    """A raw stream that takes so many bytes, and then raises an error."""

    def __init__(self, room: int, number: int = errno.ENOSPC) -> None:
        self.taken, self.room, self.number = b"", room, number

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(memoryview(data))[: self.room - len(self.taken)]
        if not part:
            raise OSError(self.number, os.strerror(self.number))
        self.taken += part
        return len(part)


def stream(raw: Raw, encoding: str = "utf-8", errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors)


def small(monkeypatch: pytest.MonkeyPatch) -> Raw:
    """Make a stdout that takes 10 bytes. Not a fixture: pytest sets stdout anew for the body of a test."""
    raw = Raw(10)
    monkeypatch.setattr(sys, "stdout", stream(raw))
    monkeypatch.setattr(sys, "stderr", stream(Raw(1000)))
    steady()
    return raw


def test_steady_full_stream_discards_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = small(monkeypatch)
    for _ in range(3000):
        emit("twelve bytes")
    sys.stdout.flush()
    assert stdout.taken == b"twelve byt"
    error = failure()
    assert error is not None
    assert error.errno == errno.ENOSPC


@pytest.mark.parametrize(("number", "lost"), [(errno.EPIPE, False), (errno.EIO, True), (errno.ENOSPC, True)])
def test_failure_is_none_if_the_reader_ended(monkeypatch: pytest.MonkeyPatch, number: int, lost: bool) -> None:
    monkeypatch.setattr(sys, "stdout", stream(Raw(0, number)))
    steady()
    print("x", flush=True)
    assert (failure() is not None) is lost


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1", "utf-8", "utf-16"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape", "backslashreplace"])
def test_steady_narrow_encoding_replaces_characters(
    monkeypatch: pytest.MonkeyPatch, encoding: str, errors: str
) -> None:
    raw = Raw(1000)
    monkeypatch.setattr(sys, "stdout", stream(raw, encoding, errors))
    steady()
    emit("… ≥ 深 é \ud83d x")
    emit_json({"a": "深 \x85"})
    sys.stdout.flush()
    text = raw.taken.decode(encoding)
    first, second = text.splitlines()
    assert first.endswith(" x")
    # No character of a JSON object is lost.
    assert json.loads(second) == {"a": "深 \x85"}


def test_steady_closed_streams_take_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    steady()
    emit("深")
    sys.stderr.write("深")
    assert (sys.stdin.read(), failure()) == ("", None)
    for opened in (sys.stdin, sys.stdout, sys.stderr):
        opened.close()


def test_steady_partial_writes_are_continued() -> None:
    class Slow(Raw):
        def write(self, data: Any) -> int:
            return super().write(bytes(memoryview(data))[:3])

    raw = Slow(1000)
    written = io.TextIOWrapper(io.BufferedWriter(Steady(raw)), "utf-8")
    written.write("abcdefgh" * 20)
    written.flush()
    assert raw.taken == b"abcdefgh" * 20


@pytest.mark.parametrize(
    ("words", "code", "ended"),
    [
        (["gate", "judge", "run"], 0, 0),
        (["gate"], 1, 1),
        (["nightly"], 3, 3),
        (["doctor"], None, 0),
        (["recordings", "validate", "x"], None, 0),
        (["recordings", "list"], None, 4),
        (["measures"], None, 4),
    ],
)
def test_exit_code_of_a_verdict_outlives_a_full_stdout(
    monkeypatch: pytest.MonkeyPatch, words: list[str], code: int | None, ended: int
) -> None:
    stdout = small(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["lab", *words])
    emit("twelve bytes")
    sys.stdout.flush()
    assert cli._exit_code(code) == ended
    assert stdout.taken == b"twelve byt"


def test_exit_code_without_a_fault_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [cli._exit_code(code) for code in (None, 0, 1, 130)] == [0, 0, 1, 130]


@pytest.mark.parametrize("words", cli.CHECKS)
def test_checks_are_commands(words: str) -> None:
    found: object = typer.main.get_command(cli.app)
    for word in words.split():
        found = getattr(found, "commands", {}).get(word)
    assert found is not None


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("redirection", "code"),
    [(">&-", 0), (">&- 2>&- <&-", 0), (">/dev/full", 4), (">/dev/full 2>/dev/full", 4), ("2>/dev/full", 0)],
)
def test_redirected_streams_of_a_process(redirection: str, code: int) -> None:
    shell = f'PYTHONIOENCODING=ascii PYTHONUTF8=0 "{sys.executable}" -m lab score --list {redirection}'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "a bug in the lab" not in done.stderr
