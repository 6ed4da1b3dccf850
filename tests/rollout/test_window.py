"""The log of a window: what belongs to it, across rotation and cuts; and commands that hang or leave a daemon."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from pathlib import Path

import pytest

from lab.errors import CannotMeasure, UnusableInput
from lab.rollout import window
from lab.rollout.commands import NoRestart, await_orphan, restart_gateway, run_command
from lab.rollout.window import Tail, log_of, watch
from tests.canary.conftest import receipt_of

MARK = "openclaw-mem-engine:autoRecall.receipt"


def write(log: Path, *numbers: int, end: str = "\n") -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write("other line\n" + "\n".join(f"{MARK} {number}" for number in numbers) + end)


def numbers(tail: Tail) -> list[int]:
    return [int(line.split()[-1]) for line in tail.lines()]


def test_tail_begins_at_the_end_and_waits_for_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(log, 1, 2)
    tail = Tail(log)
    assert numbers(tail) == []
    write(log, 3, 4, end="")
    assert numbers(tail) == [3]
    with log.open("a", encoding="utf-8") as file:
        file.write("2\n")
    assert numbers(tail) == [42]
    write(log, 5)
    assert numbers(tail) == [5]
    tail.close()


def test_tail_follows_a_rotated_a_cut_and_a_new_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(log)
    assert numbers(tail) == []
    write(log, 1)
    assert numbers(tail) == [1]
    # Rotated between two looks: the rest of the old file comes first.
    write(log, 2)
    log.rename(tmp_path / "log.1")
    write(log, 3, 33)
    assert numbers(tail) == [2, 3, 33]
    # Cut to nothing and written again, as by copytruncate.
    log.write_text("", "utf-8")
    write(log, 4)
    assert numbers(tail) == [4]
    log.unlink()
    assert numbers(tail) == []
    write(log, 5)
    assert numbers(tail) == [5]
    tail.close()


def test_endless_line_takes_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "MAX_LINE", 100)
    log = tmp_path / "log"
    tail = Tail(log)
    log.write_bytes(b"x" * 10_000)
    assert tail.lines() == []
    assert len(tail._rest) == 200
    tail.close()


def test_window_keeps_the_lines_of_the_engine_for_its_owner(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", itertools.count()
    receipts = [json.dumps(receipt_of([f"m{n}", f"n{n}"], quota=None)) for n in range(60)]

    def sleep(seconds: float) -> None:
        # An audit takes a moment, and the next one waits for ten times as long.
        time.sleep(0.1)
        number = next(clock) % 60
        with log.open("a", encoding="utf-8") as file:
            file.write(f"2026-03-01T09:00:{number:02}.5Z {MARK} {receipts[number]}\n")
            file.write(f"2026-03-01T09:00:{number:02}.6Z a text of a user\n")

    tail = Tail(log)
    ended = watch(tail, tmp_path, recalls=5, seconds=600, sleep=sleep)
    tail.close()
    assert ended.complete
    assert ended.audit["recalls"]["answered"] >= 5
    kept = tmp_path / "receipts.log"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "a text of a user" not in kept.read_text("utf-8")


def test_window_without_recalls_ends_after_its_time(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "log")
    ended = watch(tail, tmp_path, recalls=5, seconds=0.2)
    tail.close()
    assert not ended.complete
    assert ended.audit["recalls"]["answered"] == 0


def test_log_of_a_copied_home_is_in_that_home(tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    assert log_of({"logging": {"file": "~/.openclaw/logs/g.log"}}, config) == tmp_path / "logs" / "g.log"
    assert log_of({"logging": {"file": "/var/log/g.log"}}, config) == Path("/var/log/g.log")
    assert log_of({"logging": {}}, config) is None


def test_log_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").touch()
    with contextlib.closing(Tail(tmp_path / "log")) as tail:

        def fails() -> list[bytes]:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(tail, "_more", fails)
        with pytest.raises(CannotMeasure, match=f"^{tmp_path}/log: cannot be read: Input/output error$"):
            watch(tail, tmp_path, recalls=5, seconds=1)


def test_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="Is a directory"):
        Tail(tmp_path)


@pytest.mark.process
def test_command_that_leaves_a_daemon_is_not_waited_for() -> None:
    begun = time.monotonic()
    # The daemon holds the output open.
    ended = run_command("sleep 30 & echo started", 20)
    assert ended == (0, "started")
    assert time.monotonic() - begun < 10


@pytest.mark.process
def test_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    ended = run_command(f"echo begun; (sleep 3; touch {tmp_path}/late) & wait", 0.5)
    assert ended.code is None
    assert ended.why(0.5) == "took more than 0.5 s: begun"
    time.sleep(3)
    assert not (tmp_path / "late").exists()


@pytest.mark.process
def test_restart_waits_for_the_check(tmp_path: Path) -> None:
    mark, note = tmp_path / "up", tmp_path / "restarting"
    restart_gateway(f"(sleep 0.7; touch {mark}) & true", f"test -e {mark}", 20, note)
    assert mark.exists()
    with pytest.raises(NoRestart, match="spelt right"):
        restart_gateway("no-such-program-here", None, 20, note)
    assert not note.exists()


@pytest.mark.process
def test_restart_that_outlived_its_canary_is_waited_for(tmp_path: Path) -> None:
    note, mark = tmp_path / "restarting", tmp_path / "done"
    run_command(f"setsid sh -c 'echo $$ >{note}; sleep 1; touch {mark}' & sleep 0.3", 20)
    await_orphan(note, 20)
    assert mark.exists()
    # One that hangs is ended.
    run_command(f"setsid sh -c 'echo $$ >{note}; sleep 60; touch {mark}2' & sleep 0.3", 20)
    begun = time.monotonic()
    await_orphan(note, 0.5)
    assert time.monotonic() - begun < 10
    note.write_text("999999999", "ascii")
    await_orphan(note, 20)
