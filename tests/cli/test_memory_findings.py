"""What ``lab memory`` says to its users: about empty and damaged tables, bad records, and refused values."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_memory_cli import memory, one_line, stored


def lines(path: Path, *records: object) -> Path:
    """Write records as JSON Lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_recall_in_empty_table_finds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    memory("import", folder, lines(tmp_path / "e.jsonl", {"id": "x"}))
    assert stored(folder) == []
    for profile in ("seed", "upstream"):
        done = memory("recall", folder, "a kiln", "--profile", profile)
        assert (done.returncode, done.stdout) == (0, "No relevant memories found.\n"), done.stderr


def test_damaged_table_is_neither_read_nor_written(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    memory("store", folder, "The kiln is fired on Mondays")
    (data,) = (folder / "memories.lance" / "data").glob("*.lance")
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    before = sorted(path.name for path in folder.rglob("*.lance"))
    source = lines(tmp_path / "e.jsonl", {"text": "another"})
    for words in (
        ("store", folder, "another"),
        ("store", folder, "another", "--dry-run"),
        ("import", folder, source),
        ("list", folder),
        ("stats", folder),
        ("export", folder, tmp_path / "out.jsonl"),
    ):
        one_line(memory(*words), 2, "damaged or missing; restore the folder from a backup")
    assert sorted(path.name for path in folder.rglob("*.lance")) == before


def test_dry_run_is_refused_where_the_change_would_be(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    memory("store", folder, "The kiln is fired on Mondays")
    folder.chmod(0o555)
    try:
        for words in (("store", folder, "x"), ("backfill", folder), ("store", folder / "new", "x")):
            one_line(memory(*words, "--dry-run"), 2, "nothing would be written, because")
    finally:
        folder.chmod(0o755)
