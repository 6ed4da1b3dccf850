"""The memories of a store replace those of recordings; the store is only read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.base.errors import UnusableInput
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.formats import format_named
from lab.recordings.model import Memory, Recording, Turn
from lab.recordings.readers import Library
from lab.replay.memories_from import read_stored, table_read, with_stored
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.systems.kit import Rows

Row = dict[str, Any]
Write = Callable[..., Path]


def uuid(number: int) -> str:
    return f"0b0e9a3c-1111-4000-8000-{number:012}"


def row(number: int, **changes: Any) -> Row:
    return {
        "id": uuid(number),
        "text": f"memory {number}",
        "category": "fact",
        "importance": 0.9,
        "importance_label": "nice_to_have",
        "scope": "shop",
        "trust_tier": "import",
        "createdAt": 1000.0 * number,
    } | changes


def without(number: int, *names: str) -> Row:
    return {name: value for name, value in row(number).items() if name not in names}


def noted(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes, but the one on the small times of these rows."""
    return tuple(note for note in notes if "times before 2000" not in note)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write an export: JSON Lines, or the given value if the name ends in .json."""

    def to(rows: Any, name: str = "export.jsonl") -> Path:
        path = tmp_path / name
        if name.endswith(".json"):
            path.write_text(json.dumps(rows, indent=2), "utf-8")
        else:
            path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
        return path

    return to


@pytest.fixture
def table(tmp_path: Path) -> Write:
    """Write a LanceDB table like the plugin's: vectors, single-row fragments, deleted rows."""

    def to(rows: list[Row], name: str = "memories") -> Path:
        folder = tmp_path / "db"
        with quiet_lance():
            database = import_lancedb().connect(str(folder))
            made = database.create_table(name, [{"vector": [0.5] * 8} | row for row in rows[:1]])
            for row in rows[1:]:
                made.add([{"vector": [0.5] * 8} | row])
            made.delete(f"id = '{uuid(9)}'")
        return folder

    return to


def library(*times: int, own: int = 0, probes: tuple[Probe, ...] = ()) -> Library:
    turns = tuple(Turn(f"c/s/{at}", seq, "s", "user", f"turn {at}", at) for seq, at in enumerate(times))
    memories = tuple(Memory(f"c/s/x#{number}", "own", "own", 1, 0) for number in range(own))
    return Library(
        format_named("openclaw"), "recorded", (Recording("c", turns, memories),), GoldenSet(probes), (Path("a.jsonl"),)
    )


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in files
    }


def test_store_media_are_carried_and_no_part_of_its_identity(write: Write) -> None:
    kept = [row(1, media_refs=["a.png"], media_kind="image"), row(2, media_refs='["b.mp3"]', media_kind="audio")]
    stored = read_stored(str(write(kept)))
    assert [(memory.media_refs, memory.media_kind) for memory in stored.memories] == [
        (("a.png",), "image"),
        (("b.mp3",), "audio"),
    ]
    plain = read_stored(str(write([row(1), row(2)], "plain.jsonl")))
    assert with_stored(library(5000), stored).stored == with_stored(library(5000), plain).stored


@pytest.mark.parametrize("refs", ["a.png", '{"a": 1}', [5], 7])
def test_store_media_of_another_form_are_refused(write: Write, refs: object) -> None:
    with pytest.raises(UnusableInput, match="field 'media_refs': expected a list of strings"):
        read_stored(str(write([row(1, media_refs=refs)])))


def test_read_stored_row_is_a_memory_with_its_id(write: Write) -> None:
    stored = read_stored(write([row(2), row(1, scope="", trust_tier=None, category=None, createdAt=7)]))
    second, first = stored.memories
    assert first == Memory(
        uuid(1), "memory 1", "memory 1", 0, 7, "other", "global", "nice_to_have", trust="unknown", place=1
    )
    assert (second.key, second.created_at, second.scope, second.trust) == (uuid(2), 2000, "shop", "import")
    assert noted(stored.notes) == ()


