"""Ingest: every line once, malformed lines counted, what operators wrote kept (LD-1 to LD-5)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotWrite, InUse, UnusableInput
from lab.base.sqlite import transaction
from lab.memory.ledger import ingest as ledger_ingest
from lab.memory.ledger import ledger
from lab.memory.ledger.grading import grade
from lab.memory.ledger.ingest import ingest
from lab.memory.ledger.search import search
from lab.memory.ledger.use import decay, use
from lab.memory.pack.sources import LedgerLane
from lab.systems.sidecar import Grade, grade_observation
from tests.memory.ledger.ledgers import NOW, filled, rows, write_log

POTS = {"kind": "decision", "tool_name": "chat", "summary": "Decided to use clay pots for the basil."}


def summaries(path: Path) -> list[str | None]:
    return [row.summary for row in rows(path)]


def test_ingest_of_the_sample_gives_the_public_rows(shared: Any, tmp_path: Path) -> None:
    log, expected = (
        shared("live", "sidecar", "obs.jsonl"),
        json.loads(shared("live", "sidecar", "get.json").read_text()),
    )
    done = ingest(tmp_path / "l.sqlite", log, scorer=grade_observation, upstream=True, now=NOW)
    found = rows(tmp_path / "l.sqlite")
    for row, theirs in zip(found, expected, strict=True):
        ours = {**row._asdict(), "detail_json": row.detail}
        theirs["detail_json"] = json.loads(theirs["detail_json"])
        for detail in (ours["detail_json"], theirs["detail_json"]):
            if isinstance(detail["importance"], dict):
                detail["importance"].pop("graded_at")
        assert ours == theirs
    counts = json.loads(shared("live", "sidecar", "ingest.json").read_text())
    receipt = done.receipt()
    assert {name: receipt[name] for name in counts if name != "ids"} == {
        name: value for name, value in counts.items() if name != "ids"
    }


def test_malformed_lines_are_counted_and_others_inserted(tmp_path: Path) -> None:
    log = write_log(tmp_path / "o.jsonl", [POTS])
    long = b'{"summary": "' + b"a" * (10 << 20) + b'"}\n'
    with log.open("ab") as file:
        file.write(b"nope\n\n{\x00}\n[1]\n\xff\xfe\n" + long + b"[" * 100_000 + b"\n")
        file.write(b'{"summary": "last", "ts": "2026-11-20T08:00:00Z"}\n')
    done = ingest(tmp_path / "l.sqlite", log)
    assert summaries(tmp_path / "l.sqlite") == [POTS["summary"], "last"]
    assert done.malformed == {
        "not JSON": [2, 8],
        "holds NUL bytes": [4],
        "not a JSON object": [5],
        "not UTF-8": [6],
        "longer than 1 MiB": [7],
    }
    assert (done.blank, done.clock_back, done.tail) == (1, 1, 0)
    assert ingest(tmp_path / "l.sqlite", log).inserted == 0


def test_cut_tail_is_left_until_it_is_complete(tmp_path: Path) -> None:
    log, path = write_log(tmp_path / "o.jsonl", [POTS]), tmp_path / "l.sqlite"
    with log.open("a") as file:
        file.write('{"summary": "cut')
    done = ingest(path, log)
    assert (done.inserted, done.tail) == (1, 16)
    with log.open("a") as file:
        file.write(' off", "ts": "2026-11-20T10:00:00Z"}')
    # A complete object is taken without its line break, and not again when that comes.
    assert ingest(path, log).inserted == 1
    with log.open("a") as file:
        file.write("\n")
    write_log(log, [{"summary": "more"}], append=True)
    assert ingest(path, log).inserted == 1
    assert summaries(path) == [POTS["summary"], "cut off", "more"]


@pytest.mark.parametrize("batch", [1, 2, 5000])
def test_a_log_is_known_by_its_content(tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_ingest, "BATCH", batch)
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [{"summary": str(n)} for n in range(5)])
    assert ingest(path, log).inserted == 5
    copy = Path(shutil.copy(log, tmp_path / "copy.jsonl"))
    assert ingest(path, copy).inserted == 0
    moved = log.rename(tmp_path / "moved.jsonl")
    write_log(moved, [{"summary": "5"}], append=True)
    assert ingest(path, moved).inserted == 1
    # Another log under the old name, of equal lines, is another log.
    write_log(log, [{"summary": "other"}, {"summary": "1"}])
    assert ingest(path, log).inserted == 2
    assert summaries(path) == ["0", "1", "2", "3", "4", "5", "other", "1"]


def test_a_changed_log_is_refused(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [POTS, {"summary": "second"}])
    ingest(path, log)
    log.write_text(log.read_text().replace("second", "zweite"))
    with pytest.raises(UnusableInput, match="first 2 lines changed after they were ingested"):
        ingest(path, log)
    log.write_text(log.read_text().splitlines()[0] + "\n")
    with pytest.raises(UnusableInput, match="changed after they were ingested"):
        ingest(path, log)
    assert len(rows(path)) == 2


def test_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    log, path = write_log(tmp_path / "o.jsonl", [POTS, POTS]), tmp_path / "l.sqlite"
    done = ingest(path, log, write=False, scorer=grade_observation)
    assert (done.inserted, done.grades.filled, path.exists()) == (2, 2, False)
    ingest(path, log)
    before = path.read_bytes()
    write_log(log, [POTS], append=True)
    assert ingest(path, log, write=False).inserted == 1
    assert path.read_bytes() == before
    assert len(rows(path)) == 2


def test_fields_of_operators_are_kept(tmp_path: Path) -> None:
    given = [
        {
            "kind": "note",
            "summary": "We decided so",
            "lang": "de",
            "detail": {"importance": {"label": "low"}, "mine": 1},
        },
        {"kind": "note", "summary": "ok", "detail": {"importance": "soon"}},
        {"kind": " ", "summary": "We decided so", "detail": '{"scope": "x"}', "extra": [1]},
        {"summary": "決定採用", "detail": "no JSON"},
    ]
    path = filled(tmp_path / "l.sqlite", given, scorer=grade_observation)
    first, second, third, fourth = rows(path)
    assert (first.kind, first.lang, first.detail) == ("note", "de", given[0]["detail"])
    assert second.detail == {"importance": "soon"}
    assert (third.kind, third.lang) == ("decision", "en")
    assert third.detail["classification"] == {"method": "rule:decision", "confidence": 0.95}
    assert (third.detail["scope"], third.detail["extra"]) == ("x", [1])
    assert (fourth.kind, fourth.lang, fourth.detail["_raw_detail"]) == ("decision", "zh", "no JSON")
    assert third.detail["importance"]["graded_at"] == "2026-11-23T12:00:00Z"


def test_upstream_replaces_the_kinds_of_capture(tmp_path: Path) -> None:
    given = [{"kind": kind, "summary": "We decided so"} for kind in ("note", "Tool", "fact")]
    assert [row.kind for row in rows(filled(tmp_path / "u.sqlite", given, upstream=True))] == [
        "decision",
        "decision",
        "fact",
    ]
    assert [row.kind for row in rows(filled(tmp_path / "s.sqlite", given))] == ["note", "Tool", "fact"]


def test_a_broken_scorer_does_not_stop_ingest(tmp_path: Path) -> None:
    def broken(_: object) -> Grade:
        raise ZeroDivisionError

    log = write_log(tmp_path / "o.jsonl", [POTS])
    done = ingest(tmp_path / "l.sqlite", log, scorer=broken)
    assert (done.inserted, done.grades.errors, done.grades.labels["unknown"]) == (1, 1, 1)


def test_texts_that_sqlite_cannot_hold_are_replaced(tmp_path: Path) -> None:
    log, path = tmp_path / "o.jsonl", tmp_path / "l.sqlite"
    log.write_text('{"summary": "a\\ud83d b\\u0000c", "x": NaN, "ts": 5, "tool": {"a": 1}}\n')
    ingest(path, log)
    (row,) = rows(path)
    assert (row.summary, row.ts, row.tool_name, row.detail["x"]) == ("a\ufffd b\ufffdc", "5", "{'a': 1}", "NaN")


def test_another_writer_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "l.sqlite", [POTS])
    log = write_log(tmp_path / "more.jsonl", [{"summary": "more"}])
    monkeypatch.setattr(ledger, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(InUse, match="another process is writing the ledger"):
        ingest(path, log)
    other.execute("ROLLBACK")
    other.close()
    assert ingest(path, log).inserted == 1


def test_two_ingests_of_one_log_do_not_double_it(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [{"summary": str(n)} for n in range(3)])

    def meanwhile(_: int) -> None:
        if not done:
            done.append(ingest(path, log))

    done: list[Any] = []
    monkey = pytest.MonkeyPatch()
    monkey.setattr(ledger_ingest, "BATCH", 2)
    try:
        with pytest.raises(InUse, match="ingests it as well"):
            ingest(path, log, announce=meanwhile)
    finally:
        monkey.undo()
    assert summaries(path) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_text("no database, but a text of some length" * 40), "is not an SQLite file"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: sqlite3.connect(path).execute("CREATE TABLE birds (name)"), "has no table observations"),
        (
            lambda path: sqlite3.connect(path).execute("CREATE TABLE observations (id INTEGER PRIMARY KEY, ts)"),
            "has no column kind",
        ),
        (lambda path: sqlite3.connect(path).execute("CREATE VIEW observations AS SELECT 1"), r"\(tables: none\)"),
    ],
)
def test_files_that_are_no_ledger_are_refused(tmp_path: Path, make: Any, message: str) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [POTS])
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    for write in (False, True):
        with pytest.raises(UnusableInput, match=message):
            ingest(path, log, write=write)
        with pytest.raises(UnusableInput, match=message), ledger.open_ledger(path, write=write):
            pass
    # Not even the mode of another program's database is changed.
    assert not path.is_file() or path.read_bytes() == before


def test_an_empty_file_is_a_ledger_for_ingest_alone(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", write_log(tmp_path / "o.jsonl", [POTS])
    path.touch()
    with pytest.raises(UnusableInput, match="is an empty database"), ledger.open_ledger(path, write=True):
        pass
    assert path.read_bytes() == b""
    assert ingest(path, log).inserted == 1


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [POTS])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(UnusableInput, match="schema version 9 is newer than 3"):
        rows(path)


def test_a_damaged_ledger_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = filled(tmp_path / "my l.sqlite", [{"summary": f"row {number} of many"} for number in range(2000)])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 60] = b"\xaa" * (4096 * 58)
    path.write_bytes(data)
    with pytest.raises(UnusableInput, match=r"damaged; restore a copy.* sqlite3 '/.*/my l\.sqlite' \.recover"):
        rows(path)


def test_a_damaged_byte_in_the_schema_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [POTS])
    data = path.read_bytes()
    # SQLite's message quotes the damaged text.
    path.write_bytes(
        data.replace(b"CREATE INDEX idx_observations_tool_ts ON", b"CREATE INDEX idx_observations_tool_ts \xff\xff")
    )
    for run in (rows, decay, lambda path: use(path, ["obs:1"], write=True)):
        with pytest.raises(UnusableInput, match=r"damaged; restore a copy.*\.recover"):
            run(path)
    found = LedgerLane(path).search("pots", 5, scope=None, now_ms=0)
    assert (found.searched, "damaged" in found.reason) == (False, True)


@pytest.mark.parametrize("table", ["observations_fts", "observations_fts_tri"])
def test_damaged_search_tables_are_made_again(tmp_path: Path, table: str) -> None:
    path = filled(tmp_path / "l.sqlite", [{"summary": f"basil and row {number} of many"} for number in range(2000)])
    log = write_log(tmp_path / "more.jsonl", [{"summary": "quince"}])
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {table}_data SET block = x'00ff00ff' WHERE id > 1")
        connection.execute(f"DELETE FROM {table}_docsize WHERE id < 9")
        connection.execute(f"INSERT INTO {table}_docsize (id, sz) VALUES (2001, x'00')")
    connection.close()
    with pytest.raises(UnusableInput, match="the search tables are damaged; remove them") as raised:
        ingest(path, log)
    assert len(rows(path)) == 2000
    with sqlite3.connect(path) as connection:
        connection.executescript(str(raised.value).split("'")[1])
    connection.close()
    assert ingest(path, log).inserted == 1
    with ledger.open_ledger(path) as connection:
        for word, count in (("basil", 2000), ("quince", 1)):
            query = f"SELECT count(*) FROM {table} WHERE {table} MATCH ?"
            assert connection.execute(query, (word,)).fetchone() == (count,)


def test_texts_that_are_bytes_or_not_utf8_are_read(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [{"summary": "one"}, {"summary": "two"}])
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE observations SET summary = x'61ff', detail_json = CAST('{\"a\": 1}' AS BLOB) WHERE id = 1"
        )
        connection.execute("UPDATE observations SET summary = CAST(x'62ff' AS TEXT), detail_json = x'ff' WHERE id = 2")
    connection.close()
    assert grade(path, write=True, now=NOW).receipt()["unreadable"] == 1
    first, second = rows(path)
    assert (first.summary, first.detail["a"], first.detail["importance"]["label"]) == ("a\ufffd", 1, "ignore")
    assert (second.summary, second.detail) == ("b\ufffd", {})


def test_values_of_other_types_are_read_as_texts(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    with sqlite3.connect(path) as connection:
        columns = "ts, kind, summary, summary_en, lang, tool_name, detail_json"
        connection.execute(f"CREATE TABLE observations (id INTEGER PRIMARY KEY, {columns})")
        connection.execute("INSERT INTO observations VALUES (1, 5, 6, 7, 8, 9, 1.5, 4)")
        connection.execute("INSERT INTO observations (id, summary) VALUES (2, 7)")
    connection.close()
    first, second = rows(path)
    assert first[1:] == ("5", "6", "7", "8", "9", "1.5", "4")
    assert (second.ts, second.kind, second.detail) == ("", None, {})
    with ledger.open_ledger(path, write=True) as connection:
        assert {hit.row.id for hit in search(connection, "7", now=NOW).hits} == {1, 2}
    assert decay(path, now=NOW).receipt() | {"without_time": 1, "unreadable": 1} == decay(path, now=NOW).receipt()


def test_lines_of_another_file_are_no_observations(tmp_path: Path) -> None:
    path, log = tmp_path / "l.sqlite", tmp_path / "o.jsonl"
    other = ['{"kind": "recording", "text": "a", "time": "2026-01-01"}', '{"summary": null}']
    log.write_text("\n".join(other))
    with pytest.raises(UnusableInput, match=r"no line is an observation \(2 without a summary or tool_name\)"):
        ingest(path, log)
    assert not path.exists()
    log.write_text("\n".join((*other, '{"tool": "exec", "supersedes": 1}', '{"text_en": "a"}', json.dumps(POTS))))
    done = ingest(path, log)
    assert (done.malformed, done.tail) == ({"without a summary or tool_name": [1, 2]}, 0)
    assert (done.inserted, done.without_summary, done.links_unread) == (3, 1, 1)


def test_an_old_ledger_of_the_sidecar_gets_its_search_tables(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [POTS])
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TABLE observations_fts_tri; DROP TABLE lab_sources; DROP TABLE lab_origins")
    ingest(path, write_log(tmp_path / "more.jsonl", [{"summary": "羅勒合唱"}]))
    with ledger.open_ledger(path) as connection:
        found = connection.execute("SELECT rowid FROM observations_fts_tri WHERE observations_fts_tri MATCH 'clay'")
        assert found.fetchall() == [(1,)]


def test_a_full_disk_leaves_the_old_state(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [POTS])
    full = pytest.raises(CannotWrite, match="the disk is full; the ledger is as before this batch")
    with full, ledger.open_ledger(path, write=True) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with transaction(connection):
            connection.execute("INSERT INTO observations (ts, summary) VALUES ('x', ?)", ("a" * 100_000,))
    assert summaries(path) == [POTS["summary"]]
