"""``lab memory pack`` as it is typed: bundles, traces, bad input, and what is written."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_here
from tests.memory.ledger.ledgers import filled, rows

ROWS: list[dict[str, Any]] = [
    {"kind": "decision", "summary": "We decided to use clay pots for the basil."},
    {"kind": "fact", "summary": "The gateway timeout is 30 seconds."},
    {
        "kind": "fact",
        "summary": "The gateway timeout is 90 seconds.",
        "detail": {"scope": "ops", "provenance": {"supersedes": ["obs:2"]}},
    },
    {"kind": "event", "summary": "The gateway restarted.", "detail": {"payload": "exit code E1042"}},
    {"kind": "plan", "summary": "Move the gateway.", "detail": {"due_at": "2026-11-01"}},
    {"kind": "note", "summary": "The gateway of doom.", "detail": {"trust": "quarantined"}},
]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return filled(tmp_path / "l.sqlite", ROWS)


def said(*words: str | Path) -> Any:
    done = run_here("memory", "pack", *words, "--json", "--trace")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def reasons(payload: Any) -> dict[str, str]:
    return {one["id"]: one["decision"]["reason"][-1] for one in payload["trace"]["candidates"]}


def test_pack_shows_lines_trace_and_tokens(ledger: Path) -> None:
    done = run_here("memory", "pack", ledger, "--query", "gateway timeout", "--trace", "--now", "2026-11-23")
    assert done.stdout.startswith("- [obs:3] The gateway timeout is 90 seconds.\n")
    assert "obs:2      -      trust_unknown_fail_open, superseded" in done.stdout
    assert "Packed 1 of 2 candidates: 12 of 1,200 tokens." in done.stdout
    assert "ledger: searched; no_vectors_words_only." in done.stdout


def test_lancedb_folder_is_packed_like_a_ledger_and_beside_one(ledger: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    words = ("--importance", "0.9", "--embedder", "hashing", "--write", "--json")
    stored = run_here("memory", "store", folder, "The gateway timeout is 45 seconds", *words)
    (identity,) = {json.loads(stored.stdout)["id"]}
    payload = said(folder, "--query", "gateway timeout")
    assert payload["bundle_text"] == f"- [mem:{identity}] The gateway timeout is 45 seconds"
    both = said(ledger, folder, "--query", "gateway timeout")
    assert {"obs:3", f"mem:{identity}"} <= {item["recordRef"] for item in both["items"]}
    assert [lane["name"] for lane in both["trace"]["lanes"]] == ["ledger", "memories"]
    before = said(folder, "--query", "gateway timeout", "--now", "2026-01-01")
    assert before["items"] == []
    again = run_here("memory", "pack", folder, tmp_path / "other" / "store", "--query", "x")
    assert (again.returncode, "no such file" in again.stderr) == (2, True)


def test_trace_has_a_reason_for_every_candidate_and_no_text(ledger: Path) -> None:
    payload = said(ledger, "--query", "gateway", "--now", "2026-11-23")
    assert reasons(payload) == {
        "obs:3": "within_budget",
        "obs:4": "within_budget",
        "obs:2": "superseded",
        "obs:5": "plan_past",
        "obs:6": "trust_quarantined_excluded",
    }
    assert "seconds" not in json.dumps(payload["trace"])
    assert [item["recordRef"] for item in payload["context_pack"]["items"]] == ["obs:3", "obs:4"]
    assert payload["citations"] == [{"recordRef": ref, "url": None} for ref in ("obs:3", "obs:4")]


def test_profile_upstream_packs_as_the_sidecar(ledger: Path) -> None:
    payload = said(ledger, "--query", "gateway", "--profile", "upstream", "--now", "2026-11-23")
    assert set(reasons(payload)) == {"obs:3", "obs:4", "obs:5", "obs:6"}
    excluded = said(ledger, "--query", "gateway", "--profile", "upstream", "--trust", "exclude_quarantined_fail_open")
    assert reasons(excluded)["obs:6"] == "trust_quarantined_excluded"


def test_raw_record_is_used_for_its_number(ledger: Path) -> None:
    assert said(ledger, "--query", "E1042")["items"][0] == {
        "recordRef": "obs:4",
        "layer": "L2",
        "summary": "The gateway restarted. … payload: exit code E1042",
        "kind": "event",
    }


def test_budget_of_zero_packs_nothing_and_says_so(ledger: Path) -> None:
    done = run_here("memory", "pack", ledger, "--query", "pots", "--budget-tokens", "0")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Packed 0 of 1 candidate: 0 of 0 tokens.")
    assert "Reasons: budget_zero." in done.stdout
    assert reasons(said(ledger, "--query", "pots", "--budget-tokens", "0")) == {"obs:1": "budget_tokens_exceeded"}


@pytest.mark.parametrize(
    ("query", "reason"), [("  ", "query_blank"), ("gateway " * 130_000, "query_cut_to_4000_characters")]
)
def test_blank_or_huge_query_fails_open_with_a_reason(ledger: Path, query: str, reason: str) -> None:
    assert said(ledger, "--query", query)["trace"]["extensions"]["reasons"] == [reason]


def test_query_that_is_not_utf8_is_searched(ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("The gateway timeout is in gateway.toml.\n")
    payload = said(ledger, "--docs", tmp_path / "docs", "--episodes", ledger, "--query", "timeout \udcff")
    assert {item["recordRef"] for item in payload["items"]} == {"obs:3", "doc:a.md#L1"}
    found = run_here("memory", "ledger", "search", ledger, "timeout \udcff")
    assert (found.returncode, "1 result." in found.stdout) == (0, True)


def test_ledger_without_search_tables_is_searched_by_substrings(ledger: Path) -> None:
    connection = sqlite3.connect(ledger)
    connection.executescript("DROP TABLE observations_fts; DROP TABLE observations_fts_tri")
    connection.close()
    payload = said(ledger, "--query", "timeout")
    (lane,) = payload["trace"]["lanes"]
    assert lane["reason"] == "no_search_tables_substrings_only"
    assert [item["recordRef"] for item in payload["items"]] == ["obs:3"]


def test_damaged_ledger_fails_open_and_documents_are_packed(tmp_path: Path) -> None:
    (tmp_path / "l.sqlite").write_text("no ledger")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Pots\n\nClay pots are in the mill.\n")
    payload = said(tmp_path / "l.sqlite", "--docs", tmp_path / "docs", "--query", "clay pots")
    assert [lane["searched"] for lane in payload["trace"]["lanes"]] == [False, True]
    reason = f"ledger_unreadable: {tmp_path / 'l.sqlite'}: is not an SQLite file; give the SQLite file of a ledger"
    assert payload["trace"]["lanes"][0]["reason"] == reason
    assert payload["bundle_text"] == "- [doc:a.md#L1-L3] # Pots Clay pots are in the mill."


@pytest.mark.parametrize("option", ["", "--facts", "--facts-ledger", "--graph", "--episodes", "--docs", "--facts-root"])
def test_source_without_permission_fails_open(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir() if option in ("--docs", "--facts-root") else closed.write_text("no facts")
    closed.chmod(0)
    # For root, whom no mode stops: what a check of the permission says.
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    facts = ("--facts", tmp_path / "f.jsonl") if option.startswith("--facts-") else ()
    (tmp_path / "f.jsonl").touch()
    sources = (ledger, *facts, *((option, closed) if option else (closed,)))
    payload = said(*sources, "--query", "gateway timeout", "--now", "2026-11-23")
    closed.chmod(0o700)
    assert payload["bundle_text"].endswith("The gateway timeout is 90 seconds.")


def test_use_is_recorded_for_what_was_included_alone(ledger: Path) -> None:
    before = rows(ledger)
    assert said(ledger, "--query", "gateway")["lifecycle_write"] == []
    assert rows(ledger) == before
    said(ledger, "--query", "gateway timeout", "--use")
    assert rows(ledger) == before
    payload = said(ledger, "--query", "gateway timeout", "--use", "--write")
    assert payload["trace"]["output"]["refreshedRecordRefs"] == ["obs:3"]
    used = [row.id for row in rows(ledger) if row.detail.get("lifecycle", {}).get("used_count")]
    assert used == [3]
    recorded = run_here("memory", "pack", ledger, "--query", "pots", "--use", "--write").stdout
    assert "Recorded as used: 1 observation." in recorded


def test_use_is_recorded_for_each_of_many_items(tmp_path: Path) -> None:
    many = filled(tmp_path / "many.sqlite", [{"summary": f"Pot {n}."} for n in range(70)])
    payload = said(many, "--query", "pot", "--limit", "70", "--use", "--write")
    assert len(payload["trace"]["output"]["refreshedRecordRefs"]) == len(payload["items"]) == 70
    assert [row.detail["lifecycle"]["used_count"] for row in rows(many)] == [1] * 70


def test_two_ledgers_are_cited_by_name(ledger: Path, tmp_path: Path) -> None:
    other = filled(tmp_path / "other.sqlite", [{"summary": "The gateway timeout was never set."}])
    payload = said(ledger, other, "--query", "gateway timeout", "--use", "--write")
    assert {item["recordRef"] for item in payload["items"]} == {"l:obs:3", "other:obs:1"}
    assert sorted(payload["trace"]["output"]["refreshedRecordRefs"]) == ["l:obs:3", "other:obs:1"]


@pytest.mark.parametrize("prompt", [b"clay pots\n", b"clay pots " * 100_000, b"clay pots \xff"])
def test_query_is_read_from_standard_input(ledger: Path, monkeypatch: pytest.MonkeyPatch, prompt: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(prompt), "utf-8"))
    assert [item["recordRef"] for item in said(ledger, "--query", "-")["items"]] == ["obs:1"]


def test_tail_keeps_the_last_turns_within_their_tokens(ledger: Path, tmp_path: Path) -> None:
    tail = tmp_path / "tail.json"
    tail.write_text(json.dumps(["first", "And the pots?"]))
    payload = said(ledger, "--query", "pots", "--tail", tail, "--budget-tokens", "60")
    assert payload["bundle_text"].splitlines()[-1] == "- [tail:2] And the pots?"
    tail.write_text("first\nAnd the pots?\n")
    assert said(ledger, "--query", "pots", "--tail", tail, "--budget-tokens", "60")["items"] == payload["items"]


def test_tail_that_is_not_utf8_is_packed(ledger: Path, tmp_path: Path) -> None:
    tail = tmp_path / "tail.txt"
    tail.write_bytes(b"And the \xffpots?\n")
    payload = said(ledger, "--query", "pots", "--tail", tail)
    assert payload["bundle_text"].splitlines()[-1] == "- [tail:1] And the \ufffdpots?"


def test_relations_of_an_exported_graph_are_packed(ledger: Path, tmp_path: Path) -> None:
    graph = tmp_path / "g.json"
    other = filled(tmp_path / "other.sqlite", [{"summary": "The gateway uses `redis`."}])
    run_here("memory", "graph", "export", graph, "--ledger", other, "--write")
    payload = said(ledger, "--graph", graph, "--query", "what is redis?")
    assert "] concept:gateway USES tool:redis (obs:1)\n" in payload["bundle_text"]
    graph.write_text("{}")
    lanes = said(ledger, "--graph", graph, "--query", "gateway")["trace"]["lanes"]
    assert lanes[1]["reason"] == f"{graph} cannot be read as a graph; lab memory graph show --graph says why"


def test_scope_restricts_the_ledger(ledger: Path) -> None:
    assert set(reasons(said(ledger, "--query", "gateway", "--scope", "ops"))) == {"obs:3"}


def test_equal_packs_are_equal_bytes(ledger: Path) -> None:
    first, second = (said(ledger, "--query", "gateway", "--now", "2026-11-23") for _ in range(2))
    for payload in (first, second):
        del payload["trace"]["timing"]
    assert first == second


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--query", "x"), "nothing to pack from"),
        (("missing.sqlite", "--query", "x"), "missing.sqlite: no such file"),
        (("a/l.sqlite",), "Missing option '--query'"),
        (("a", "--query", "x"), "a: is a folder; give the SQLite file of a ledger"),
        (("--episodes", "a", "--query", "x"), "--episodes a: is a folder; give the SQLite file of a ledger"),
        (("--facts", "turns.json", "--facts-root", "none", "--query", "x"), "--facts-root none: no such folder"),
        (("--facts", "turns.json", "--facts-root", "turns.json", "--query", "x"), "is a file; give its folder"),
        (("--facts", "missing", "--query", "x"), "--facts missing: no such file; give a file of lab memory facts"),
        (("--docs", "missing", "--query", "x"), "--docs missing: no such folder"),
        (("--docs", "a/l.sqlite", "--query", "x"), "--docs a/l.sqlite: is a file; give its folder"),
        (
            ("--graph", "missing", "--query", "x"),
            "--graph missing: no such file; give a file of lab memory graph export",
        ),
        (("a/l.sqlite", "--query", "x", "--tail", "turns.json"), "turns.json: expected lines, or a JSON list of texts"),
        (("a/l.sqlite", "b/l.sqlite", "--query", "x"), "two ledgers have one name"),
        (("a/l.sqlite", "--query", "x", "--tail-tokens", "0"), "--tail-tokens does nothing without --tail; add it"),
        (("a/l.sqlite", "--query", "x", "--rerank-key-env", "K"), "--rerank-key-env does nothing without --rerank"),
        (("a/l.sqlite", "--query", "x", "--allow-remote"), "--allow-remote does nothing without --rerank"),
        (("--docs", "a", "--query", "x", "--facts-ledger", "b"), "--facts-ledger does nothing without --facts"),
        (("--docs", "a", "--query", "x", "--use"), "--use does nothing without a ledger"),
        (("--docs", "a", "--query", "x", "--archived"), "--archived does nothing without a ledger"),
        (("a/l.sqlite", "--query", "x", "--trust", "all"), "--trust all: expected off or exclude_quarantined"),
    ],
)
def test_unusable_input_is_named(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        filled(tmp_path / name / "l.sqlite", ROWS[:1])
    (tmp_path / "turns.json").write_text('["first", {"text": "second"}]')
    done = run_here("memory", "pack", *words, cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True)


def test_episodes_facts_relations_and_documents_are_packed_with_citations(ledger: Path, tmp_path: Path) -> None:
    spool, facts, docs = tmp_path / "spool.jsonl", tmp_path / "facts.jsonl", tmp_path / "docs"
    event = {
        "schema": "openclaw-mem.episodes.spool.v0",
        "event_id": "ep-1",
        "ts_ms": 1_795_000_000_000,
        "scope": "ops",
        "session_id": "s",
        "agent_id": "a",
        "type": "conversation.user",
        "summary": "Is the basil in clay pots?",
    }
    spool.write_text(json.dumps(event) + "\n")
    docs.mkdir()
    (docs / "a.md").write_text("# Basil\nWater the basil in the morning.\n")
    assert run_here("memory", "episodes", "ingest", spool, "--ledger", ledger, "--write").returncode == 0
    claim = ["basil", "uses", "clay pots", "--from", "2026-11-01", "--source", "obs:1", "--assertion", "note:x"]
    assert run_here("memory", "facts", "assert", facts, *claim, "--ledger", ledger, "--write").returncode == 0
    graph = tmp_path / "graph.json"
    assert run_here("memory", "graph", "export", graph, "--ledger", ledger, "--facts", facts, "--write").returncode == 0
    lanes = ["--episodes", ledger, "--facts", facts, "--graph", graph, "--docs", docs]
    payload = said(ledger, *lanes, "--query", "basil in clay pots", "--now", "2027-01-01")
    assert {one["recordRef"].partition(":")[0].partition("_")[0] for one in payload["citations"]} == {
        *("obs", "ep", "fact", "edge", "doc")
    }
    assert {lane["name"] for lane in payload["trace"]["lanes"]} == {
        *("ledger", "episodes", "facts", "graph", "documents")
    }
    again = said(ledger, *lanes[:6], "--query", "nothing of the kind", "--now", "2027-01-01")
    assert {lane["name"]: lane["reason"] for lane in again["trace"]["lanes"]}["graph"] == "the query names no entity"


def test_sources_of_facts_are_in_the_ledger_and_folder_given(ledger: Path, tmp_path: Path) -> None:
    other, facts, notes = filled(tmp_path / "other.sqlite", ROWS[:1]), tmp_path / "facts.jsonl", tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("first\n")
    claim = ["basil", "uses", "clay", "--from", "2026-11-01", "--source", "obs:2", "--source", "doc:a.md"]
    words = [*claim, "--assertion", "note:x", "--ledger", ledger, "--root", notes, "--write"]
    assert run_here("memory", "facts", "assert", facts, *words).returncode == 0
    query = ("--facts", facts, "--query", "basil", "--now", "2027-01-01")
    refused = run_here("memory", "pack", ledger, other, *query)
    assert (refused.returncode, "name the one that has their sources by --facts-ledger" in refused.stderr) == (2, True)
    for order in ((ledger, other), (other, ledger)):
        payload = said(*order, *query, "--facts-ledger", ledger, "--facts-root", notes)
        assert [one["recordRef"] for one in payload["items"] if one["recordRef"].startswith("fact_")] != []
