"""Files that are followed: every line once, across rotation, cuts, copies, packing, restarts and partial lines."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import time
from pathlib import Path

import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.canary.audit.lines import MARKER, MAX_LINE
from lab.canary.rollout.follow import Follower, log_files, transcript_files

WANTED = b"mark"


class Log:
    """A log and a reader of it that may be restarted at any time."""

    def __init__(self, path: Path) -> None:
        self.path, self.count, self.read = path, 0, list[int]()
        self.follower = Follower(log_files(path))
        self.saved = time.time()

    def write(self, lines: int = 3, path: Path | None = None) -> None:
        with (path or self.path).open("a", encoding="utf-8") as file:
            for _ in range(lines):
                self.count += 1
                file.write(f"{time.time_ns()} some words that make the line long enough mark {self.count}\nother\n")

    def look(self) -> None:
        self.saved = time.time()
        self.read += [int(line.split()[-1]) for line in self.follower.more(WANTED)]

    def restart(self) -> None:
        places = json.loads(json.dumps(self.follower.as_json()))
        self.follower = Follower(log_files(self.path), places, self.saved)

    def check(self) -> None:
        self.look()
        assert sorted(self.read) == list(range(1, self.count + 1))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "gateway.log")


def test_existing_lines_are_not_read_and_later_files_from_their_beginning(tmp_path: Path) -> None:
    (tmp_path / "gateway.log").write_text("old mark 1\nold mark", "utf-8")
    log = Log(tmp_path / "gateway.log")
    log.look()
    with log.path.open("a", encoding="utf-8") as file:
        file.write(" 7\n")
    log.look()
    # A line that had begun before ends in the watch, and belongs to it.
    assert log.read == [7]


def test_log_that_appears_later(log: Log) -> None:
    log.look()
    log.write()
    log.check()


def test_partial_line_waits_for_its_end(log: Log) -> None:
    log.write()
    with log.path.open("a", encoding="utf-8") as file:
        file.write("mark 4")
    log.look()
    log.restart()
    log.look()
    assert log.read == [1, 2, 3]
    with log.path.open("a", encoding="utf-8") as file:
        file.write("2\n")
    log.look()
    assert log.read[-1] == 42


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("how", ["rename", "copytruncate", "delete", "gzip", "twice"])
def test_rotation(log: Log, how: str, restarted: bool) -> None:
    log.write(20)
    log.look()
    log.write(20)
    old = log.path.with_name("gateway.log.1")
    if how in ("rename", "gzip", "twice"):
        log.path.rename(old)
    if how == "twice":
        log.write(20)
        old.rename(log.path.with_name("gateway.log.2"))
        log.path.rename(old)
    if how == "copytruncate":
        shutil.copy(log.path, old)
        os.truncate(log.path, 0)
    if how == "delete":
        log.look()
        log.path.unlink()
    if how == "gzip":
        with gzip.open(old.with_suffix(".1.gz"), "wb") as packed:
            packed.write(old.read_bytes())
        old.unlink()
    if restarted:
        log.restart()
    log.write(20)
    log.check()
    log.restart()
    log.write(20)
    log.check()


def test_copies_are_not_read_again(log: Log) -> None:
    log.write(20)
    log.look()
    log.write(20)
    copy = log.path.with_name("gateway.log.bak")
    data = log.path.read_bytes()
    copy.write_bytes(data[: len(data) // 2])
    log.look()
    # The copy is made while the log grows.
    copy.write_bytes(data)
    log.write(20)
    log.check()
    log.restart()
    log.write(20)
    log.check()


def test_cut_in_the_middle_counts_nothing_again(log: Log) -> None:
    log.write(60)
    log.look()
    os.truncate(log.path, 3000)
    log.look()
    with log.path.open("a", encoding="utf-8") as file:
        file.write("\n")
    log.write(5)
    log.check()


def test_endless_line_is_left_out(log: Log) -> None:
    log.write()
    log.look()
    with log.path.open("ab") as file:
        file.write(b"mark " * MAX_LINE)
    log.look()
    log.restart()
    with log.path.open("ab") as file:
        file.write(b"mark 99\n")
    log.write()
    log.check()


def test_random_life_of_a_log(tmp_path: Path) -> None:
    for seed in range(30):
        draw = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        log = Log(folder / "gateway.log")
        for number in range(25):
            log.write(draw.randrange(25))
            step = draw.randrange(6)
            if step == 0 and log.path.exists():
                log.path.rename(log.path.with_name(f"gateway.log.{number}"))
            elif step == 1 and log.path.exists():
                shutil.copy(log.path, log.path.with_name(f"gateway.log.{number}"))
                os.truncate(log.path, 0)
            elif step == 2:
                log.restart()
            elif step > 3:
                log.look()
        log.check()


def test_transcripts_of_a_home_that_are_renamed_by_a_reset(tmp_path: Path) -> None:
    follower = Follower(transcript_files([tmp_path]))
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    head = json.dumps({"type": "session", "id": "s1", "padding": "x" * 80})
    (folder / "s1.jsonl").write_text(f"{head}\nmark 1\n", "utf-8")
    assert list(follower.more(WANTED)) == [b"mark 1"]
    (folder / "s1.jsonl").rename(folder / "s1.jsonl.reset.2026-11-22T15-28-19.552Z")
    with (folder / "s1.jsonl.reset.2026-11-22T15-28-19.552Z").open("a", encoding="utf-8") as file:
        file.write("mark 2\n")
    (folder / "s2.jsonl").write_text("mark 3\n", "utf-8")
    assert list(follower.more(WANTED)) == [b"mark 2", b"mark 3"]


def test_date_in_the_name_of_a_log(tmp_path: Path) -> None:
    follower = Follower(log_files(tmp_path / "openclaw-*.log"))
    for day in (1, 2):
        (tmp_path / f"openclaw-2026-11-0{day}.log").write_text(f"mark {day}\n", "utf-8")
        assert list(follower.more(WANTED)) == [f"mark {day}".encode()]


def test_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match=r"is a folder; name the log in it$"):
        log_files(tmp_path)


def test_log_that_cannot_be_read_any_more_is_named(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write()

    def fails(path: Path, mode: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", fails)
    with pytest.raises(CannotMeasure, match=f"^{log.path}: cannot be read: Input/output error$"):
        log.look()


def _marked_line(number: int) -> str:
    return f"09:00:{number:02} openclaw-mem-engine:autoRecall.receipt " + '{"n":' + "1" * number + "}"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_lines_in_utf_16_are_followed(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "gateway.log"
    # The first letter's bytes contain those of a line feed.
    path.write_bytes("".join(f"\u0a0d {_marked_line(number)}\n" for number in range(9)).encode(encoding))
    follower = Follower(log_files(path))
    later = encoding if encoding != "utf-16" else "utf-16-le"
    for number in (10, 20):
        line = f"\u0a0d {_marked_line(number)}\n".encode(later)
        with path.open("ab") as file:
            file.write(line[:-40])
        assert list(follower.more(MARKER)) == []
        with path.open("ab") as file:
            file.write(line[-40:])
        follower = Follower(log_files(path), json.loads(json.dumps(follower.as_json())))
        assert list(follower.more(MARKER)) == [f"\u0a0d {_marked_line(number)}".encode()]


def test_parts_of_a_record_are_followed_as_one_line(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"2026-03-01T09:00:00Z stdout F starting\n" * 3)
    follower = Follower(log_files(path))
    text = _marked_line(30).encode()
    with path.open("ab") as file:
        file.write(b"2026-03-01T09:00:01Z stdout P " + text[:50] + b"\n")
    # The record is not complete yet.
    assert list(follower.more(MARKER)) == []
    with path.open("ab") as file:
        file.write(b"2026-03-01T09:00:01Z stderr F other\n2026-03-01T09:00:01Z stdout F " + text[50:] + b"\n")
    assert list(follower.more(MARKER)) == [b"2026-03-01T09:00:01Z stdout F " + text]
    assert list(follower.more(MARKER)) == []


def test_bytes_of_a_marker_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    path.write_bytes(b"{}\n")
    follower = Follower(log_files(path))
    line = json.dumps({"MESSAGE": list(_marked_line(3).encode())})
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n{{}}\n")
    assert list(follower.more(MARKER)) == [line.encode()]
