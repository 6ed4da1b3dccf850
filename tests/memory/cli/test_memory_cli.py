"""``lab memory`` on LanceDB folders: results, dry runs, receipts, and bad input in one line."""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.memory.table import lance_table
from lab.memory.table.lance_table import LanceTable
from lab.replay.memories_from import read_stored
from tests.commands import Done, run_here
from tests.memory.tools.lance_tables import DIMENSION, entry, plugin_table, raw_table

SECRET = "sk-" + "a1B2" * 8
MARK = "wombat"


CHANGES = ("store", "forget", "import", "docs-ingest", "backfill", "compact")


def memory(*words: str | Path, write: bool = True, **environment: str) -> Done:
    """Run ``lab memory`` with the embedder for tests, and a command that changes something with ``--write``."""
    takes = words[0] in ("store", "recall", "forget", "import", "docs-ingest", "docs-search")
    more = (*(("--embedder", "hashing") if takes else ()), *(("--write",) if write and words[0] in CHANGES else ()))
    return run_here("memory", *words, *more, **environment)


def stored(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a folder, as LanceDB has them."""
    rows: list[dict[str, Any]] = raw_table(folder).to_arrow().drop_columns(["vector"]).to_pylist()
    return rows


def one_line(done: Done, code: int, part: str) -> None:
    """Check that a command failed with one line."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if not line.startswith(("note: ", "  "))]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("error: ")
    assert part in errors[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two memories."""
    path = tmp_path / "store"
    for text, scope in (("The team decided to deploy on Fridays", "team"), (f"The {MARK} is called Ada", "global")):
        done = memory("store", path, text, "--scope", scope, "--importance", "0.9")
        assert done.returncode == 0, done.stderr
    return path


def test_store_and_recall_in_one_scope(folder: Path) -> None:
    done = memory("recall", folder, "[SCOPE: team] when do we deploy")
    assert "deploy on Fridays" in done.stdout
    assert MARK not in done.stdout
    rows = stored(folder)
    assert [(row["scope"], row["importance_label"], row["source_kind"], row["lang"]) for row in rows] == [
        ("team", "must_remember", "tool", "en"),
        ("global", "must_remember", "tool", "en"),
    ]


def test_receipts_have_settings_and_no_text(tmp_path: Path) -> None:
    done = memory("store", tmp_path / "s", f"The {MARK} is called Ada", "--json", "--compact-every", "9")
    value = json.loads(done.stdout)
    assert (value["tableSettings"]["compact_every"], value["compactions"]) == (9, 0)
    again = json.loads(memory("store", tmp_path / "s", "Another", "--json", "--compact-every", "1").stdout)
    assert (again["tableSettings"]["compact_every"], again["compactions"]) == (1, 1)
    assert value["receipt"]["dbPath"] == str(tmp_path / "s")
    assert MARK not in done.stdout


def test_dry_runs_write_nothing(folder: Path, tmp_path: Path) -> None:
    export, notes = tmp_path / "e.jsonl", tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# Kiln\n\nThe kiln is fired on Mondays.\n", "utf-8")
    memory("export", folder, export)
    before = {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}
    (first, _) = stored(folder)
    for words in (
        ("store", folder, "a new one"),
        ("forget", folder, "--id", first["id"]),
        ("import", folder, export, "--dedupe", "none"),
        ("backfill", folder),
        ("compact", folder, "--keep", "0"),
        ("docs-ingest", folder, "--root", notes),
        ("store", tmp_path / "none", "a new one"),
        ("import", tmp_path / "none", export),
    ):
        done = memory(*words, write=False)
        assert done.returncode == 0, done.stderr
        assert "Nothing was written" in done.stdout
        receipt = json.loads(memory(*words, "--json", write=False).stdout)
        head = (receipt["command"], receipt["target"], receipt["written"])
        target = words[1] / "docs.sqlite" if words[0] == "docs-ingest" else words[1]
        assert head == (f"lab memory {words[0]}", str(target), False)
    assert {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))} == before
    assert not (tmp_path / "none").exists()


def test_export_and_import_give_the_same_memories(folder: Path, tmp_path: Path) -> None:
    for name in ("e.jsonl", "e.json"):
        export, copy = tmp_path / name, tmp_path / f"copy-{name}"
        assert memory("export", folder, export).returncode == 0
        assert stat.S_IMODE(export.stat().st_mode) == 0o600
        done = memory("import", copy, export)
        assert done.stdout.startswith("Imported memories: imported=2, skipped=0, failed=0.\nVectors: 0 kept, 2 ")
        assert memory("import", copy, export).stdout.startswith("Imported memories: imported=0, skipped=2, failed=0.")
        again = tmp_path / f"again-{name}"
        memory("export", copy, again)
        assert json.loads(memory("stats", copy, "--json").stdout)["table"]["fragments"] == 1
        changed = export.read_text().replace('"trust_tier":"user"', '"trust_tier":"import"')
        assert again.read_text() in (export.read_text(), changed)


def test_export_and_import_keep_media(tmp_path: Path) -> None:
    given = [
        entry(1, media_refs=("a.png", "山/b 1.png"), media_kind="image"),
        entry(2, media_refs=("https://pictures.example/c",)),
        entry(3, media_kind="audio"),
        entry(4),
    ]
    with LanceTable(tmp_path / "s", create=DIMENSION) as table:
        table.add(given)
    columns = ("id", "text", "media_refs", "media_kind")
    for name in ("e.jsonl", "e.json"):
        assert memory("export", tmp_path / "s", tmp_path / name).returncode == 0
        assert memory("import", tmp_path / f"copy-{name}", tmp_path / name).returncode == 0
        (first, second) = (
            [{column: row[column] for column in columns} for row in stored(tmp_path / folder)]
            for folder in ("s", f"copy-{name}")
        )
        assert first == second
    assert [row["media_refs"] and json.loads(row["media_refs"]) for row in first] == [
        ["a.png", "山/b 1.png"],
        ["https://pictures.example/c"],
        None,
        None,
    ]


def test_export_and_import_keep_source_language_and_hard_rule(tmp_path: Path) -> None:
    ref = "https://notes.example/"
    given = [replace(entry(n), source_kind="web", source_ref=f"{ref}{n}", lang="de") for n in range(12)]
    given[3] = replace(given[3], row=replace(given[3].row, hard_rule=True))
    with LanceTable(tmp_path / "s", create=DIMENSION) as table:
        table.add(given)
    assert memory("export", tmp_path / "s", tmp_path / "e.jsonl").returncode == 0
    assert memory("import", tmp_path / "copy", tmp_path / "e.jsonl").returncode == 0
    columns = ("id", "source_kind", "source_ref", "lang", "hard_rule")
    first, second = (
        {tuple(row[name] for name in columns) for row in stored(tmp_path / name)} for name in ("s", "copy")
    )
    assert first == second
    assert len(first) == len(given)
    assert [row[0] for row in first if row[-1]] == [given[3].row.id]
    # Without a hard rule the field is absent, as are media and due times.
    lines = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert [list(line)[8:] for line in lines if "hard_rule" in line] == [
        ["source_kind", "source_ref", "lang", "hard_rule"]
    ]


def test_export_and_import_keep_due_times(tmp_path: Path) -> None:
    given = tmp_path / "given.jsonl"
    due = {1: "2026-11-20", 2: 1_795_000_000_000, 3: "soon", 4: None}
    lines = [{"text": f"Move gateway {n}.", "category": "decision", "due_at": value} for n, value in due.items()]
    given.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = memory("import", tmp_path / "s", given, "--json")
    assert [one["reason"] for one in json.loads(done.stdout)["warnings"]] == ["bad_due_at"]
    assert memory("export", tmp_path / "s", tmp_path / "e.jsonl").returncode == 0
    exported = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert {one["text"][-2]: one.get("due_at") for one in exported} == {
        "1": "2026-11-20T23:59:59.999Z",
        "2": "2026-11-18T11:06:40.000Z",
        "3": None,
        "4": None,
    }
    assert sum("due_at" in one for one in exported) == 2
    assert {memory.due_at for memory in read_stored(tmp_path / "s").memories} == {1_795_219_199_999, due[2], None}


def test_export_keeps_due_times_that_another_program_wrote_as_numbers(tmp_path: Path) -> None:
    plugin_table(tmp_path / "s", 1)
    raw_table(tmp_path / "s").add_columns({"due_at": "CAST(1795000000000 AS BIGINT)"})
    with LanceTable(tmp_path / "s") as table:
        table.add([entry(2, due_at=7)])
    assert memory("export", tmp_path / "s", tmp_path / "e.jsonl").returncode == 0
    assert [json.loads(line)["due_at"] for line in (tmp_path / "e.jsonl").read_text().splitlines()] == [
        1_795_000_000_000,
        7,
    ]


def test_export_of_a_table_without_media_has_the_same_fields(tmp_path: Path) -> None:
    plugin_table(tmp_path / "s", 1, 2)
    assert memory("export", tmp_path / "s", tmp_path / "e.jsonl").returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    names = ["id", "text", "category", "importance", "importance_label", "scope", "trust_tier", "createdAt"]
    assert [list(line) for line in lines] == [names, names]


def test_export_of_the_plugin_has_no_media_and_secrets_go(tmp_path: Path) -> None:
    with LanceTable(tmp_path / "s", create=DIMENSION) as table:
        table.add([entry(1, media_refs=(f"https://pictures.example/?key={SECRET}",), media_kind="image")])
    memory("export", tmp_path / "s", tmp_path / "seed.jsonl")
    memory("export", tmp_path / "s", tmp_path / "plugin.jsonl", "--profile", "upstream")
    assert "media_refs" in (tmp_path / "seed.jsonl").read_text()
    assert SECRET not in (tmp_path / "seed.jsonl").read_text()
    assert "media" not in (tmp_path / "plugin.jsonl").read_text()


def test_export_of_media_that_are_no_list_names_the_memory(tmp_path: Path) -> None:
    with LanceTable(tmp_path / "s", create=DIMENSION) as table:
        table.add([entry(1, media_refs=("a.png",))])
    raw_table(tmp_path / "s").update(values={"media_refs": "a.png"})
    one_line(memory("export", tmp_path / "s", tmp_path / "e.jsonl"), 2, "expected a list of strings")
    assert not (tmp_path / "e.jsonl").exists()


def test_export_inside_the_folder_is_refused(folder: Path) -> None:
    one_line(memory("export", folder, folder / "memories.lance" / "x.jsonl"), 2, "is inside the LanceDB folder")


def test_forget_by_id_and_candidates(folder: Path) -> None:
    first, second = stored(folder)
    done = memory("forget", folder, "--query", "deploy")
    assert first["id"] in done.stdout
    assert len(stored(folder)) == 2
    assert memory("forget", folder, "--id", first["id"]).returncode == 0
    assert [row["id"] for row in stored(folder)] == [second["id"]]
    one_line(memory("forget", folder, "--id", first["id"]), 1, "nothing was deleted")
    one_line(memory("forget", folder, "--id", "no-uuid"), 2, "Invalid memoryId")
    one_line(memory("forget", folder), 2, "give either --id or --query")


def test_compact_without_keeping_removes_deleted_text(folder: Path) -> None:
    first, _ = stored(folder)
    memory("forget", folder, "--id", first["id"])

    def on_disk() -> bool:
        return any(b"deploy on Fridays" in path.read_bytes() for path in folder.rglob("*") if path.is_file())

    assert memory("compact", folder).returncode == 0
    assert on_disk()
    assert memory("compact", folder, "--keep", "0").returncode == 0
    assert not on_disk()
    assert len(stored(folder)) == 1


def test_list_and_stats_name_table_and_redact(folder: Path) -> None:
    memory("store", folder, f"key {SECRET}", "--profile", "upstream")
    done = memory("list", folder)
    assert SECRET not in done.stdout
    assert "Listed 3 memories" in done.stdout
    table = json.loads(memory("stats", folder, "--json").stdout)["table"]
    assert (table["dimension"], table["missingColumns"], table["writer"]) == (64, [], None)
    assert all(len(line) <= 80 for line in memory("stats", folder).stdout.splitlines())


def test_secret_is_refused_and_not_repeated(folder: Path) -> None:
    done = memory("store", folder, f"the key is {SECRET}")
    one_line(done, 1, "Refusing to store")
    assert SECRET not in done.stderr + done.stdout
    assert len(stored(folder)) == 2


def test_read_only_by_environment_and_configuration(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text('{"readOnly": true}')
    one_line(memory("store", folder, "x", "--config", config), 2, "config:readOnly")
    done = memory("store", folder, "x", OPENCLAW_MEM_ENGINE_READONLY="1")
    one_line(done, 2, "env:OPENCLAW_MEM_ENGINE_READONLY")
    one_line(memory("backfill", folder, OPENCLAW_MEM_ENGINE_READONLY="1"), 2, "nothing was written")
    assert len(stored(folder)) == 2


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "more", "code", "part"),
    [
        ("sleep 60", {"timeoutMs": 1000, "failMode": "closed"}, 1, "blocked by Wei Ji preflight"),
        ("sleep 60", {"timeoutMs": 1000}, 0, ""),
        ("echo rubbish", {"failMode": "closed"}, 1, "blocked by Wei Ji preflight"),
        ("exit 40", {}, 1, "blocked by Wei Ji preflight"),
        ("exit 41", {}, 1, "blocked by Wei Ji preflight"),
        ("echo '{}'", {}, 0, ""),
    ],
)
def test_preflight_decides(tmp_path: Path, script: str, more: dict[str, Any], code: int, part: str) -> None:
    settings = {"enabled": True, "command": "sh", "commandArgs": ["-c", script, "sh"], **more}
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"weijiMemoryPreflight": settings}))
    done = memory("store", tmp_path / "s", "a memory", "--config", config)
    if code:
        one_line(done, code, part)
    assert done.returncode == code, done.stderr
    assert len(stored(tmp_path / "s")) == (not code)


def test_tables_that_do_not_fit(tmp_path: Path) -> None:
    plugin_table(tmp_path, 1)
    one_line(memory("store", tmp_path, "x"), 2, "its vectors have 8 numbers, those of the embedder 64")
    one_line(memory("recall", tmp_path, "x"), 2, "or --embedder none")
    # Candidates are found by vectors alone, so searching by words is no way out.
    one_line(memory("forget", tmp_path, "--query", "x"), 2, "the table was made with, or use --id")
    one_line(memory("list", tmp_path / "none"), 2, "is not a LanceDB folder")
    done = run_here("memory", "store", tmp_path / "new", "x", "--embedder", "none")
    one_line(done, 2, "a new table needs --dimension")


def test_write_protected_folder_is_only_read(folder: Path, tmp_path: Path) -> None:
    export = tmp_path / "e.jsonl"
    memory("export", folder, export)
    first, _ = stored(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    folder.chmod(0o555)
    try:
        for words in (
            ("store", folder, "x", "--despite-gateway"),
            ("forget", folder, "--id", first["id"]),
            ("import", folder, export),
            ("backfill", folder),
            ("compact", folder),
            ("docs-ingest", folder, "--root", tmp_path),
            ("export", folder, folder.parent / "store" / ".." / "store" / "x.jsonl"),
        ):
            done = memory(*words)
            assert done.returncode == 2, (words, done.stderr)
            assert "write-protected" in done.stderr or "is inside the LanceDB folder" in done.stderr
        assert "Listed 2" in memory("list", folder).stdout
        assert memory("recall", folder, "deploy").returncode == 0
    finally:
        folder.chmod(0o755)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("words", [("store", "x"), ("backfill",), ("compact",), ("index", "build", "--write")])
def test_change_beside_a_gateway_names_the_option(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(lance_table, "gateway_using", lambda _: "process 7")
    at = 1 + (words[0] == "index")
    done = memory(*words[:at], folder, *words[at:])
    why = "nothing was written, because a running gateway uses it: process 7; --despite-gateway writes all the same"
    one_line(done, 2, why)


LINE = {"id": "00000000-0000-4000-8000-000000000001", "text": "one", "createdAt": 5}


@pytest.mark.parametrize(
    ("text", "code", "part", "count"),
    [
        (json.dumps(LINE) + "\n" + json.dumps(LINE)[:30], 1, "line 2: invalid_json", 1),
        ('[{"text": "one"}, {"te', 2, "not JSON", 0),
        (f"{json.dumps(LINE)}\n{json.dumps(LINE | {'text': 'two'})}\n", 0, "skipped=1", 1),
        (json.dumps(LINE | {"createdAt": "yesterday"}), 0, "imported=1", 1),
        (json.dumps({"id": "x"}), 1, "line 1: missing_text (it has no text)", 0),
        ('{"text": "one"}\n\xff', 1, "not imported", 1),
        ("", 0, "imported=0", 0),
    ],
)
def test_exports_that_are_damaged(tmp_path: Path, text: str, code: int, part: str, count: int) -> None:
    source = tmp_path / ("e.json" if text.startswith("[") else "e.jsonl")
    source.write_bytes(text.encode("latin-1"))
    done = memory("import", tmp_path / "s", source)
    if code:
        one_line(done, code, part)
    assert done.returncode == code, done.stderr
    assert part in done.stdout + done.stderr
    assert len(stored(tmp_path / "s")) == count


def test_long_line_is_counted_and_the_rest_imported(tmp_path: Path) -> None:
    source = tmp_path / "e.jsonl"
    with source.open("w") as file:
        file.write('{"text": "' + "x" * 100_000_000 + '"}\n' + json.dumps(LINE) + "\n")
    one_line(memory("import", tmp_path / "s", source), 1, "line 1: line_too_long")
    assert len(stored(tmp_path / "s")) == 1


def test_documents_are_indexed_and_cited(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Kiln\n\nThe kiln is fired on Mondays.\n")
    one_line(memory("docs-search", folder, "kiln"), 2, "no such index")
    one_line(memory("docs-ingest", folder), 2, "give --root")
    assert memory("docs-ingest", folder, "--root", tmp_path / "docs").stdout.startswith("Docs ingested: files=1")
    assert "fired on Mondays" in memory("docs-search", folder, "kiln").stdout
    done = memory("recall", folder, "kiln", "--docs", folder / "docs.sqlite", "--json")
    found = json.loads(done.stdout)
    assert found["docs"][0]["text"] == "The kiln is fired on Mondays."
    assert {"dbPath", "tableName", "model", "latencyMs"} <= found["receipt"].keys()


def test_text_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.write(write, "用戶喜歡烏龍茶\n".encode())
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert memory("store", tmp_path / "s", "-").returncode == 0
    assert [(row["text"], row["lang"]) for row in stored(tmp_path / "s")] == [("用戶喜歡烏龍茶", "zh")]


def test_help_fits_80_columns() -> None:
    for name in ("store", "recall", "forget", "list", "stats", "export", "import", "backfill", "compact"):
        done = run_here("memory", name, "--help")
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= 80