def test_replay_stored_memory_keeps_its_id(write: Write) -> None:
    placed = with_stored(library(5000), read_stored(write([row(1), row(2, id="note-7")])))
    (recording,) = placed.recordings
    rows = Rows().of(recording.memories)
    assert [(one.id, one.key) for one in rows] == [(uuid(1), uuid(1)), ("note-7", "note-7")]
    assert [one.trust_tier for one in rows] == ["import", "import"]


def test_with_stored_memory_is_visible_once_stored(write: Write) -> None:
    path = write([row(number, createdAt=at) for number, at in enumerate((0, 1000, 1001, 3000, 3001, 3002))])
    placed = with_stored(library(1000, 2000, 3000), read_stored(path))
    assert [memory.visible_from for memory in placed.recordings[0].memories] == [0, 0, 1, 2, 3, 4]
    assert noted(placed.golden.notes) == (
        "c: 1 of 6 memories were stored after its last turn, so no turn can recall them",
    )


def test_read_stored_time_is_floored_to_milliseconds(write: Write) -> None:
    stored = read_stored(write([row(1, createdAt=-0.5), row(2, createdAt=7.9)]))
    assert [memory.created_at for memory in stored.memories] == [-1, 7]


def test_read_stored_times_of_any_unit_are_visible_at_the_same_turn(write: Write) -> None:
    at = 1777886970000
    values = [at, at / 1000, at // 1000, at * 1000, at * 1_000_000, "2026-05-04T09:29:30Z", str(at // 1000)]
    stored = read_stored(write([row(number, createdAt=value) for number, value in enumerate(values)]))
    placed = with_stored(library(at - 1, at, at + 1), stored)
    assert [memory.created_at for memory in stored.memories] == [at] * len(values)
    assert [memory.visible_from for memory in placed.recordings[0].memories] == [1] * len(values)
    assert [note.partition(": ")[2] for note in stored.notes] == [
        "times in seconds instead of milliseconds, read by their size: 3",
        "times in microseconds instead of milliseconds, read by their size: 1",
        "times in nanoseconds instead of milliseconds, read by their size: 1",
    ]


def test_read_stored_times_before_2000_and_after_tomorrow_are_noted(write: Write) -> None:
    stored = read_stored(write([row(1), row(2, createdAt="2999-01-01"), row(3, createdAt=1777886970000)]))
    assert [note.partition(": ")[2] for note in stored.notes] == ["times before 2000: 1", "times after tomorrow: 1"]


@pytest.mark.parametrize(
    "kind", ["timestamp[s]", "timestamp[ns]", "timestamp[us, tz=Asia/Shanghai]", "int64", "string"]
)
def test_read_stored_table_with_times_of_any_type_is_read(tmp_path: Path, kind: str) -> None:
    at = datetime(2026, 5, 4, 9, 29, 30, tzinfo=UTC)
    zone = "Asia/Shanghai" if "tz" in kind else None
    types = {"int64": pa.int64(), "string": pa.string()}
    column_type = types.get(kind) or pa.timestamp(kind[10:12].rstrip("],"), zone)
    value = {"int64": int(at.timestamp()), "string": at.isoformat()}.get(kind, at if zone else at.replace(tzinfo=None))
    vector = pa.array([[0.5] * 8], pa.list_(pa.float32(), 8))
    columns = {"id": pa.array([uuid(1)]), "text": pa.array(["pears"]), "vector": vector}
    rows = pa.table(columns | {"createdAt": pa.array([value], column_type)})
    with quiet_lance():
        import_lancedb().connect(str(tmp_path / "db")).create_table("memories", rows)
    assert [memory.created_at for memory in read_stored(tmp_path / "db").memories] == [1777886970000]


def test_read_stored_missing_labels_are_unknown_and_counted(write: Write) -> None:
    given = ["must_remember", "Nice to have", "high", None, "", "odd"]
    path = write([row(number, importance_label=label) for number, label in enumerate(given)])
    stored = read_stored(path)
    must, nice = "must_remember", "nice_to_have"
    assert [memory.label for memory in stored.memories] == [must, nice, must, "unknown", "unknown", must]
    assert noted(stored.notes) == (
        f"{path}: rows without a label, which count as unknown: 2",
        f"{path}: labels unknown to the engine, replaced by that of the score: 1",
    )


def test_read_stored_rows_of_the_engine_are_left_out(write: Write) -> None:
    path = write([row(1), row(2, id="__schema__"), row(3, id="working_set:shop"), row(4, text=" ")])
    stored = read_stored(path)
    assert [memory.key for memory in stored.memories] == [uuid(1)]
    assert noted(stored.notes) == (
        f"{path}: working-set rows, which only profile upstream searches: 1",
        f"{path}: rows without a text, which only profile upstream searches: 1",
    )


def test_read_stored_due_time_is_a_date_or_milliseconds(write: Write) -> None:
    path = write([row(1, due_at="2026-11-20"), row(2, due_at=7), row(3, due_at=None), row(4)])
    assert [memory.due_at for memory in read_stored(path).memories] == [1_795_219_199_999, 7, None, None]
    with pytest.raises(UnusableInput, match="field 'due_at': expected a date, a time or milliseconds"):
        read_stored(write([row(1, due_at="soon")]))


def test_read_stored_hard_rule_is_a_column_or_a_tag(write: Write) -> None:
    rows = [row(1, hard_rule=True), row(2, text="[HARD] no deploys"), row(3, text="[ALWAYS_PIN] x"), row(4)]
    placed = with_stored(library(9000), read_stored(write(rows)))
    recording = placed.recordings[0]
    made = Rows().of(recording.memories)
    assert [one.hard_rule for one in made] == [True, True, True, False]


def test_read_stored_table_and_export_are_equal(table: Write, write: Write) -> None:
    rows = [row(3), row(1, importance=None, importance_label=None), row(2), row(9)]
    folder = table(rows)
    before = contents(folder)
    stored = read_stored(folder)
    assert contents(folder) == before
    assert [memory.key for memory in stored.memories] == [uuid(3), uuid(1), uuid(2)]
    exported = read_stored(write(rows[:3]))
    assert stored.memories == exported.memories
    assert with_stored(library(1), stored).stored == with_stored(library(1), exported).stored


@pytest.mark.parametrize("shape", [lambda rows: rows, lambda rows: {"items": rows}])
def test_read_stored_json_export_is_read(write: Write, shape: Callable[[list[Row]], Any]) -> None:
    assert [memory.key for memory in read_stored(write(shape([row(2), row(1)]), "e.json")).memories] == [
        uuid(2),
        uuid(1),
    ]


def test_with_stored_own_memories_are_ignored_with_a_note(write: Write) -> None:
    placed = with_stored(library(5000, own=2), read_stored(write([row(1)])))
    assert (placed.memories, [memory.key for memory in placed.recordings[0].memories]) == ("stored", [uuid(1)])
    assert noted(placed.golden.notes) == ("c: its own 2 memories are ignored",)


def test_with_stored_probe_of_a_missing_row_is_refused(write: Write) -> None:
    stored = read_stored(write([row(1)]))
    wants = Probe("c/s/5000", "c", "c/s/5000", None, (Judgement(uuid(1)),))
    assert with_stored(library(5000, probes=(wants,)), stored).golden.probes == (wants,)
    gone = Probe("c/s/5000", "c", "c/s/5000", None, (Judgement("c/s/x#0"),))
    with pytest.raises(UnusableInput, match=r"names memory 'c/s/x#0', which the recording does not have"):
        with_stored(library(5000, own=1, probes=(gone,)), stored)


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([row(1), "{"], ":2: not JSON"),
        ([row(1), "[]"], ":2: expected one JSON object a line, found a list"),
        ([without(2, "text")], ":1: has no field 'text'"),
        ([row(1, id=" ")], ":1: field 'id' is blank"),
        ([row(1, id="a\ud800")], ":1: field 'id' holds half a character"),
        ([row(1, id=7)], ":1: field 'id': expected a string, found a number"),
        ([row(1, text=7)], ":1: field 'text': expected a string, found a number"),
        ([row(1, importance_label=1)], ":1: field 'importance_label': expected a string, found a number"),
        ([row(1, importance=[1])], ":1: field 'importance': expected a number, found a list"),
        ([row(1, createdAt="soon")], ":1: field 'createdAt': expected a time, found a string"),
        ([row(1, createdAt=float("nan"))], ":1: field 'createdAt': expected a time, found a number"),
        ([row(1, hard_rule="yes")], ":1: field 'hard_rule': expected true or false, found a string"),
        ([], ": holds no memory with a text"),
    ],
)
def test_read_stored_bad_line_is_named(write: Write, rows: list[Any], what: str) -> None:
    path = write(rows)
    with pytest.raises(UnusableInput) as caught:
        read_stored(path)
    assert str(caught.value).startswith(f"{path}{what}")


