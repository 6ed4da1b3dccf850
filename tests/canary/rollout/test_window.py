"""The log of a window: what belongs to it, across rotation and cuts; and commands that hang or leave a daemon."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pytest

from lab.canary.rollout.commands import NoRestart, await_orphan, restart_gateway, run_command
from lab.canary.rollout.follow import Follower, log_files, log_of, watch
from tests.canary.conftest import receipt_of
from tests.commands import lives

MARK = "openclaw-mem-engine:autoRecall.receipt"


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

    ended = watch(Follower(log_files(log)), tmp_path, recalls=5, seconds=600, sleep=sleep)
    assert ended.complete
    assert ended.audit["recalls"]["answered"] >= 5
    kept = tmp_path / "receipts.log"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "a text of a user" not in kept.read_text("utf-8")


def test_window_ends_when_its_sessions_decide(tmp_path: Path) -> None:
    log, clock = tmp_path / "log", itertools.count()
    receipt, seen = json.dumps(receipt_of(["m", "n"], quota=None)), list[int]()

    def sleep(_: float) -> None:
        time.sleep(0.05)
        number = next(clock)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"2026-03-01T{number:02}:00:00.5Z {MARK} {receipt}\n")

    def decides(audit: dict[str, Any]) -> bool:
        seen.append(audit["sessions"]["closed"])
        return seen[-1] >= 3

    given = {"recalls": 20, "seconds": 600.0, "sleep": sleep}
    ended = watch(Follower(log_files(log)), tmp_path, decides=decides, **given)
    assert ended.complete
    assert seen == sorted(set(seen))
    assert (seen[-1], ended.audit["sessions"]["open"]) == (ended.audit["sessions"]["closed"], 1)
    # At its own end, what is open counts.
    assert ended.audit["recalls"]["answered"] < 20
    other = tmp_path / "other"
    other.mkdir()
    full = watch(Follower(log_files(log)), other, recalls=2, seconds=600.0, sleep=sleep)
    assert full.audit["sessions"]["open"] == 0


def test_window_without_recalls_ends_after_its_time(tmp_path: Path) -> None:
    ended = watch(Follower(log_files(tmp_path / "log")), tmp_path, recalls=5, seconds=0.2)
    assert not ended.complete
    assert ended.audit["recalls"]["answered"] == 0


def test_log_of_a_copied_home_is_in_that_home(tmp_path: Path) -> None:
    config = tmp_path / "openclaw.json"
    assert log_of({"logging": {"file": "~/.openclaw/logs/g.log"}}, config) == tmp_path / "logs" / "g.log"
    assert log_of({"logging": {"file": "/var/log/g.log"}}, config) == Path("/var/log/g.log")
    assert log_of({"logging": {}}, config) is None


def test_window_reads_the_log_of_the_next_day(tmp_path: Path) -> None:
    receipt = json.dumps(receipt_of(["m", "n"], quota=None))

    def line(hour: int) -> str:
        return f"2026-03-0{1 if hour > 9 else 2}T{hour:02}:00:00.5Z {MARK} {receipt}\n"

    (tmp_path / "openclaw-2026-03-01.log").write_text(line(21) + line(22), "utf-8")
    log = Follower(log_files(tmp_path / "openclaw-*.log"))

    def sleep(seconds: float) -> None:
        with (tmp_path / "openclaw-2026-03-01.log").open("a", encoding="utf-8") as file:
            file.write(line(23))
        (tmp_path / "openclaw-2026-03-02.log").write_text(line(0), "utf-8")

    ended = watch(log, tmp_path, recalls=2, seconds=600, sleep=sleep)
    assert ended.audit["recalls"]["answered"] == 2


@pytest.mark.process
def test_command_that_leaves_a_daemon_is_not_waited_for() -> None:
    # The daemon holds the output open. Whoever waited for it would be told that the command took too long.
    assert run_command("sleep 90 & echo started", 60) == (0, "started")


@pytest.mark.process
def test_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    ended = run_command(f"echo begun; sleep 90 & echo $! >{tmp_path}/child; wait", 0.5)
    assert ended.code is None
    assert ended.why(0.5) == "took more than 0.5 s: begun"
    last = time.monotonic() + 60
    while lives(int((tmp_path / "child").read_text("ascii"))):
        assert time.monotonic() < last
        time.sleep(0.02)


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
    await_orphan(note, 0.5)
    assert not Path(f"{mark}2").exists()
    note.write_text("999999999", "ascii")
    await_orphan(note, 20)
