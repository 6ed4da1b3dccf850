"""``lab memory episodes`` as it is typed: dry runs, search, replay, exit codes and messages."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_here
from tests.memory.episodes.ledgers import filled, line, stored, write_spool
from tests.memory.ledger.ledgers import filled as filled_observations


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return filled(tmp_path / "l.sqlite", [line(1, "the choir meets"), line(2, "basil in pots", ts_ms=1000)])


def said(*words: str | Path) -> Any:
    done = run_here("memory", "episodes", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ingest_embed_search_replay_expire(tmp_path: Path) -> None:
    spool, path = (
        write_spool(tmp_path / "s.jsonl", [line(1, "the choir meets"), line(2, "pots")]),
        tmp_path / "l.sqlite",
    )
    assert "2 events to insert" in run_here("memory", "episodes", "ingest", spool, "--ledger", path).stdout
    assert not path.exists()
    (receipt,) = said("ingest", spool, "--ledger", path, "--write")["ingests"]
    assert receipt["by_type"] == {"conversation.user": 2}
    assert said("embed", "--ledger", path, "--embedder", "hashing", "--write")["embedded"] == 2
    result = said("search", "choir", "--ledger", path, "--mode", "hybrid", "--embedder", "hashing", "--trace")
    assert result["receipt"]["vector_status"] == "ok"
    assert result["sessions"][0]["hits"][0]["event_id"] == "e1"
    assert result["trace"]["fused_ranking"][0]["lanes"] == ["fts", "vector"]
    assert [event["event_id"] for event in said("replay", "s1", "--ledger", path)["events"]] == ["e1", "e2"]
    assert said("expire", "--ledger", path, "--at", "2999-01-01", "--write")["removed"] == 2
    assert stored(path) == []


def test_ingest_and_expire_name_a_shipped_set_and_the_types(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    done = run_here("memory", "episodes", "ingest", "shipped:traps", "--ledger", path, "--write")
    assert done.stdout.startswith("shipped:traps: ")
    done = run_here("memory", "episodes", "expire", "--ledger", path, "--at", "2999-01-01")
    assert " events to remove.\nBy type: conversation." in done.stdout


def test_commands_that_write_need_the_option(ledger: Path) -> None:
    before = stored(ledger)
    for words in (("embed", "--embedder", "hashing"), ("expire",)):
        done = run_here("memory", "episodes", *words, "--ledger", ledger)
        assert (done.returncode, "Nothing was written; add --write to do it." in done.stdout) == (0, True)
    assert stored(ledger) == before


def test_search_says_what_it_could_not_search(ledger: Path) -> None:
    done = run_here(
        "memory", "episodes", "search", "choir", "--ledger", ledger, "--mode", "vector", "--embedder", "hashing"
    )
    assert (done.returncode, "the choir meets" in done.stdout) == (0, True)
    assert "Not searched by vectors: no event has a vector (missing_embeddings).\n" in done.stdout


@pytest.mark.parametrize("other", [None, "UPDATE episodic_event_embeddings SET model = 'other'"])
def test_command_that_search_prints_makes_its_vectors(tmp_path: Path, other: str | None) -> None:
    ledger = filled(tmp_path / "the ledger.sqlite", [line(1, "the choir meets")])
    if other:
        said("embed", "--ledger", ledger, "--embedder", "hashing", "--write")
        with sqlite3.connect(ledger) as connection:
            connection.execute(other)
    words = ("search", "choir", "--ledger", ledger, "--mode", "vector", "--embedder", "hashing")
    printed = run_here("memory", "episodes", *words).stdout
    assert ("(other_model)" if other else "(missing_embeddings)") in printed
    (command,) = (text for text in printed.splitlines() if text.startswith("To embed them: lab "))
    assert run_here(*shlex.split(command.partition(": lab ")[2])).returncode == 0
    assert said(*words)["receipt"]["vector_status"] == "ok"


def test_search_puts_a_blank_line_after_each_session(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "l.sqlite", [line(1, "choir"), line(2, "choir", session_id="s2")])
    parts = run_here("memory", "episodes", "search", "choir", "--ledger", ledger).stdout.split("\n\n")
    assert [part.split(":")[0] for part in parts] == ["s2", "s1", "2 sessions, 2 of 2 events found.\n"]


def test_json_has_the_text_that_tables_cut(tmp_path: Path) -> None:
    text = " ".join(f"word{number}" for number in range(200))
    ledger = filled(tmp_path / "l.sqlite", [line(1, text)])
    assert "…" in run_here("memory", "episodes", "replay", "s1", "--ledger", ledger).stdout
    assert said("replay", "s1", "--ledger", ledger)["events"][0]["payload"] == {"text": text}
    assert said("search", "word1", "--ledger", ledger)["sessions"][0]["hits"][0]["payload"] == {"text": text}


def test_receipts_and_traces_have_no_text(ledger: Path) -> None:
    result = said("search", "choir", "--ledger", ledger, "--trace")
    assert "choir" not in json.dumps([result["receipt"], result["trace"]])


def test_payload_that_is_nested_too_deeply_is_shown_as_text(ledger: Path) -> None:
    nested = '{"a":' * 100_000 + "1" + "}" * 100_000
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE episodic_events SET payload_json = ?", (nested,))
    assert said("replay", "s1", "--ledger", ledger)["events"][0]["payload"] == nested


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("search", " "), "the query is blank; give a word to search for"),
        (("search", "x", "--trace"), "--trace: needs --json"),
        (("search", "x", "--mode", "fast"), "mode 'fast': expected lexical, hybrid, vector"),
        (("replay", "s9"), "has no session 's9'"),
        (("expire", "--days", "x=1"), "--days x=1: unknown type 'x'"),
        (("expire", "--days", "tool.call=soon"), "expected a number of days or forever"),
        (("ingest", "nowhere"), "nowhere: no such file or folder"),
        (("ingest", "pyproject.toml"), "missing option --format"),
    ],
)
def test_bad_input_ends_with_one_line(ledger: Path, words: tuple[str, ...], message: str) -> None:
    done = run_here("memory", "episodes", *words, "--ledger", ledger)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert message in done.stderr


def test_limit_above_the_range_of_sqlite_is_refused(ledger: Path) -> None:
    done = run_here("memory", "episodes", "replay", "s1", "--limit", "9223372036854775807", "--ledger", ledger)
    assert done.returncode == 2
    assert "--limit" in done.stderr


def test_ledger_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, but long enough to be read as a page of one")
    observations = filled_observations(tmp_path / "o.sqlite", [{"summary": "x"}])
    for path, message in (
        (tmp_path / "text", "is not an SQLite file"),
        (tmp_path / "none", "no such file; make it with lab memory episodes ingest --write"),
        (tmp_path, "is a folder"),
        (observations, "has no episodes; add some with lab memory episodes ingest --write"),
    ):
        embed = ("embed", "--embedder", "hashing")
        for words in (("search", "x"), ("replay", "s"), ("expire",), ("expire", "--write"), embed, (*embed, "--write")):
            done = run_here("memory", "episodes", *words, "--ledger", path)
            assert (done.returncode, message in done.stderr) == (2, True), (words, done.stderr)