@pytest.mark.parametrize("value", [7, {"rows": []}, [7]])
def test_read_stored_other_json_is_refused(write: Write, value: Any) -> None:
    with pytest.raises(UnusableInput, match=r"e\.json: (\[0\]: )?expected"):
        read_stored(write(value, "e.json"))


def test_read_stored_folder_without_table_is_refused(tmp_path: Path, table: Write) -> None:
    with pytest.raises(UnusableInput, match="nowhere: no such LanceDB folder or export file"):
        read_stored(tmp_path / "nowhere")
    with pytest.raises(UnusableInput, match="is not a LanceDB folder with a table 'memories'"):
        read_stored(tmp_path)
    folder = table([row(1)], "others")
    with pytest.raises(UnusableInput, match="is not a LanceDB folder with a table 'memories'"):
        read_stored(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["others.lance"]


def test_read_stored_folder_of_a_table_names_the_table(table: Write) -> None:
    table([row(1)])
    folder = table([row(2), row(3)], "memories_v2")
    assert [memory.key for memory in read_stored(folder / "memories_v2.lance").memories] == [uuid(2), uuid(3)]
    assert [memory.key for memory in read_stored(folder / "memories.lance").memories] == [uuid(1)]


def test_table_read_is_that_of_the_host(tmp_path: Path, table: Write) -> None:
    """``tableName`` of an openclaw.json decides, and a table that is not there is no reason to read another one."""

    def named(table: str | None) -> Path:
        section = {} if table is None else {"tableName": table}
        file = tmp_path / f"{table}.json"
        entries = {"openclaw-mem-engine": {"config": section}}
        file.write_text(json.dumps({"plugins": {"entries": entries}}), "utf-8")
        return file

    table([row(1)])
    folder = table([row(2)], "memories_v2")
    assert table_read(str(folder), [named("memories_v2")]) == str(folder / "memories_v2.lance")
    assert table_read(str(folder), [named(None)]) == table_read(str(folder), []) == str(folder)
    assert table_read(str(folder / "memories.lance"), [named("memories_v2")]) == str(folder / "memories.lance")
    with pytest.raises(
        UnusableInput,
        match=r"with a table 'memories_v3', which .*memories_v3.json names as tableName",
    ):
        table_read(str(folder), [named("memories_v3")])
    with pytest.raises(UnusableInput, match=r"tableName is 'memories_v2' \(.*\) and 'memories' \("):
        table_read(str(folder), [named("memories_v2"), named(None)])


def test_read_stored_table_without_required_column_is_refused(table: Write) -> None:
    with pytest.raises(UnusableInput, match="table 'memories' has no column text, createdAt"):
        read_stored(table([without(1, "text", "createdAt", "category")]))


def test_read_stored_damaged_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "memories.lance" / "data").mkdir(parents=True)
    with pytest.raises(UnusableInput, match=r"table 'memories' cannot be read \(\w+\): it is damaged, or"):
        read_stored(tmp_path)


