"""Writeback from a ledger to a LanceDB table: what fills, what overwrites, what is reported (WB-1 to WB-7)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from lab.base.errors import InUse, UnusableInput
from lab.memory.ledger.writeback import SAFE_FIELDS, Options, Written, forced_fields, writeback
from lab.memory.store.tags import list_tags, root_of
from lab.memory.table.lance_lock import WriterLock
from lab.memory.table.lance_table import LanceTable
from lab.systems.openclaw.table.schema import ADDED, arrow_of, schema
from tests.memory.ledger.ledgers import filled
from tests.memory.tools.lance_tables import DIMENSION, entry, plugin_table, raw_table, uuid

GOVERNED = ("importance", "importance_label", "scope", "category", "trust_tier")
# A row as memory_store writes it when no importance is given.
BORN = {"importance": None, "importance_label": "unknown", "scope": "global", "category": "other", "trust_tier": "user"}
GRADE = {"score": 0.9, "label": "must_remember"}


def store(folder: Path, *numbers: int, **fields: Any) -> Path:
    """Return a table of the plugin with rows as they are born, but for ``fields``."""
    table = plugin_table(folder)
    rows = [entry(number) for number in numbers]
    rows = [replace(one, row=replace(one.row, **{**BORN, **fields})) for one in rows]
    table.add(arrow_of(rows, schema(DIMENSION, ()), DIMENSION, folder))
    return folder


def stored(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the governance fields by the number of each row."""
    rows = raw_table(folder).to_arrow().to_pylist()
    return {int(row["id"][-12:]): {name: row[name] for name in GOVERNED} for row in rows}


def noted(number: int, importance: Any = None, **more: Any) -> dict[str, Any]:
    """Return an observation of a stored memory, without the fields that are None."""
    detail = {"memory_id": uuid(number), "importance": GRADE if importance is None else importance}
    row = {"kind": "note", "tool_name": "memory_store", "summary": f"memory {number}", "detail": detail}
    row |= {key: value for key, value in more.items() if key != "detail"}
    return {**row, "detail": {**detail, **more.get("detail", {})}}


