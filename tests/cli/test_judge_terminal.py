"""Judging in a real 80 by 24 terminal: killed, continued, and locked for others."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest

from lab.golden.files import read_golden
from lab.golden.pool import Pool, Pooled, PooledTurn


class Terminal:
    """A command on a terminal of 80 by 24, and what its screen shows."""

    def __init__(self, *command: str, cwd: Path) -> None:
        self._keys, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            command, stdin=inside, stdout=inside, stderr=inside, cwd=cwd, env=environment, start_new_session=True
        )
        os.close(inside)
        self.written = b""
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)

    def press(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def wait_for(self, text: str, seconds: float = 20) -> str:
        """The screen as soon as it shows a text."""
        end = time.monotonic() + seconds
        while text not in (screen := "\n".join(self._screen.display)):
            assert time.monotonic() < end, f"no {text!r} on:\n{screen}"
            if select.select([self._keys], [], [], 0.05)[0]:
                try:
                    read = os.read(self._keys, 1 << 16)
                except OSError:  # the other side is closed
                    assert self.process.wait(5) is not None
                    continue
                self.written += read
                self._stream.feed(read)
                if b"\x1b[6n" in read:
                    self.press("\x1b[1;1R")
        return screen

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._keys)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        one.close()


@pytest.mark.process
def test_killed_judging_continues_at_the_same_turn(tmp_path: Path, operators: Path, terminals: list[Terminal]) -> None:
    from lab.golden.model import GoldenSet
    from lab.recordings.readers import read_library
    from lab.replay.pool import content

    source = operators / "lantern-shop.jsonl"
    library = read_library(source, "lab")
    (recording,) = library.recordings
    turns = [turn.key for turn in recording.turns if turn.role == "user"][20:22]
    keys = [memory.key for memory in recording.memories][:3]
    assert library.golden == GoldenSet()
    pool = Pool(
        *(6, ("hybrid",), 0, str(source), "lab", "recorded", None, "none", content(library)),
        tuple(PooledTurn(turn, tuple(Pooled(key, {"hybrid": 1}) for key in keys)) for turn in turns),
    )
    (tmp_path / "pool.jsonl").write_bytes(pool.as_bytes())
    command = (sys.executable, "-m", "lab", "golden", "judge", "pool.jsonl", "--out", "gold.jsonl")

    first = Terminal(*command, cwd=tmp_path)
    terminals.append(first)
    first.wait_for("0 of 3 judged")
    first.press("2")
    first.wait_for("1 of 3 judged")
    first.press("r")
    first.wait_for("what does this turn test?")
    first.press("a")
    screen = first.wait_for("2/2, 1 done")
    assert screen.count("\n") == 23
    first.process.kill()
    first.process.wait()
    (half := tmp_path / f".gold.judging.{first.process.pid}.x.part").write_bytes(b"as if killed while it wrote")
    (tmp_path / "gold.jsonl").write_bytes(b"")  # or between the two files
    # NO_COLOR: no colour is set, whatever else is.
    assert b"\x1b[0;36m" not in first.written
    assert b";36m" not in first.written

    second = Terminal(*command, cwd=tmp_path)
    terminals.append(second)
    second.wait_for("2/2, 1 done")
    assert len(read_golden(tmp_path / "gold.jsonl").probes) == 1
    assert not half.exists()
    third = Terminal(*command[:-1], "other.jsonl", cwd=tmp_path)
    terminals.append(third)
    third.wait_for("error:")
    assert third.process.wait(10) == 4
    second.press("x")
    second.wait_for("every turn is judged or skipped")
    second.press("q")
    second.wait_for("2 of 2 turns done")
    assert second.process.wait(10) == 0
    probes = read_golden(tmp_path / "gold.jsonl").probes
    assert [(probe.turn, probe.grades) for probe in probes] == [(turns[0], {keys[0]: 2}), (turns[1], {})]