def test_read_stored_missing_fields_get_defaults_with_notes(write: Write) -> None:
    kept = {"id": uuid(1), "text": "pears", "createdAt": 1}
    stored = read_stored(write([kept]))
    (memory,) = stored.memories
    assert (memory.category, memory.scope, memory.label, memory.trust) == ("other", "global", "unknown", "unknown")
    assert any("rows without a scope: 1" in note for note in stored.notes)


def test_read_stored_keeps_row_order(table: Write) -> None:
    rows = [row(3), row(1), row(4, createdAt=0), row(2)]
    stored = read_stored(table(rows))
    assert [memory.key for memory in stored.memories] == [uuid(3), uuid(1), uuid(4), uuid(2)]
    (recording,) = with_stored(library(1000, 2000, 9000), stored).recordings
    # Ordered by time, each with its row number.
    born = [(memory.key, memory.place, memory.visible_from) for memory in recording.memories]
    assert born == [(uuid(4), 2, 0), (uuid(1), 1, 0), (uuid(2), 3, 1), (uuid(3), 0, 2)]
    assert [one.position for one in Rows().of(recording.memories)] == [2, 1, 3, 0]


def test_run_key_other_row_order_differs(write: Write) -> None:
    rows = [row(1), row(2)]
    one, other = (read_stored(write(some, name)) for some, name in ((rows, "a.jsonl"), (rows[::-1], "b.jsonl")))
    assert with_stored(library(1), one).stored != with_stored(library(1), other).stored


