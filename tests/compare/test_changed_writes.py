"""What arms captured is compared exactly, shown in the report, and private words stay out of the cache."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.base.set_registry import shipped
from lab.compare.changes import changes
from lab.embedding.cache import cache_folder
from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.report.material import HEADERS, capture_table, growth
from lab.retrieval.tokens import TextSettings, Tokens
from lab.runs.directory import RunDirectory, open_run
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table, write_table


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Two conversations of the shipped set, captured by one engine."""
    folder = tmp_path_factory.mktemp("captured") / "run"
    asked = ReplayRequest(
        str(shipped("datasets", "capture")),
        "lab",
        ("engine",),
        golden=str(shipped("golden", "capture")),
        source="captured",
        recall_turns="user",
        embedder="hashing",
        conversation=("payments-oncall", "breakfast-shop"),
    )
    run_replay(asked, folder)
    return open_run(folder)


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("receipt", lambda text: text.replace('"storedCount":', '"storedCount":1')),
        ("id", lambda key: f"{key}#x"),
        ("leak", lambda leak: not leak),
        ("keep", lambda keep: None if keep is not None else 0),
        ("sources", lambda keys: [*keys, "x"]),
    ],
)
def test_changes_of_one_cell_of_writes_are_found(
    captured: RunDirectory,
    tmp_path: Path,
    resealed: Callable[[Path], RunDirectory],
    column: str,
    change: Callable[[Any], Any],
) -> None:
    shutil.copytree(captured.path, tmp_path / "copy")
    same = changes(captured, open_run(tmp_path / "copy"))
    path = captured.writes("payments-oncall")
    table = read_table(path)
    what = "receipt" if column == "receipt" else "created"
    row = table["what"].to_pylist().index(what)
    values = table[column].to_pylist()
    values[row] = change(values[row])
    place = table.schema.get_field_index(column)
    edited = table.set_column(place, table.schema.field(place), pa.array(values, table[column].type))
    write_table(edited, tmp_path / "copy" / "writes" / path.name)
    found = changes(captured, resealed(tmp_path / "copy"))
    (arm,) = found.arms
    assert (same.changed, found.changed, found.turns) == (0, 1, same.turns)
    assert [(one.turn, one.columns) for one in arm.changed] == [(table["turn"][row].as_py(), (f"writes.{column}",))]
    # No recall happened at a reply.
    assert found.first()[0]["explain"] == []


@pytest.mark.process
def test_report_counts_what_was_stored_and_shows_no_text(captured: RunDirectory) -> None:
    shown = capture_table(captured)
    assert shown is not None
    (row,) = shown.rows
    tables = [read_table(captured.writes(name)) for name in captured.conversations]
    stored = sum(table["what"].to_pylist().count("created") for table in tables)
    assert dict(zip(HEADERS, row, strict=True))["stored"] == str(stored) != "0"
    (line,) = growth(captured)
    assert line.held == sorted(line.held)
    assert line.held[-1] == stored / 2
    build_report(captured)
    for name in ("report.html", "report.md"):
        text = (captured.path / name).read_text("utf-8")
        assert "What was stored" in text
        assert "rollbacks of the switch" not in text
    assert "Leaks" in (captured.path / "report.md").read_text("utf-8")


def test_tokens_of_private_texts_are_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    words = Tokens(TextSettings(), lambda text: "plumjam77" in text)
    texts = ["my word is plumjam77", "bees behind barns"]
    assert words.prepare(texts) == 2
    assert [part[-1] for part in words.of(texts)] == ["plumjam77", "barn"]
    cached = b"".join(path.read_bytes() for path in cache_folder().rglob("*") if path.is_file())
    assert b"barn" in cached
    assert b"plumjam77" not in cached
