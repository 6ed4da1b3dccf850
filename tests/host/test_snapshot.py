"""Frozen snapshots of a host: what is copied, what is cut, what is refused, and what a killed one leaves."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.base.errors import CannotMeasure, CannotWrite, UnusableInput
from lab.base.files import remove_folder
from lab.cli.init import _snapshot
from lab.host import snapshot
from lab.host.home import look
from lab.host.snapshot import (
    NAME,
    Snapshot,
    copy_database,
    copy_lines,
    copy_whole,
    open_snapshot,
    size_of,
    snapshots,
    take,
)
from lab.recordings.readers import read_library
from tests.host.hosts import add_session, contents, make_host


@pytest.fixture
def home(shared: Callable[..., Path], tmp_path: Path) -> Iterator[Path]:
    """A home with three transcripts, the recorded databases of a second agent, store and log."""
    made = make_host(shared, tmp_path / "home")
    shutil.copytree(shared("live", "sessions-2026.9.6", "agents", "main"), made / "agents" / "second")
    yield made
    if (tmp_path / "root").exists():
        remove_folder(tmp_path / "root")


def _take(home: Path, like: Snapshot | None = None, date: str = "2026-11-23", **named: Any) -> Snapshot:
    return take(look(home), home.with_name("root"), date=date, created=date, like=like, **named)


def test_snapshot_has_everything_and_can_only_be_read(home: Path) -> None:
    before = contents(home)
    said: list[str] = []
    taken = _take(home, announce=said.append)
    assert contents(home) == before
    assert (taken.path.name, taken.version, taken.rows, taken.cut, taken.left_out) == ("2026-11-23", 11, 9, {}, {})
    assert taken.sha256 == open_snapshot(taken.path, taken.sha256).sha256
    assert [one.conversation for one in read_library(taken.path, "openclaw").recordings] == [
        one.conversation for one in read_library(home, "openclaw").recordings
    ]
    assert {path.stat().st_mode & 0o777 for path in taken.path.rglob("*")} == {0o400, 0o500}
    assert taken.path.parent.stat().st_mode & 0o077 == 0
    # No key and no token of the host, only its engine's section.
    assert "stub-key" not in taken.engine.read_text("utf-8")
    assert not any(b"stub-token" in data for data in contents(taken.path).values())
    # Its size was said before, and is about right.
    assert said[0].startswith(f"snapshot of {home}: ")
    assert abs(size_of(look(home)) - taken.size) < 5_000


def test_second_snapshot_of_the_same_home_is_the_first(home: Path) -> None:
    first = _take(home)
    assert _take(home, first, "2026-11-24").path == first.path
    assert [path.name for path in snapshots(first.path.parent)] == ["2026-11-23"]
    add_session(home, "more-aaaa", 1795362000000, ["What is new in the garden today?"])
    second = _take(home, first)
    assert (second.path.name, second.sha256 == first.sha256) == ("2026-11-23-2", False)
    # What did not change takes no space twice.
    same = next(file.path for file in first.files if file.path.endswith("old0-aaaa.jsonl"))
    assert (first.path / same).samefile(second.path / same)
    assert not list(second.path.rglob("*.link"))
    assert open_snapshot(second.path, second.sha256) == second


def test_line_that_is_being_written_is_cut(home: Path) -> None:
    file = home / "agents" / "main" / "sessions" / "old1-aaaa.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"type": "message", "id": "half')
    taken = _take(home)
    assert taken.cut == {"agents/main/sessions/old1-aaaa.jsonl": 31}
    assert (taken.path / "agents/main/sessions/old1-aaaa.jsonl").read_bytes() == whole
    # A last line without a line break is whole if it is JSON.
    file.write_bytes(whole.rstrip(b"\n"))
    assert copy_lines(file, home.with_name("copy"), "x").file.bytes == len(whole) - 1


def test_line_that_is_being_written_is_cut_although_the_log_is_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, is_whole = tmp_path / "log", snapshot._is_whole
    log.write_bytes(b'{"id": 1}\n{"id": "half')

    def rotated(*given: Any) -> bool:
        log.write_bytes(b"")
        return is_whole(*given)

    monkeypatch.setattr(snapshot, "_is_whole", rotated)
    copied = copy_lines(log, tmp_path / "copy", "log")
    assert (copied.cut, (tmp_path / "copy").read_bytes()) == (12, b'{"id": 1}\n')


def test_files_that_are_written_meanwhile_are_copied_whole_or_not_at_all(tmp_path: Path) -> None:
    growing, database = tmp_path / "growing.jsonl", tmp_path / "growing.sqlite"
    connection = sqlite3.connect(database, check_same_thread=False, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE pairs (a, b)")
    growing.write_bytes(b"")
    stop = threading.Event()

    def write() -> None:
        number = 0
        with growing.open("ab", buffering=0) as file:
            while not stop.is_set():
                line = json.dumps({"n": number, "text": "x" * (number % 3000)}).encode() + b"\n"
                file.write(line[: len(line) // 2])
                file.write(line[len(line) // 2 :])
                connection.execute("BEGIN")
                connection.execute("INSERT INTO pairs VALUES (?, NULL)", (number,))
                connection.execute("UPDATE pairs SET b = a WHERE a = ?", (number,))
                connection.execute("COMMIT")
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for attempt in range(15):
            copied = copy_lines(growing, tmp_path / f"{attempt}.jsonl", "x")
            data = (tmp_path / f"{attempt}.jsonl").read_bytes()
            assert [json.loads(line)["n"] for line in data.splitlines()] == list(range(data.count(b"\n")))
            assert copied.file.bytes == len(data)
            copy_database(database, tmp_path / f"{attempt}.sqlite", "x")
            with sqlite3.connect(tmp_path / f"{attempt}.sqlite") as reading:
                assert reading.execute("SELECT count(*) FROM pairs WHERE b IS NOT a").fetchone() == (0,)
    finally:
        stop.set()
        writer.join()
        connection.close()


def test_file_that_never_stops_changing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sessions.json"
    file.write_bytes(b"{}")
    real = os.fstat

    def grown(handle: int) -> os.stat_result:
        with file.open("ab") as more:
            more.write(b" ")
        return real(handle)

    monkeypatch.setattr("lab.host.snapshot.os.fstat", grown)
    with pytest.raises(CannotMeasure, match="changed during each of 3 copies"):
        copy_whole(file, tmp_path / "copy", "x")


def test_damaged_files_are_named_and_left_out(home: Path) -> None:
    database = home / "agents" / "second" / "agent" / "openclaw-agent.sqlite"
    database.write_bytes(database.read_bytes()[:5000])
    (home / "agents" / "main" / "sessions" / "nul.jsonl").write_bytes(b"\0" * 300)
    found = look(home)
    assert {part.where: part.problem for part in found.damaged} == {
        "agents/second/agent/openclaw-agent.sqlite": "is truncated: 5000 of 262144 bytes; restore it from a backup",
        "agents/main/sessions/nul.jsonl": "its first line is no session header",
    }
    taken = _take(home)
    assert set(taken.left_out) == {part.where for part in found.damaged}
    assert [one.conversation for one in read_library(taken.path, "openclaw").recordings] == [
        "old0-aaaa",
        "old1-aaaa",
        "old2-aaaa",
    ]


def test_edited_snapshot_is_refused(home: Path) -> None:
    taken = _take(home)
    file = taken.path / "agents" / "main" / "sessions" / "old0-aaaa.jsonl"
    file.chmod(0o600)
    file.write_bytes(file.read_bytes().replace(b"spare", b"other"))
    with pytest.raises(UnusableInput, match=r"old0-aaaa\.jsonl has another sha256; the snapshot is damaged"):
        open_snapshot(taken.path)
    (taken.path / NAME).chmod(0o600)
    (taken.path / NAME).write_text((taken.path / NAME).read_text("utf-8").replace("old0", "old9"), "utf-8")
    with pytest.raises(UnusableInput, match="does not match its own digest"):
        open_snapshot(taken.path)
    with pytest.raises(UnusableInput, match="is no snapshot of a host"):
        open_snapshot(home)


def test_fresh_snapshot_uses_nothing_of_a_damaged_one(home: Path) -> None:
    first, root = _take(home), home.with_name("root")
    file = first.path / "agents" / "main" / "sessions" / "old0-aaaa.jsonl"
    file.chmod(0o600)
    file.write_bytes(file.read_bytes().replace(b"spare", b"other"))
    with pytest.raises(UnusableInput, match="--fresh takes a new one"):
        _snapshot(look(home), root, "2026-11-23", fresh=False)
    second = _snapshot(look(home), root, "2026-11-23", fresh=True)
    assert second.path.name == "2026-11-23-2"
    assert open_snapshot(second.path).sha256 == first.sha256


def test_snapshot_of_another_digest_is_refused(home: Path) -> None:
    with pytest.raises(UnusableInput, match="is not the snapshot that is named"):
        open_snapshot(_take(home).path, "0" * 64)


def test_snapshot_inside_the_home_is_refused(home: Path) -> None:
    with pytest.raises(UnusableInput, match="which is never written; choose another --out"):
        take(look(home), home / "snapshots", date="2026-11-23", created="x")
    assert not (home / "snapshots").exists()


def test_snapshot_without_room_is_refused_before_anything_is_copied(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.host.snapshot.shutil.disk_usage", lambda _: SimpleNamespace(free=1))
    with pytest.raises(CannotWrite, match=r"needs .* kB, and only 1 B are free"):
        _take(home)
    assert contents(home.with_name("root")) == {}


@pytest.mark.parametrize("at", [1, 4, 9, 30])
def test_full_disk_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    calls = [0]
    real = os.fsync

    def full(handle: int) -> None:
        calls[0] += 1
        if calls[0] == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CannotWrite):
            _take(home)
    assert calls[0] >= at
    assert contents(home.with_name("root")) == {}
    assert _take(home).version == 11


SCRIPT = """
import sys
from pathlib import Path
from lab.host.home import look
from lab.host.snapshot import take
print("ready", flush=True)
take(look(Path(sys.argv[1])), Path(sys.argv[2]), date="2026-11-23", created="x")
"""


@pytest.mark.process
def test_killed_snapshot_leaves_none_or_a_whole_one_and_can_be_repeated(home: Path) -> None:
    root, before = home.with_name("root"), contents(home)
    draws = random.Random(7)
    for _ in range(4):
        words = [sys.executable, "-c", SCRIPT, str(home), str(root)]
        running = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
        assert running.stdout is not None
        running.stdout.readline()
        time.sleep(draws.uniform(0, 1.5))
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        for path in snapshots(root):
            open_snapshot(path)
        if snapshots(root):
            remove_folder(root)
    assert contents(home) == before
    taken = _take(home)
    assert open_snapshot(taken.path, taken.sha256).rows == 9
    assert [path.name for path in root.iterdir()] == ["2026-11-23"]


def test_home_says_what_is_missing_and_which_store_is_used(home: Path, shared: Callable[..., Path]) -> None:
    shutil.copytree(shared("live", "lancedb", "memory-lancedb-2026.3.13"), home / "memory" / "other")
    found = look(home)
    assert found.store == home / "memory" / "lancedb"
    assert {part.where: part.used for part in found.parts if part.what == "store"} == {
        "memory/lancedb": True,
        "memory/other": False,
    }
    assert found.lacks == ()
    (home / "memory" / "lancedb").rename(home / "memory" / "third")
    # The store that is named is gone, and no other one takes its place.
    with pytest.raises(UnusableInput, match=r"config\.dbPath: .*memory/lancedb: no such folder"):
        look(home)
    config = json.loads((home / "openclaw.json").read_text("utf-8"))
    del config["plugins"]["entries"]["openclaw-mem-engine"]["config"]["dbPath"]
    (home / "openclaw.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(UnusableInput, match="several stores, none of which the configuration names: memory/other"):
        look(home)
    assert look(home, store=home / "memory" / "third").store == home / "memory" / "third"
    shutil.rmtree(home / "memory")
    (home / "gateway.log").unlink()
    assert [text.partition(":")[0] for text in look(home).lacks] == ["no LanceDB store", f"no log ({home}/gateway.log)"]


def test_damaged_store_that_would_be_used_is_refused(home: Path) -> None:
    for file in (home / "memory" / "lancedb" / "memories.lance" / "data").iterdir():
        file.write_bytes(b"")
    for file in (home / "memory" / "lancedb" / "memories.lance" / "_versions").iterdir():
        file.write_bytes(b"")
    with pytest.raises(UnusableInput, match="memory/lancedb: table 'memories' cannot be read"):
        look(home)
