"""What ``lab memory`` says to its users: about empty and damaged tables, bad records, and refused values."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from tests.commands import run_here
from tests.memory.cli.test_memory_cli import memory, one_line, stored
from tests.memory.tools.lance_tables import raw_table


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
        ("import", folder, source),
        ("list", folder),
        ("stats", folder),
        ("export", folder, tmp_path / "out.jsonl"),
    ):
        for write in (True, False):
            one_line(memory(*words, write=write), 2, "damaged or missing; restore the folder from a backup")
    assert sorted(path.name for path in folder.rglob("*.lance")) == before


def test_dry_run_is_refused_where_the_change_would_be(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    memory("store", folder, "The kiln is fired on Mondays")
    folder.chmod(0o555)
    try:
        for words in (("store", folder, "x"), ("backfill", folder), ("store", folder / "new", "x")):
            one_line(memory(*words, write=False), 2, "nothing would be written, because")
    finally:
        folder.chmod(0o755)


UUID = "00000000-0000-4000-8000-00000000000"


def test_import_names_every_record_that_is_not_stored_as_it_is(tmp_path: Path) -> None:
    source = lines(
        tmp_path / "e.jsonl",
        {"text": "one", "id": UUID + "1", "vector": [0.5] * 64},
        {"text": "two", "vector": [1e39] * 64},
        {"text": "three", "vector": [0.5] * 3},
        {"text": "four", "createdAt": "yesterday"},
        {"text": "five", "id": UUID + "1"},
        {"id": UUID + "6"},
    )
    source.write_text(source.read_text() + "\n{broken\n")
    done = memory("import", tmp_path / "s", source)
    one_line(done, 1, "3 records not imported; the first is line 2: vector_not_finite")
    assert done.stdout.splitlines()[1] == "Vectors: 1 kept, 2 embedded, 0 zero, because no embedder made one."
    said = [line.removeprefix("note: ") for line in done.stderr.splitlines() if line.startswith("note: line")]
    assert [line.split(" (")[0] for line in said] == [
        "line 2: vector_not_finite",
        "line 6: missing_text",
        "line 8: invalid_json",
        "line 3: vector_of_other_length",
        "line 4: bad_created_at",
        f"line 5: skipped, because the id {UUID}1",
    ]
    assert [row["text"] for row in stored(tmp_path / "s")] == ["one", "three", "four"]
    assert max(map(len, done.stderr.splitlines()[:-1])) <= 80


def test_import_counts_vectors_without_an_embedder(tmp_path: Path) -> None:
    source = lines(tmp_path / "e.jsonl", {"text": "one", "vector": [0.5] * 9}, {"text": "two", "vector": [0.5] * 3})
    for more in (("--dry-run",), (), ("--write",)):
        words = ("import", tmp_path / "s", source, "--dimension", "9", "--embedder", "none", "--json", *more)
        value = json.loads(run_here("memory", *words).stdout)
        assert value["vectors"] == {"kept": 1, "embedded": 0, "zero": 1}
        assert value["warnings"] == [{"index": 1, "reason": "vector_of_other_length", "line": 2}]


def test_import_limits_a_text_in_json_as_in_json_lines(tmp_path: Path) -> None:
    source = tmp_path / "e.json"
    source.write_text(json.dumps([{"text": "x" * (17 << 20)}, {"text": "one"}]))
    one_line(memory("import", tmp_path / "s", source), 1, "record 1: text_too_long")
    assert [row["text"] for row in stored(tmp_path / "s")] == ["one"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "script", "said"),
    [
        ("no-such-command", "true", "was not found; {then}; set weijiMemoryPreflight.command to its path"),
        (None, "true", "'weiji-memory-preflight' was not found; {then}"),
        ("sh", "sleep 60", "took longer than 1000 ms; {then}; raise weijiMemoryPreflight.timeoutMs"),
        ("sh", "echo rubbish", "printed no JSON object; {then}"),
        ("sh", "exit 3", "ended with exit code 3; {then}"),
        ("sh", 'echo \'{"ok": false, "fail_reason": "no disk"}\'', "reported that it failed (no disk); {then}"),
        ("sh", "exit 40", "judged the memory queued (exit code 40)"),
        ("sh", "exit 41", "judged the memory rejected (exit code 41)"),
    ],
)
@pytest.mark.parametrize("mode", ["open", "closed"])
def test_preflight_names_cause_and_remedy(
    tmp_path: Path, command: str | None, script: str, said: str, mode: str
) -> None:
    settings = {"enabled": True, "commandArgs": ["-c", script, "sh"], "timeoutMs": 1000, "failMode": mode}
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"weijiMemoryPreflight": settings | ({"command": command} if command else {})}))
    done = memory("store", tmp_path / "s", "a memory", "--config", config)
    blocked = mode == "closed" or "exit 4" in script
    then = "which blocks under failMode closed" if blocked else "stored all the same, under failMode open"
    assert said.format(then=then) in " ".join(done.stderr.split())
    if blocked:
        one_line(done, 1, "blocked by Wei Ji preflight")
    assert (done.returncode, len(stored(tmp_path / "s"))) == ((1, 0) if blocked else (0, 1))


def test_list_recall_and_candidates_show_how_to_forget(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    for text in ("The kiln is fired on Mondays", "The kiln stays shut on Sundays"):
        memory("store", folder, text, "--scope", "shop")
    ids = [row["id"] for row in stored(folder)]
    recalled = memory("recall", folder, "kiln", "--scope", "shop").stdout
    for text in (memory("list", folder).stdout, recalled):
        assert all(f"   {identity}  shop  20" in text for identity in ids)
        assert max(map(len, text.splitlines())) <= 80
    assert "Tiers go first" in recalled
    assert "Run again with --id to delete" in memory("forget", folder, "--query", "kiln").stdout
    assert "Here memoryId is --id." in memory("forget", folder, "--query", "kiln", "--profile", "upstream").stdout
    words = ("memory", "forget", folder, "--query", "kiln", "--embedder", "none")
    one_line(run_here(*words), 2, "--query needs an embedder: give --embedder")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("store", "S", "x", "--category", "nonsense"), "--category nonsense: expected preference, fact"),
        (("list", "S", "--category", "nonsense"), "--category nonsense: expected preference, fact"),
        (("store", "S", "x", "--importance", "2"), "'--importance'"),
        (("store", "S", "x", "--importance", "-1"), "'--importance'"),
        (("list", "S", "--limit", "0"), "'--limit'"),
        (("recall", "S", "x", "--limit", "51"), "'--limit'"),
    ],
)
def test_unknown_values_are_refused(tmp_path: Path, words: tuple[str, ...], part: str) -> None:
    folder = tmp_path / "s"
    memory("store", folder, "x")
    done = memory(*(folder if word == "S" else word for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert part in done.stderr
    assert len(stored(folder)) == 1


def test_invalid_scope_is_stored_under_the_default_one_with_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    done = memory("store", folder, "The kiln is red", "--scope", "Bad Scope!!", "--write")
    assert (done.returncode, stored(folder)[0]["scope"]) == (0, "global")
    assert "not a scope" in " ".join(done.stderr.split())
    memory("store", folder, "The kiln is blue", "--scope", "bad-scope", "--write")
    listed = json.loads(memory("list", folder, "--scope", "Bad Scope!!", "--json").stdout)
    assert [item["text"] for item in listed["items"]] == ["The kiln is blue"]


def test_stats_name_missing_columns_of_the_plugin(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    memory("store", folder, "The kiln is fired on Mondays", "--scope", "shop")
    raw_table(folder).drop_columns(["scope", "trust_tier"])
    assert json.loads(memory("stats", folder, "--json").stdout)["table"]["missingPluginColumns"] == [
        "scope",
        "trust_tier",
    ]
    said = " ".join(memory("stats", folder).stdout.split())
    assert "scope global, for want of a column" in said
    assert "lab memory backfill adds them" in said
    one_line(memory("store", folder, "x"), 2, "has no column scope, trust_tier")
    assert memory("backfill", folder).returncode == 0
    assert json.loads(memory("stats", folder, "--json").stdout)["table"]["missingPluginColumns"] == []
    assert memory("store", folder, "x").returncode == 0


def test_lock_message_says_that_there_is_no_name_and_names_wait(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    memory("store", folder, "x")
    with (folder / ".lab-memory.lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = memory("store", folder, "y", "--wait", "0")
    one_line(done, 4, "left no name in .lab-memory.lock, is writing it")
    assert "--wait SECONDS" in done.stderr


def test_output_fits_80_columns(tmp_path: Path) -> None:
    folder, docs = tmp_path / "s", tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Kiln\n\nThe kiln is fired on Mondays.\n")
    words = ("memory", "store", folder, "x", "--dimension", "64", "--embedder", "none")
    dry, wet = run_here(*words), run_here(*words, "--write")
    assert "tightening" not in wet.stdout
    assert "because there is no embedder" in wet.stdout
    memory("docs-ingest", folder, "--root", docs)
    recalled = memory("recall", folder, "kiln", "--docs", folder / "docs.sqlite", "--json")
    assert recalled.stderr == ""
    for done in (dry, wet):
        assert max(map(len, done.stdout.splitlines())) <= 80, done.stdout


def test_docs_ingest_names_the_missing_root_once(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    one_line(memory("docs-ingest", folder, "--root", tmp_path), 2, "make it, or store a memory in it first")
    memory("store", folder, "x")
    done = memory("docs-ingest", folder, "--root", tmp_path / "nowhere")
    one_line(done, 2, f"{tmp_path / 'nowhere'} (no such folder): Docs ingest skipped")
    assert done.stdout == ""
