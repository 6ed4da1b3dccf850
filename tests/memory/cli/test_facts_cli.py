"""``lab memory facts`` on the command line: from an assertion to a pack, and messages for what cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands import Done, run_here
from tests.memory.facts.stores import Place, place

WHEN = ("--from", "2026-11-01", "--source", "obs:1", "--assertion", "note:review")


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def facts(here: Place, command: str, *words: str | Path) -> Done:
    return run_here("memory", "facts", command, here.facts, *words, "--ledger", here.ledger)


def said(here: Place, command: str, *words: str | Path) -> str:
    return " ".join(facts(here, command, *words).stdout.split())


def test_facts_from_assertion_to_pack(here: Place) -> None:
    planned = said(here, "assert", "gateway", "status", "live", *WHEN)
    assert "entity:gateway status = live, from 2026-11-01" in planned
    assert "add --write to do it" in planned
    assert not here.facts.exists()
    made = json.loads(facts(here, "assert", "gateway", "status", "live", *WHEN, "--write", "--json").stdout)
    old = made["facts"][0]["id"]
    assert (made["writes_performed"], made["source_resolutions"][0]["reason"]) == (True, "ok")
    assert f"{old} was asserted before" in said(here, "assert", "gateway", "status", "live", *WHEN, "--write")
    refused = facts(here, "assert", "gateway", "state", "retired", *WHEN, "--write")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"single_value_interval_conflict: entity:gateway has one status at a time, and {old}" in refused.stderr
    later = ("--from", "2026-11-05", "--source", "obs:2", "--assertion", "note:review", "--supersedes", old)
    assert "1 fact superseded" in said(here, "assert", "gateway", "state", "retired", *later, "--write")
    assert "retired" in said(here, "current", "gateway")
    assert "live" in said(here, "current", "gateway", "--as-of", "2026-11-02")
    near = facts(here, "current", "gateay")
    assert "0 facts of entity:gateay" in near.stdout
    assert "did you mean entity:gateway?" in " ".join(near.stderr.split())
    assert "0 facts" in said(here, "current", "gateway", "--as-of", "2026-11-02", "--profile", "upstream")
    events = json.loads(facts(here, "timeline", "gateway", "--predicate", "state", "--json").stdout)["events"]
    assert [(one["object"]["value"], one["status"]) for one in events] == [
        ("live", "superseded"),
        ("retired", "active"),
    ]
    assert "2 facts: 0 errors, 0 warnings." in said(here, "lint")
    assert "1) entity:gateway status = retired (status=active" in said(here, "pack", "gateway")
    assert "is what the assertions give (2 facts)" in run_here("memory", "facts", "rebuild", here.facts).stdout
    ended = facts(
        here, "invalidate", events[1]["id"], "--source", "obs:1", "--assertion", "note:x", "--retract", "--write"
    )
    assert f"{events[1]['id']}: retracted." in ended.stdout
    assert f"Nothing supersedes {old} any more." in ended.stdout
    assert "Left out: outside_interval 1." in said(here, "current", "gateway")


def test_facts_import_writes_all_claims_once(here: Place, tmp_path: Path) -> None:
    lines = [
        {"subject": "gateway", "predicate": "uses", "object": f"tool {number}", "valid_from": "2026-11-01"}
        | {"source_refs": ["obs:1"], "assertion_ref": "note:r"}
        for number in range(3)
    ]
    claims = tmp_path / "claims.jsonl"
    claims.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "3 facts to assert, 0 before." in said(here, "import", claims)
    assert "3 facts asserted, 0 before." in said(here, "import", claims, "--write")
    assert "0 facts asserted, 3 before." in said(here, "import", claims, "--write")


def test_facts_import_names_the_line_of_an_unsound_claim(here: Place, tmp_path: Path) -> None:
    line = {"subject": "gateway", "object": "redis", "valid_from": "2026-11-01", "source_refs": ["obs:1"]}
    claims = tmp_path / "claims.jsonl"
    lines = [line | {"predicate": predicate, "assertion_ref": "note:r"} for predicate in ("uses", "likes")]
    claims.write_text("\n" + "\n".join(map(json.dumps, lines)) + "\n")
    done = facts(here, "import", claims, "--write")
    assert (done.returncode, here.facts.exists()) == (2, False)
    assert done.stderr.startswith(f"error: {claims}:3: unknown predicate 'likes'")


def test_facts_lint_with_errors_exits_with_1(here: Place) -> None:
    facts(here, "assert", "gateway", "status", "live", *WHEN, "--write")
    here.facts.write_text(here.facts.read_text().replace('"status", "object"', '"likes", "object"'))
    done = facts(here, "lint")
    assert done.returncode == 1
    assert "unknown_predicate" in done.stdout
    assert "id_mismatch" in done.stdout
    assert "2 errors; lab memory facts lint --json has details" in done.stderr
    assert "not checked; give --ledger" in run_here("memory", "facts", "lint", here.facts).stdout


def test_facts_whose_ledger_is_not_given_are_unchecked(here: Place) -> None:
    facts(here, "assert", "gateway", "status", "live", *WHEN, "--write")
    with_ledger = json.loads(facts(here, "current", "gateway", "--json").stdout)["facts"][0]["status"]
    for profile, expected in (("seed", "unchecked"), ("upstream", with_ledger)):
        words = ("memory", "facts", "current", here.facts, "gateway", "--profile", profile, "--json")
        assert json.loads(run_here(*words).stdout)["facts"][0]["status"] == expected != ""


def test_facts_propose_shows_triples_and_figures(tmp_path: Path) -> None:
    text = tmp_path / "notes.md"
    text.write_text("entity:gateway uses redis\n")
    shown = run_here("memory", "facts", "propose", text, "--source", "doc:notes.md").stdout
    assert "1 proposal to review. Nothing was written." in shown
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"text": "entity:gateway uses redis"}\n')
    golden = tmp_path / "g.jsonl"
    golden.write_text('{"subject": "gateway", "predicate": "uses", "object": "redis"}\n')
    assert "precision 1.00, recall 1.00" in run_here("memory", "facts", "propose", corpus, "--golden", golden).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("current", "none.jsonl", "x"), "none.jsonl: no such file; make it with lab memory facts assert --write"),
        (("rebuild", "."), "cannot be read: Is a directory"),
        (("invalidate", "none.jsonl", "fact_x", "--assertion", "note:a"), "there is no fact fact_x"),
        (("invalidate", "n", "x", "--assertion", "note:a", "--retract", "--at", "2026-11-01"), "give one of them"),
        (("timeline", "none.jsonl", "x", "--predicate", "uzes"), "did you mean uses?"),
        (("current", "none.jsonl", "x", "--root", "none"), "--root none: no such folder"),
        (("assert", "none.jsonl", "x", "status", "y", *WHEN), "(sqlite_unavailable); give --ledger"),
    ],
)
def test_facts_with_unusable_input_exits_with_2(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = run_here("memory", "facts", *words, cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
