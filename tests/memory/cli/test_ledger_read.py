"""``lab memory ledger search``, ``timeline`` and ``get`` on a terminal: labels, marks, cut summaries, folded fields."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.commands import run_here
from tests.memory.ledger.ledgers import filled

LONG = "We decided to use clay pots for the basil because plastic keeps the roots too wet in winter, as Ana said"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    graded = {"importance": {"score": 0.9, "label": "must_remember"}, "scope": "ops", "path": "a b " * 60}
    return filled(
        tmp_path / "l.sqlite",
        [{"summary": LONG}, {"summary": "gateway timeout", "detail": graded}, {"summary": "天" * 90}],
    )


def test_query_that_is_no_syntax_says_what_was_searched(ledger: Path) -> None:
    def shown(query: str) -> str:
        return " ".join(run_here("memory", "ledger", "search", ledger, query).stdout.split())

    said = shown('"gateway')
    assert "gateway timeout" in said
    assert "The query is not in the syntax of FTS5; searched for gateway." in said
    assert "searched for kettle OR gateway." in shown('"kettle gateway')
    assert shown('"unbalanced') == (
        "The query is not in the syntax of FTS5; searched for unbalanced. 0 results. "
        "Candidates by kind of search: none."
    )
    assert "it has no word to search for" in shown('"')
    assert 'searched for Do OR "NOT" OR stop OR the OR kettle.' in shown("Do NOT stop the kettle!")
    assert 'searched for "AND" OR gateway.' in shown("AND gateway")
    assert "syntax" not in shown("gateway OR kettle")
    value = json.loads(run_here("memory", "ledger", "search", ledger, '"gateway', "--json").stdout)
    assert value["retried"] == "gateway"


def test_search_without_search_tables_does_not_blame_the_query(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.executescript("DROP TABLE observations_fts; DROP TABLE observations_fts_tri")
    said = run_here("memory", "ledger", "search", ledger, "gateway").stdout
    assert "gateway timeout" in said
    assert "syntax" not in said


def test_timeline_marks_what_was_named_and_shows_labels(ledger: Path) -> None:
    lines = run_here("memory", "ledger", "timeline", ledger, "2").stdout.splitlines()
    assert lines[0].split() == ["id", "time", "kind", "tool", "label", "summary"]
    (marked,) = [line for line in lines if line.startswith(">")]
    assert marked.split()[1] == "2"
    assert "must_remember" in marked
    assert "must_remember" in run_here("memory", "ledger", "search", ledger, "gateway").stdout


def test_tables_show_whole_seconds_and_get_the_time_as_stored(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [{"ts": "2026-11-22T15:29:31.174Z", "summary": "gateway"}])
    for command in (("timeline", path, "1"), ("search", path, "gateway")):
        assert " 2026-11-22T15:29:31Z " in run_here("memory", "ledger", *command).stdout
    assert "ts: 2026-11-22T15:29:31.174Z\n" in run_here("memory", "ledger", "get", path, "1").stdout


def test_long_summary_ends_after_a_word(ledger: Path) -> None:
    shown = " ".join(
        run_here("memory", "ledger", "timeline", ledger, "1", "3", "--window", "0", COLUMNS="200").stdout.split()
    )
    assert "because plastic keeps the…" in shown
    assert "天" * 69 + "…" in shown


def test_ids_are_taken_as_packs_cite_them(ledger: Path) -> None:
    assert (
        run_here("memory", "ledger", "get", ledger, "obs:2").stdout
        == run_here("memory", "ledger", "get", ledger, "2").stdout
    )
    assert (
        run_here("memory", "ledger", "timeline", ledger, "OBS:2").stdout
        == run_here("memory", "ledger", "timeline", ledger, "2").stdout
    )


def test_get_shows_numbers_without_binary_error(tmp_path: Path) -> None:
    path = filled(
        tmp_path / "n.sqlite", [{"summary": "a", "detail": {"score": 0.44999999999999996, "at": 1763600000.123}}]
    )
    shown = run_here("memory", "ledger", "get", path, "1").stdout
    assert '{"score": 0.45, "at": 1763600000.123, ' in shown
    assert "0.44999999999999996" in run_here("memory", "ledger", "get", path, "1", "--json").stdout


def test_timeline_of_unknown_ids_prints_no_table(ledger: Path) -> None:
    done = run_here("memory", "ledger", "timeline", ledger, "999")
    assert (done.returncode, done.stdout) == (2, "")
    done = run_here("memory", "ledger", "timeline", ledger, "2", "999")
    assert done.returncode == 2
    assert "gateway" in done.stdout


def test_fields_of_get_are_folded(ledger: Path) -> None:
    done = run_here("memory", "ledger", "get", ledger, "1", "2", "--raw")
    assert max(map(len, done.stdout.replace(str(ledger.parent), "").splitlines())) <= 80
    assert '"path": "a b a b' in done.stdout
