"""``lab memory graph`` on the command line: what is around an entity, paths, and the exported file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import run_here
from tests.memory.ledger.ledgers import filled


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    rows = [{"summary": "The gateway uses `redis`", "detail": {"scope": "ops"}}, {"summary": "`redis` and #basil"}]
    return filled(tmp_path / "l.sqlite", [*rows, {"summary": "`tea`"}])


def test_graph_shows_neighbours_and_paths_with_evidence(ledger: Path) -> None:
    shown = run_here("memory", "graph", "show", "redis", "--ledger", ledger).stdout
    assert "tool:redis <-USES- concept:gateway (obs:1)" in shown
    assert "around tool:redis." in shown
    path = run_here("memory", "graph", "path", "gateway", "basil", "--ledger", ledger).stdout
    assert path.startswith("concept:gateway -USES-> tool:redis <-RELATES_TO- concept:basil (obs:1, obs:2)")
    value = json.loads(run_here("memory", "graph", "path", "gateway", "basil", "--ledger", ledger, "--json").stdout)
    assert [edge["evidence"] for edge in value["path"]] == [["obs:1"], ["obs:2"]]


def test_exported_graph_answers_as_the_ledger_does(ledger: Path, tmp_path: Path) -> None:
    out = tmp_path / "g.json"
    assert "add --write" in run_here("memory", "graph", "export", out, "--ledger", ledger).stdout
    assert not out.exists()
    run_here("memory", "graph", "export", out, "--ledger", ledger, "--write")
    first = out.read_bytes()
    run_here("memory", "graph", "export", out, "--ledger", ledger, "--write")
    assert out.read_bytes() == first
    assert b"uses" not in first
    words = ("show", "gateway", "--json")
    assert (
        run_here("memory", "graph", *words, "--graph", out).stdout
        == run_here("memory", "graph", *words, "--ledger", ledger).stdout
    )


def test_graph_export_replaces_no_file_that_is_no_graph(ledger: Path) -> None:
    before = ledger.read_bytes()
    for option in ([], ["--write"]):
        done = run_here("memory", "graph", "export", ledger, "--ledger", ledger, *option)
        assert (done.returncode, "is no graph, so it is not replaced" in done.stderr) == (2, True)
    assert ledger.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("show", "zebra", "--ledger", "l.sqlite"), 2, "the graph has no entity 'zebra'"),
        (("show", "redis"), 2, "give what to relate: --ledger, --facts or both"),
        (("show", "redis", "--graph", "l.sqlite", "--ledger", "l.sqlite"), 2, "--graph is a graph already"),
        (("show", "redis", "--ledger", "none.sqlite"), 2, "none.sqlite: no such file"),
        (("path", "redis", "tea", "--ledger", "l.sqlite"), 1, "no path from tool:redis to tool:tea"),
    ],
)
def test_graph_that_cannot_answer_says_why(ledger: Path, words: tuple[str, ...], code: int, message: str) -> None:
    done = run_here("memory", "graph", *words, cwd=ledger.parent)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr


def test_graph_of_facts_says_what_it_lacks(ledger: Path, tmp_path: Path) -> None:
    facts, notes = tmp_path / "facts.jsonl", tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("first\n")
    for value, source in (("clay", "doc:a.md"), ("pots", "obs:1")):
        words = ["basil", "uses", value, "--from", "2026-11-01", "--source", source, "--assertion", "note:x"]
        run_here("memory", "facts", "assert", facts, *words, "--ledger", ledger, "--root", notes, "--write")
    shown = run_here("memory", "graph", "show", "basil", "--facts", facts, "--root", notes)
    assert ("tool:clay" in shown.stdout, "tool:pots" in shown.stdout) == (True, True)
    assert shown.stderr == "note: sources of facts in a ledger were not checked; give --ledger.\n"
    elsewhere = run_here("memory", "graph", "show", "basil", "--facts", facts, "--ledger", ledger)
    assert "tool:clay" not in elsewhere.stdout
    assert "note: facts were left out: sources_missing_excluded 1; lab memory facts lint" in elsewhere.stderr
