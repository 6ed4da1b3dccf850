"""Capture of sessions, and rotation of a log whose lines stay reachable (LD-9, LD-10)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.ledger import archive as ledger_archive
from lab.memory.ledger import ledger
from lab.memory.ledger.archive import archive, archived_logs, capture, pointer
from lab.memory.ledger.ingest import ingest
from tests.memory.ledger.ledgers import write_log

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"


def raw(path: Path, number: int) -> str | None:
    with ledger.open_ledger(path) as connection:
        place = pointer(connection, number)
    return None if place is None else json.loads(place.read())["summary"]


def session(path: Path, texts: list[str], *, name: str = "s1") -> Path:
    """Write a transcript with one call of a tool for each text."""
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": name}]
    for number, text in enumerate(texts):
        message = {"role": "toolResult", "toolName": "exec", "toolCallId": f"c{number}", "isError": False}
        content = [{"type": "text", "text": text}]
        lines.append(
            {
                "type": "message",
                "id": f"e{number}",
                "timestamp": f"2026-11-20T10:00:0{number}.000Z",
                "message": {**message, "content": content},
            }
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def observations(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_rotated_lines_stay_reachable(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [{"summary": "one"}, {"summary": "兩"}])
    ingest(path, log)
    data = log.read_bytes()
    dry = archive(path, log)
    assert (log.exists(), archived_logs(log)) == (True, [])
    done = archive(path, log, write=True)
    assert (Path(done["archived"]).read_bytes(), log.exists(), done["archived"]) == (data, False, dry["archived"])
    assert (raw(path, 1), raw(path, 2), raw(path, 3)) == ("one", "兩", None)
    # A new log at the old place, and another rotation.
    write_log(log, [{"summary": "three"}])
    ingest(path, log)
    assert (raw(path, 1), raw(path, 3)) == ("one", "three")
    archive(path, log, write=True)
    assert (raw(path, 1), raw(path, 3), len(archived_logs(log))) == ("one", "three", 2)
    # The same command again says what it did.
    assert archive(path, log, write=True)["lines"] == 1
    # Archives may be moved on: ingest learns their place.
    moved = archived_logs(log)[0].rename(tmp_path / "elsewhere.jsonl")
    gone = [raw(path, 1), raw(path, 3)]
    assert gone.count(None) == 1
    ingest(path, moved)
    assert (raw(path, 1), raw(path, 3)) == ("one", "three")


def test_logs_with_lines_to_ingest_are_not_rotated(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [{"summary": "one"}])
    ingest(path, log)
    with log.open("a") as file:
        file.write('{"summary": "cut')
    with pytest.raises(UnusableInput, match="16 bytes are not ingested; run: lab memory ledger ingest"):
        archive(path, log, write=True)
    with pytest.raises(UnusableInput, match="no such file"):
        archive(path, tmp_path / "none.jsonl", write=True)
    other = write_log(tmp_path / "other.jsonl", [{"summary": "other"}])
    with pytest.raises(UnusableInput, match="are not ingested"):
        archive(path, other, write=True)


def test_another_file_in_the_archive_is_kept(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [{"summary": "one"}])
    ingest(path, log)
    target = Path(archive(path, log)["archived"])
    target.parent.mkdir()
    target.write_text("mine")
    with pytest.raises(UnusableInput, match="exists and is another file; choose a new folder with --to"):
        archive(path, log, write=True)
    assert (target.read_text(), log.exists()) == ("mine", True)
    assert archive(path, log, folder=tmp_path / "b", write=True)["archived"].startswith(str(tmp_path / "b"))


def test_of_a_link_the_file_is_rotated(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [{"summary": "one"}])
    (tmp_path / "link.jsonl").symlink_to(log)
    ingest(path, tmp_path / "link.jsonl")
    archived = Path(archive(path, tmp_path / "link.jsonl", write=True)["archived"])
    assert (archived.is_symlink(), archived.parent, log.exists(), raw(path, 1)) == (
        False,
        tmp_path / "archive",
        False,
        "one",
    )


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_kill_between_the_ledger_and_the_move_is_mended(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [{"summary": "one"}])
    ingest(path, log)
    move = ledger_archive._move

    def killed(source: Path, target: Path) -> None:
        if step == "after":
            move(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger_archive, "_move", killed)
    with pytest.raises(KeyboardInterrupt):
        archive(path, log, write=True)
    monkeypatch.undo()
    assert raw(path, 1) == "one"
    assert Path(archive(path, log, write=True)["archived"]).exists()
    assert (raw(path, 1), log.exists()) == ("one", False)


def test_capture_appends_each_result_once(tmp_path: Path) -> None:
    log, path = tmp_path / "o.jsonl", tmp_path / "l.sqlite"
    transcript = session(tmp_path / "s1.jsonl", ["first", f"token {TOKEN} " + "x" * 300])
    assert (len(capture(transcript, log, write=False).lines), log.exists()) == (2, False)
    done = capture(transcript, log)
    assert (done.tools, done.redacted, done.cut) == (2, 1, 1)
    assert TOKEN not in log.read_text()
    assert os.stat(log).st_mode & 0o077 == 0
    first, second = observations(log)
    assert first == {
        "ts": "2026-11-20T10:00:00.000Z",
        "session_id": "s1",
        "kind": "tool",
        "tool_name": "exec",
        "summary": "first",
        "detail": {"is_error": False, "chars": 5, "ref": "s1#e0"},
    }
    assert len(second["summary"]) <= 200
    session(transcript, ["first", f"token {TOKEN} " + "x" * 300, "third"])
    assert len(capture(transcript, log).lines) == 1
    # Rotation does not make it capture again.
    ingest(path, log)
    archive(path, log, write=True)
    again = capture(transcript, log)
    assert (again.already, len(again.lines), log.exists()) == (3, 0, False)


def test_capture_does_not_repeat_logs_rotated_to_another_folder(tmp_path: Path) -> None:
    # The name would be a pattern.
    log, path, folder = tmp_path / "o[1].jsonl", tmp_path / "l.sqlite", tmp_path / "kept"
    transcript = session(tmp_path / "s1.jsonl", ["first", "second"])
    for count in (2, 3):
        session(transcript, ["first", "second", "third"][:count])
        capture(transcript, log, archive=folder)
        ingest(path, log)
        archive(path, log, folder=folder, write=True)
    assert capture(transcript, log, archive=folder).already == 3
    assert [raw(path, number) for number in (1, 2, 3, 4)] == ["first", "second", "third", None]


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_capture_mends_a_line_that_a_kill_cut(tmp_path: Path, cut: int) -> None:
    log, path = tmp_path / "o.jsonl", tmp_path / "l.sqlite"
    transcript = session(tmp_path / "s1.jsonl", ["first", "second"])
    capture(transcript, log)
    log.write_bytes(log.read_bytes()[:-cut])
    capture(transcript, log)
    ingest(path, log)
    with ledger.open_ledger(path) as connection:
        assert [row.summary for row in ledger.observations(connection)] == ["first", "second"]


@pytest.mark.parametrize("version", ["sessions-2026.6.11", "sessions-2026.9.6"])
def test_capture_of_real_sessions_keeps_the_memory_and_its_id(shared: Any, tmp_path: Path, version: str) -> None:
    log = tmp_path / "o.jsonl"
    capture(shared("live", version), log, messages=True)
    stored = [item for item in observations(log) if item["tool_name"] == "memory_store"]
    assert len(stored) >= 5
    for item in stored:
        assert not item["summary"].startswith("Stored memory")
        assert len(item["detail"]["memory_id"]) == 36
        assert item["detail"]["scope"] == "global"
    refs = [item["detail"]["ref"] for item in observations(log)]
    assert len(refs) == len(set(refs))
    assert any(item["detail"].get("role") == "user" for item in observations(log))
    # The calls of tools through tool search count once, as the tool that was called.
    assert "tool_call" not in {item["tool_name"] for item in observations(log)}


@pytest.mark.parametrize("data", [b"SQLite format 3\0", b"# Notes\n\nfirst\n", b'{"id": "fact_1"}\n'])
def test_capture_appends_to_no_file_that_is_no_log(tmp_path: Path, data: bytes) -> None:
    log = tmp_path / "l.sqlite"
    log.write_bytes(data)
    with pytest.raises(UnusableInput, match="name the log to append to"):
        capture(tmp_path, log)
    assert log.read_bytes() == data


def test_capture_of_no_session_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("{}\n")
    with pytest.raises(UnusableInput, match="has no session of OpenClaw that can be read"):
        capture(tmp_path / "x.jsonl", tmp_path / "o.jsonl")