def test_read_stored_memory_lancedb_gets_defaults_with_notes(table: Write) -> None:
    names = ("importance_label", "scope", "trust_tier")
    folder = table([without(1, *names), without(2, *names) | {"importance": 0.7, "category": "entity"}])
    stored = read_stored(folder)
    assert [(memory.label, memory.category) for memory in stored.memories] == [
        ("must_remember", "fact"),
        ("nice_to_have", "entity"),
    ]
    assert {(memory.scope, memory.trust) for memory in stored.memories} == {("global", "unknown")}
    searched = (
        "rows that the plugin itself could not search until they are imported with memory_import, because its "
        "searches need importance_label and scope"
    )
    assert noted(stored.notes) == (
        f"{folder}: label taken from the importance in rows without an importance_label: 2",
        f"{folder}: scope set to global in rows without a scope: 2",
        f"{folder}: trust_tier set to unknown in rows without a trust_tier: 2",
        f"{folder}: {searched}: 2",
    )


def test_read_stored_zero_vectors_are_counted(table: Write) -> None:
    folder = table([row(1), row(2, vector=[0.0] * 8), row(3, vector=[0.0] * 7 + [0.1])])
    stored = read_stored(folder)
    assert [memory.embedded for memory in stored.memories] == [True, False, True]
    (note,) = noted(stored.notes)
    assert note.startswith(
        f"{folder}: rows stored without an embedding (zero vectors), which profile upstream ranks as"
    )
    assert note.endswith(": 1")


def test_read_stored_openclaw_store_is_read(shared: Callable[..., Path]) -> None:
    plain = read_stored(shared("live", "lancedb", "memory-lancedb-2026.3.13"))
    assert [(memory.label, memory.category, memory.embedded) for memory in plain.memories] == [
        ("must_remember", "preference", True),
        ("nice_to_have", "preference", True),
    ]
    assert len(noted(plain.notes)) == 4
    engine = read_stored(shared("live", "lancedb", "engine-2026.9.6"))
    assert (len(engine.memories), noted(engine.notes)) == (9, ())
    times = [memory.created_at for memory in engine.memories]
    assert times == sorted(times)
