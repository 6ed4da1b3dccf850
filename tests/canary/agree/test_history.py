"""The rows of a live store over time: deleted ones, and those that an engine saw late."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.canary.agree.history import created_in, deleted_rows, seen_late, write_store
from lab.canary.agree.logged import Logged
from lab.golden.model import GoldenSet
from lab.recordings.formats import format_named
from lab.recordings.model import Recording, Turn
from lab.recordings.readers import Library
from lab.replay.memories_from import read_stored, with_stored
from lab.retrieval.quiet import import_lancedb, quiet_lance

START = 1_700_000_000_000


def row(name: str, minute: int = 0) -> dict[str, Any]:
    about = {"category": "fact", "importance": 0.5, "importance_label": "nice_to_have", "scope": "global"}
    created = float(START + 60_000 * minute)
    return {"id": name, "text": f"text of {name}", "vector": [1.0, float(minute)], "createdAt": created, **about}


@pytest.fixture
def table(tmp_path: Path) -> Any:
    with quiet_lance():
        return import_lancedb().connect(str(tmp_path / "db")).create_table("memories", [row("a"), row("b", 1)])


def test_rows_that_were_deleted_come_back_with_their_time(table: Any, tmp_path: Path) -> None:
    before = time.time() * 1000
    table.delete("id = 'b'")
    after = time.time() * 1000
    table.add([row("c", 2)])
    # A row that is replaced is not gone.
    table.delete("id = 'a'")
    table.add([row("a")])
    gone, note = deleted_rows(tmp_path / "db")
    assert gone is not None
    assert (gone["id"].to_pylist(), gone["text"].to_pylist(), note) == (["b"], ["text of b"], None)
    assert before - 1 <= gone["deletedAt"][0].as_py() <= after + 1


def test_what_was_compacted_away_is_said_to_be_unknown(table: Any, tmp_path: Path) -> None:
    table.delete("id = 'b'")
    with quiet_lance():
        table.optimize(cleanup_older_than=timedelta(0))
    gone, note = deleted_rows(tmp_path / "db")
    assert gone is None
    assert note is not None
    assert note.endswith("is unknown")
    assert "older versions were compacted away; what was deleted before 20" in note


def logged(time_ms: int, *ids: str) -> Logged:
    return Logged(time_ms, None, "log:1", {"vecTop": [{"id": one} for one in ids]})


def test_an_old_handle_sees_what_was_stored_when_it_was_opened_anew() -> None:
    created = {"a": 10, "b": 20, "c": 30, "d": 90}
    recalls = [logged(15), logged(25, "a"), logged(35, "a"), logged(40, "a"), logged(50, "c"), logged(60, "a")]
    # At 25 it listed a, so that it had opened the table then, with b; at 50 it listed a newer one.
    assert seen_late(recalls, created) == {"a": 25, "b": 25, "c": 50}


def library(*turns: Turn) -> Library:
    recordings = (Recording("c", turns, ()),)
    return Library(format_named("lab"), "recorded", recordings, GoldenSet(), ())


def test_a_store_over_time_places_its_rows_at_turns(table: Any, tmp_path: Path) -> None:
    table.delete("id = 'b'")
    gone, _ = deleted_rows(tmp_path / "db")
    rows = table.to_arrow()
    assert created_in(rows) == {"a": START}
    folder = write_store(tmp_path / "out", rows, gone, {"a": START + 150_000, "b": START + 90_000})
    stored = read_stored(folder)
    assert [memory.key for memory in stored.memories] == ["a", "b"]
    far = START + 60_000 * 10**7
    assert stored.over_time["a"] == (START + 150_000, None)
    turns = tuple(Turn(f"t{at}", at, "s", "user", "x", START + 60_000 * at) for at in range(4))
    turns = (*turns, Turn("t4", 4, "s", "user", "x", far))
    found = with_stored(library(*turns), stored)
    a, b = found.recordings[0].memories
    assert (a.visible_from, a.visible_until, b.visible_from, b.visible_until) == (3, None, 2, 4)
    # Another time is another input.
    assert with_stored(library(*turns), stored._replace(over_time={})).stored != found.stored
