"""``lab memory ledger`` as it is typed: progressive recall, dry runs, exit codes and messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_here
from tests.memory.ledger.ledgers import filled, rows, write_log

POTS = {"kind": "decision", "tool_name": "chat", "summary": "We decided to use clay pots for the basil"}
TIMEOUT = {"kind": "tool", "tool_name": "exec", "summary": "gateway timeout", "detail": {"scope": "ops"}}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return filled(tmp_path / "l.sqlite", [POTS, TIMEOUT, {"summary": "thanks"}])


def said(*words: str | Path) -> Any:
    done = run_here("memory", "ledger", *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_search_then_timeline_then_get(ledger: Path) -> None:
    found = run_here("memory", "ledger", "search", ledger, "gateway")
    assert "gateway timeout" in found.stdout
    assert "1 result. Candidates by kind of search: full text 1" in found.stdout
    (hit,) = said("search", ledger, "gateway", "--scope", "ops", "--now", "2026-11-23")["results"]
    assert (hit["id"], hit["factors"]["importance"], set(hit) & {"detail_json", "detail"}) == (2, 1.0, set())
    around = said("timeline", ledger, "2", "--window", "1")["observations"]
    assert [row["id"] for row in around] == [1, 2, 3]
    (item,) = said("get", ledger, "2", "--raw")["observations"]
    assert item["detail"]["scope"] == "ops"
    shown = " ".join(run_here("memory", "ledger", "get", ledger, "2", "--raw").stdout.split())
    assert f'detail: {{"scope": "ops"}} source: {ledger.with_suffix(".jsonl")}, line 2 raw: {{"ts": ' in shown
    assert json.loads(item["source"]["raw"])["summary"] == "gateway timeout"
    assert said("search", ledger, "gateway", "--by", "relevance", "--profile", "upstream")["results"][0]["id"] == 2


def test_commands_that_write_need_the_option(ledger: Path, tmp_path: Path) -> None:
    log = write_log(tmp_path / "more.jsonl", [{"summary": "more"}])
    before = rows(ledger)
    for words in (("ingest", ledger, log), ("grade", ledger), ("archive", ledger, tmp_path / "l.jsonl")):
        done = run_here("memory", "ledger", *words)
        assert (done.returncode, "Nothing was written; add --write to do it." in done.stdout) == (0, True)
    assert (rows(ledger), (tmp_path / "archive").exists()) == (before, False)
    done = run_here("memory", "ledger", "ingest", ledger, log, "--grade", "--write")
    assert "1 observation inserted (id 4); 0 lines ingested before." in done.stdout
    assert (
        "3 observations graded; 1 had an importance before."
        in run_here("memory", "ledger", "grade", ledger, "--write").stdout
    )
    assert said("archive", ledger, log, "--write")["lines"] == 1
    assert not log.exists()


def test_ingest_names_what_it_could_not_take(tmp_path: Path) -> None:
    log = write_log(tmp_path / "o.jsonl", [POTS])
    with log.open("ab") as file:
        file.write(
            b'nope\n{"summary": "no time"}\n{"text": "other"}\n{"tool_name": "a", "supersedes": 1}\n{"summary": "cut'
        )
    done = run_here("memory", "ledger", "ingest", tmp_path / "l.sqlite", log, "--write")
    assert done.returncode == 0
    assert "Malformed, skipped: 1 not JSON (first: line 2)." in done.stdout
    assert "Bytes of an incomplete last line, left for the next run: 16." in done.stdout
    assert "Malformed, skipped: 1 without a summary or tool_name (first: line 4)." in done.stdout
    assert "Without a time, so given the time of this run: 2." in done.stdout
    assert "Without a summary, so found by their other fields alone: 1." in done.stdout
    assert "outside provenance, where nothing reads them: 1." in " ".join(done.stdout.split())


def test_benchmark_fails_with_code_1(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"id": "a", "obs": {"summary": "thanks"}, "expect": {"label": "ignore"}}\n')
    assert "1 case: agreement 1.00" in run_here("memory", "ledger", "grade", "--benchmark", cases).stdout
    cases.write_text('{"id": "a", "obs": {"summary": "thanks"}, "expect": {"label": "must_remember"}}\n')
    done = run_here("memory", "ledger", "grade", "--benchmark", cases)
    assert done.returncode == 1
    assert "1 case not as expected; first: a (judged must_remember, graded ignore, score 0.05" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("search", "LEDGER", " "), "the query is blank"),
        (("search", "LEDGER", "x", "--by", "luck"), "--by luck: expected composite or relevance"),
        (("search", "LEDGER", "x", "--profile", "mine"), "--profile mine: expected seed or upstream"),
        (("search", "none.sqlite", "x"), "no such file"),
        (("get", "LEDGER", "1", "99"), "the ledger has no observation 99"),
        (("get", "LEDGER", "1", "two"), "'two': is no id of an observation; give a number, or obs: and a number"),
        (("timeline", "LEDGER", "obs:77"), "the ledger has no observation 77"),
        (("timeline", "LEDGER", "77"), "the ledger has no observation 77"),
        (("grade",), "give either a ledger or --benchmark FILE"),
        (("ingest", "LEDGER", "none.jsonl"), "cannot be read: No such file"),
        (("archive", "LEDGER", "none.jsonl"), "no such file"),
        (("capture", "none", "o.jsonl"), "no such file or folder"),
        (("ingest", "LEDGER", "/dev/zero"), "is a device"),
    ],
)
def test_bad_input_is_one_line_with_code_2(ledger: Path, words: tuple[str, ...], message: str) -> None:
    done = run_here(
        "memory", "ledger", *(str(ledger) if word == "LEDGER" else word for word in words), cwd=ledger.parent
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_ingest_of_a_wrong_file_is_unusable_and_the_others_are_ingested(tmp_path: Path) -> None:
    wrong = tmp_path / "openclaw.json"
    wrong.write_text('{\n  "plugins": 1\n}\n', "utf-8")
    done = run_here("memory", "ledger", "ingest", tmp_path / "l.sqlite", wrong, "--write")
    assert (done.returncode, done.stdout, (tmp_path / "l.sqlite").exists()) == (2, "", False)
    assert "no line is an observation (3 not JSON)" in done.stderr
    log = write_log(tmp_path / "o.jsonl", [POTS])
    done = run_here("memory", "ledger", "ingest", tmp_path / "l.sqlite", wrong, log, "--write", "--json")
    assert done.returncode == 2
    assert [receipt["inserted"] for receipt in json.loads(done.stdout)["ingests"]] == [1]
    # A log that is still empty is none of these.
    (tmp_path / "new.jsonl").write_bytes(b"\n")
    assert run_here("memory", "ledger", "ingest", tmp_path / "l.sqlite", tmp_path / "new.jsonl").returncode == 0