def files(folder: Path) -> dict[Path, bytes]:
    """Return all files, but for the two that SQLite keeps while a ledger is read."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {path: path.read_bytes() for path in paths}


def run(ledger: Path, folder: Path, **options: Any) -> Written:
    return writeback(ledger, folder, Options(**{"write": True, **options}))


def test_fill_replaces_an_unknown_label_in_seed_but_never_upstream(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [noted(1), noted(2)])
    seed, upstream = store(tmp_path / "seed", 1, 2), store(tmp_path / "upstream", 1, 2)
    done = run(ledger, seed)
    assert (done.updated, done.overwritten, done.unknown_before, done.unknown_after) == (2, 0, 2, 0)
    graded = {**BORN, "importance": 0.9, "importance_label": "must_remember"}
    assert stored(seed) == {1: graded, 2: graded}
    done = run(ledger, upstream, upstream=True)
    assert (done.updated, done.overwritten, done.unknown_before, done.unknown_after) == (2, 0, 2, 2)
    assert stored(upstream)[1] == {**BORN, "importance": 0.9}
    # Only force repairs it, and it writes the kind as scope and category.
    done = run(ledger, upstream, upstream=True, forced=SAFE_FIELDS)
    assert (done.overwritten, done.overwritten_fields, done.unknown_after) == (2, 6, 0)
    assert stored(upstream)[1] == {**graded, "scope": "note", "category": "note"}


def test_fill_keeps_what_somebody_set(tmp_path: Path) -> None:
    mine = {"importance": 0.2, "importance_label": "ignore", "scope": "home", "category": "fact"}
    folder = store(tmp_path / "s", 1, **mine)
    ledger = filled(
        tmp_path / "l.sqlite", [noted(1, detail={"scope": "work", "category": "decision", "trust": "trusted"})]
    )
    assert run(ledger, folder).updated == 0
    assert stored(folder)[1] == {**BORN, **mine}
    assert run(ledger, folder, forced=("scope",)).fields == {"scope": 1}
    assert stored(folder)[1] == {**BORN, **mine, "scope": "work"}
    assert run(ledger, folder, forced=SAFE_FIELDS).overwritten_fields == 3
    assert stored(folder)[1]["trust_tier"] == "user"
    assert run(ledger, folder, forced=("trust_tier",)).fields == {"trust_tier": 1}
    assert stored(folder)[1]["trust_tier"] == "trusted"


def test_newest_observation_wins_under_force_in_seed_and_the_oldest_upstream(tmp_path: Path) -> None:
    old, new = {"score": 0.1, "label": "ignore"}, {"score": 0.9, "label": "must_remember"}
    ledger = filled(tmp_path / "l.sqlite", [noted(1, old, detail={"scope": "home"}), noted(1, new)])
    folder = store(tmp_path / "s", 1)
    done = run(ledger, folder, forced=SAFE_FIELDS)
    assert (done.checked, done.updated, done.older) == (2, 1, 1)
    assert {**stored(folder)[1], "category": "other"} == {
        **BORN,
        "importance": 0.9,
        "importance_label": "must_remember",
        "scope": "home",
    }
    assert run(ledger, folder, forced=SAFE_FIELDS).updated == 0
    for _ in range(2):
        # The sidecar writes both every time, and ends with the older.
        assert run(ledger, folder, forced=SAFE_FIELDS, upstream=True, batch=1).updated == 2
        assert stored(folder)[1]["importance_label"] == "ignore"


def test_dry_run_counts_as_a_run_and_changes_no_file(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [noted(1), noted(2, 0.3), noted(9)])
    folder = store(tmp_path / "s", 1, 2, 3)
    before = files(tmp_path)
    dry = run(ledger, folder, write=False).receipt(ledger, folder)
    assert files(tmp_path) == before
    wet = run(ledger, folder).receipt(ledger, folder)
    assert (dry.pop("dryRun"), wet.pop("dryRun")) == (True, False)
    assert dry == wet
    assert wet["missingIds"] == [uuid(9)]
    assert wet["unknown"] == {"before": 3, "after": 1}
    assert "memory 1" not in json.dumps(wet)


def test_batches_are_commits_and_limit_takes_the_newest(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [noted(number) for number in range(10)])
    folder = store(tmp_path / "s", *range(10))
    version = raw_table(folder).version
    done = run(ledger, folder, limit=7, batch=3)
    assert (done.updated, done.not_inspected) == (7, 3)
    assert raw_table(folder).version == version + 3
    assert [number for number, row in stored(folder).items() if row["importance"] is None] == [0, 1, 2]
    with LanceTable(folder, read_only=True) as table:
        rows, vectors = table.contents()
        assert {row.text for row in rows} == {f"memory number {number}" for number in range(10)}
        assert all(vector[int(row.id[-12:]) % DIMENSION] == 1.0 for row, vector in zip(rows, vectors, strict=True))


@pytest.mark.parametrize(
    ("observation", "seed", "upstream"),
    [
        ({"detail": {"result": {"memoryId": uuid(7)}}}, uuid(7), uuid(7)),
        ({"detail": {"a": [{"lancedb": f"id={uuid(7)};"}]}}, uuid(7), uuid(7)),
        ({"detail": {"LanceDB_ID": [uuid(7)]}}, uuid(7), uuid(7)),
        # A list of other ids is not about the memory.
        ({"detail": {"turns": [uuid(7)]}, "summary": f"stored {uuid(8)}"}, uuid(8), uuid(7)),
        ({"detail": {"id": uuid(7)}}, None, None),
        ({"summary": f"Stored memory: {uuid(7)}"}, uuid(7), uuid(7)),
        ({"summary": "stored", "summary_en": f"it is {uuid(7)}"}, uuid(7), uuid(7)),
        # For the sidecar the id is part of a word.
        ({"summary": f"已儲存{uuid(7)}"}, uuid(7), None),
        ({"detail": {"memory_id": "7"}}, None, None),
    ],
)
def test_memory_id_is_found_where_it_may_be(
    tmp_path: Path, observation: dict[str, Any], seed: str | None, upstream: str | None
) -> None:
    ledger = filled(tmp_path / "l.sqlite", [{"tool_name": "memory_store", "kind": "fact", **observation}])
    folder = store(tmp_path / "s", 1)
    for profile, expected in ((False, seed), (True, upstream)):
        done = run(ledger, folder, upstream=profile)
        assert (done.missing, done.without_id) == (([expected], 0) if expected else ([], 1))


@pytest.mark.parametrize(
    ("importance", "seed", "upstream"),
    [
        ({"score": 0.55}, (0.55, "nice_to_have"), (0.55, "nice_to_have")),
        ({"score": 0.1, "label": "must_remember"}, (0.1, "must_remember"), (0.1, "must_remember")),
        ({"label": "high"}, (0.9, "must_remember"), (0.9, "must_remember")),
        (0.2, (0.2, "ignore"), (0.2, "ignore")),
        ("86%", (0.86, "must_remember"), (None, "unknown")),
        (86, (0.86, "must_remember"), (1.0, "must_remember")),
        ("high", (0.9, "must_remember"), (None, "unknown")),
        ({"label": "unknown"}, (None, "unknown"), (0.0, "unknown")),
        (True, (None, "unknown"), (None, "unknown")),
        ({"score": "x", "label": "y"}, (None, "unknown"), (None, "unknown")),
    ],
)
def test_importance_becomes_score_and_label(
    tmp_path: Path, importance: Any, seed: tuple[float | None, str], upstream: tuple[float | None, str]
) -> None:
    ledger = filled(tmp_path / "l.sqlite", [noted(1, importance)])
    for profile, expected in ((False, seed), (True, upstream)):
        folder = store(tmp_path / str(profile), 1, importance_label="unknown")
        run(ledger, folder, upstream=profile, forced=("importance", "importance_label"))
        row = stored(folder)[1]
        assert (row["importance"], row["importance_label"]) == expected


def test_force_writes_only_what_the_engine_can_read_in_seed(tmp_path: Path) -> None:
    odd = {"scope": "x" * 80, "category": "Decision ", "trust": "friend"}
    ledger = filled(tmp_path / "l.sqlite", [noted(1, detail=odd)])
    folder = store(tmp_path / "s", 1)
    run(ledger, folder, forced=(*SAFE_FIELDS, "trust_tier"))
    row = stored(folder)[1]
    assert (row["scope"], row["category"], row["trust_tier"]) == ("global", "decision", "user")


def test_fields_to_force_are_checked() -> None:
    assert forced_fields(False, None) == ()
    assert forced_fields(True, " ") == SAFE_FIELDS
    assert forced_fields(True, "Trust_Tier, scope,scope") == ("trust_tier", "scope")
    with pytest.raises(UnusableInput, match="unknown text; the fields are importance"):
        forced_fields(True, "scope,text")
    with pytest.raises(UnusableInput, match="add --force"):
        forced_fields(False, "scope")


def test_table_of_memory_lancedb_takes_the_fields_that_it_has_and_all_after_a_backfill(
    tmp_path: Path, shared: Callable[..., Path]
) -> None:
    folder = tmp_path / "s"
    copytree(shared("live", "lancedb", "memory-lancedb-2026.3.13"), folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    before = raw_table(folder).to_arrow().to_pylist()
    detail = {"memory_id": before[1]["id"], "importance": {"score": 0.3, "label": "must_remember"}, "scope": "songs"}
    ledger = filled(tmp_path / "l.sqlite", [noted(1, detail=detail)])
    done = run(ledger, folder, forced=SAFE_FIELDS)
    assert (done.updated, dict(done.fields), done.missing_columns) == (
        1,
        {"importance": 1},
        ("importance_label", "scope", "trust_tier"),
    )
    assert (done.unknown_before, done.unknown_after) == (2, 2)
    tags = list_tags(root_of(folder))
    assert [one.tag for one in tags] == [done.tag]
    with LanceTable(folder, any_columns=True) as table:
        added, filled_rows = table.backfill()
    assert (added, filled_rows) == (("importance_label", "scope", "trust_tier", *ADDED), 2)
    done = run(ledger, folder)
    assert (done.missing_columns, done.tag) == ((), None)
    after = {row["id"]: row for row in raw_table(folder).to_arrow().to_pylist()}
    row = after[before[1]["id"]]
    assert (row["importance"], row["importance_label"], row["scope"]) == (0.3, "must_remember", "songs")
    assert after[before[0]["id"]]["importance"] == before[0]["importance"]
    assert [after[one["id"]]["vector"] for one in before] == [one["vector"] for one in before]


def test_table_that_cannot_be_written_is_refused_even_dry(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [noted(1)])
    with pytest.raises(UnusableInput, match="is not a LanceDB folder"):
        run(ledger, tmp_path / "none")
    folder = store(tmp_path / "s", 1)
    (folder / "memories.lance").chmod(0o500)
    for write in (True, False):
        with pytest.raises(UnusableInput, match="write-protected"):
            run(ledger, folder, write=write)
    (folder / "memories.lance").chmod(0o700)
    lock = WriterLock(folder)
    lock.acquire("test")
    with pytest.raises(InUse, match="test"):
        run(ledger, folder, wait_seconds=0.0)
    lock.release()
    assert stored(folder)[1] == BORN


@pytest.mark.process
def test_killed_writeback_is_finished_by_the_same_command(tmp_path: Path) -> None:
    count, draw = 60, random.Random(7)
    ledger = filled(tmp_path / "l.sqlite", [noted(number, 0.9) for number in range(count)])
    folder = store(tmp_path / "s", *range(count))
    child = (
        "import sys; from pathlib import Path; from lab.memory.ledger.writeback import Options, writeback\n"
        "print(flush=True)\n"
        "writeback(Path(sys.argv[1]), Path(sys.argv[2]), Options(write=True, batch=2, limit=100))"
    )
    kills = 0
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", child, str(ledger), str(folder)], stdout=subprocess.PIPE, env=dict(os.environ)
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(draw.uniform(0.5, 1.5))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        process.stdout.close()
        rows = stored(folder)
        assert sorted(rows) == list(range(count))
        # Each row is as before or as after, never in between.
        for row in rows.values():
            assert row in (BORN, {**BORN, "importance": 0.9, "importance_label": "must_remember"})
    assert kills
    run(ledger, folder, limit=100)
    assert {row["importance_label"] for row in stored(folder).values()} == {"must_remember"}
    with LanceTable(folder, read_only=True) as table:
        assert len(table.rows()) == count
