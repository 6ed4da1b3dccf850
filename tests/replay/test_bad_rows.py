"""A row of a store that cannot be read is left out and counted; the other rows are as without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.replay.memories_from import read_stored
from lab.retrieval.quiet import import_lancedb, quiet_lance
from tests.replay.test_memories_from import row as small_row
from tests.replay.test_memories_from import uuid


def row(number: int, **changes: Any) -> dict[str, Any]:
    return small_row(number, **{"createdAt": 1777886970000.0 + number, **changes})


def write(folder: Path, rows: list[Any], name: str = "export.jsonl") -> Path:
    """Write an export: JSON Lines, or a list if the name ends in .json."""
    path = folder / name
    path.write_text(json.dumps(rows) if name.endswith(".json") else "".join(json.dumps(one) + "\n" for one in rows))
    return path


def table(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """Write a LanceDB table."""
    with quiet_lance():
        made = import_lancedb().connect(str(folder))
        made.create_table("memories", [{"vector": [0.5] * 8} | one for one in rows])
    return folder


BAD: list[tuple[str, Any, str]] = [
    *(
        (name, value, f"field '{name}'")
        for name in ("id", "text", "category", "scope", "trust_tier")
        for value in (7, [])
    ),
    *((name, {}, f"field '{name}'") for name in ("importance_label", "source_kind", "lang", "media_kind")),
    ("id", None, "field 'id'"),
    ("id", " ", "field 'id' is blank"),
    ("id", "a\ud800", "half a character"),
    ("id", uuid(1), "an earlier row has its id"),
    ("importance", [1], "field 'importance'"),
    ("importance", True, "field 'importance'"),
    ("hard_rule", "yes", "field 'hard_rule'"),
    ("due_at", "soon", "field 'due_at'"),
    ("media_refs", 7, "field 'media_refs'"),
    ("createdAt", "soon", "field 'createdAt'"),
    ("createdAt", True, "field 'createdAt'"),
    ("createdAt", float("inf"), "field 'createdAt'"),
]


@pytest.mark.parametrize("ending", [".jsonl", ".json"])
@pytest.mark.parametrize(("name", "value", "why"), BAD)
def test_read_stored_one_bad_row_is_left_out_and_counted(
    tmp_path: Path, name: str, value: Any, why: str, ending: str
) -> None:
    sound = [row(1), row(2), row(4)]
    bad = row(3, **{name: value})
    alone = read_stored(write(tmp_path, sound, f"sound{ending}"))
    for place in (1, 2, 3) if value == uuid(1) else (0, 1, 3):
        stored = read_stored(path := write(tmp_path, [*sound[:place], bad, *sound[place:]], f"bad{ending}"))
        assert stored.memories == alone.memories
        (note,) = stored.notes
        assert note.startswith(f"{path}: rows left out, because ")
        assert why in note
        assert note.endswith(": 1")
        assert "soon" not in note


def test_read_stored_bad_rows_are_counted_by_kind(tmp_path: Path) -> None:
    path = write(
        tmp_path, [row(1), row(2, scope=1), row(3, scope=2), row(4, id=5), row(1, text="again"), row(5, text=None)]
    )
    stored = read_stored(path)
    assert [memory.text for memory in stored.memories] == ["memory 1"]
    assert stored.notes == (
        f"{path}: rows left out, because field 'scope': expected a string, found a number: 2",
        f"{path}: rows left out, because field 'id': expected a string, found a number: 1",
        f"{path}: rows left out, because an earlier row has its id, which the plugin reads in its place: 1",
        f"{path}: rows without a text, which only profile upstream searches: 1",
    )


def test_read_stored_row_that_is_no_object_is_left_out(tmp_path: Path) -> None:
    stored = read_stored(write(tmp_path, [row(1), [7], None, row(2)], "e.json"))
    assert [memory.key for memory in stored.memories] == [uuid(1), uuid(2)]
    assert sum("rows left out, because expected an object" in note for note in stored.notes) == 2


def test_read_stored_bad_row_does_not_hide_a_sound_one_with_its_id(tmp_path: Path) -> None:
    stored = read_stored(write(tmp_path, [row(1, scope=7), row(1, text="sound"), row(2)]))
    assert [memory.text for memory in stored.memories] == ["sound", "memory 2"]


@pytest.mark.parametrize("nothing", ["text", "id"])
def test_read_stored_table_row_with_a_null_is_left_out(tmp_path: Path, nothing: str) -> None:
    folder = table(tmp_path, [row(1), row(2, **{nothing: None}), row(3), row(3, text="again")])
    stored = read_stored(folder)
    assert [(memory.key, memory.text) for memory in stored.memories] == [
        (uuid(1), "memory 1"),
        (uuid(3), "memory 3"),
    ]
    assert len(stored.notes) == 2


@pytest.mark.parametrize(("name", "value"), [("timestamp", 1.7e12), ("created_at", "2026-05-04T09:30:00Z")])
def test_read_stored_time_columns_of_other_writers_are_read(tmp_path: Path, name: str, value: Any) -> None:
    rows = [
        {"id": uuid(at), "text": "x", "category": "fact", "scope": "shop", "importance": 0.7, name: value}
        for at in (1, 2)
    ]
    stored = read_stored(table(tmp_path, [one | {"metadata": "{}"} for one in rows]))
    assert [(memory.created_at, memory.scope, memory.label) for memory in stored.memories] == [
        (1_700_000_000_000 if name == "timestamp" else 1_777_887_000_000, "shop", "nice_to_have")
    ] * 2
