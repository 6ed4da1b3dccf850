"""The ledger beside the public sidecar: equal rows, grades, results and archives, but for the differences of LD-11."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lab.memory.ledger import ledger
from lab.memory.ledger.archive import archive
from lab.memory.ledger.grading import grade
from lab.memory.ledger.ingest import ingest
from lab.memory.ledger.ledger import Observation
from lab.memory.ledger.search import Found, search
from lab.systems.sidecar import grade_observation
from tests.memory.ledger.ledgers import rows

WORDS = ("basil", "pot", "choir", "mill", "thursday", "may", "gateway", "timeout", "error", "fixed", "decided", "plan")
WORDS += (
    "prefer",
    "cron",
    "will",
    "backup",
    "TODO:",
    "thanks",
    "done",
    "port",
    "18888",
    "https://x.y/z",
    "a.b-c",
    "it's",
)
HAN = "決定採用陶盆種羅勒合唱團星期四在舊磨坊偏好計畫問題修正"
QUERIES = (
    *("basil", "basil pot", "gateway timeout", '"choir mill"', "basil OR cron", "pot*", "zzz", "may NOT pot", "18888"),
    *(
        "summary: cron",
        "(broken",
        "error AND",
        "basil?",
        "it's",
        "a.b-c",
        "in",
        "oir",
        "決",
        "陶盆",
        "羅勒合",
        "決定採用 basil",
    ),
    *(
        "合唱 choir",
        "採用陶盆種羅勒",
        "星期四",
        "thursday 星期",
        "NEAR(basil pot)",
        "basil AND",
        "-pot",
        "https://x.y/z",
    ),
)


def observations(seed: int, number: int = 600) -> list[dict[str, Any]]:
    """Return made-up observations with every field and oddity, but for those of LD-11."""
    draw, made = random.Random(seed), []
    for index in range(number):
        text = " ".join(draw.choices(WORDS, k=draw.randint(1, 9)))
        if index % 3 == 0:
            text = "".join(draw.choices(HAN, k=draw.randint(2, 12))) + (f" {text}" if index % 2 else "")
        item: dict[str, Any] = {
            "ts": f"2026-{draw.randint(1, 11):02d}-{draw.randint(1, 28):02d}T09:00:00"
            + draw.choice(("Z", "+08:00", "")),
            "kind": draw.choice(("note", "tool", "decision", "fact", "event", "task", None, "", "preference")),
            draw.choice(("tool_name", "tool")): draw.choice(("memory_store", "exec", "chat", None)),
            "summary": text,
        }
        detail: dict[str, Any] = {}
        if index % 5 == 0:
            item[draw.choice(("summary_en", "text_en"))] = " ".join(draw.choices(WORDS, k=3))
        if index % 6 == 0:
            item["lang"] = draw.choice(("de", "", None))
        if index % 7 == 0:
            detail["scope"] = draw.choice(("Fin Life", "garden"))
        if index % 11 == 0:
            detail["importance"] = draw.choice((0.9, "86%", 55, {"score": 0.2}, {"label": "nice to have"}, None))
        if index % 13 == 0:
            detail["lifecycle"] = draw.choice(({"state": "soft-archived"}, {"state": "stale"}, {"archived_at": "2026"}))
        if index % 17 == 0:
            detail["lifecycle"] = {"used_count": index}
        if index % 19 == 0:
            detail["provenance"] = {"supersedes": [f"obs:{index}", index - 1]}
        item["detail"] = (
            draw.choice((detail, json.dumps(detail))) if detail else draw.choice((None, {}, "text", [1], 5))
        )
        if index % 23 == 0:
            item["extra"] = {"deep": [text, 1.5]}
        made.append(item)
    return made


@pytest.fixture(scope="module", params=(1, 2, 3))
def both(request: pytest.FixtureRequest, sidecar: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same log, ingested and graded by both."""
    folder = tmp_path_factory.mktemp("both")
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(item) + "\n" for item in observations(request.param)), "utf-8")
    theirs = sidecar("--db", folder / "theirs.sqlite", "ingest", "--file", log, "--importance-scorer", "heuristic-v1")
    ours = ingest(folder / "ours.sqlite", log, scorer=grade_observation, upstream=True).receipt()
    return {"folder": folder, "theirs": theirs, "ours": ours, "log": log, "sidecar": sidecar}


def comparable(row: Observation) -> dict[str, Any]:
    detail = row.detail
    if isinstance(detail.get("importance"), dict):
        detail["importance"].pop("graded_at", None)
    return {**row._asdict(), "detail_json": detail}


def test_ingest_and_grades_agree(both: dict[str, Any]) -> None:
    theirs = rows(both["folder"] / "theirs.sqlite")
    ours = rows(both["folder"] / "ours.sqlite")
    assert [comparable(row) for row in ours] == [comparable(row) for row in theirs]
    counts = ("inserted", "total_seen", "graded_filled", "skipped_existing", "scorer_errors", "label_counts")
    assert {name: both["ours"][name] for name in counts} == {name: both["theirs"][name] for name in counts}


def test_grading_afterwards_gives_the_same_as_at_ingest(both: dict[str, Any]) -> None:
    later = both["folder"] / "later.sqlite"
    ingest(later, both["log"], upstream=True)
    grade(later, write=True)
    graded = [comparable(row) for row in rows(later)]
    assert graded == [comparable(row) for row in rows(both["folder"] / "theirs.sqlite")]


@pytest.mark.parametrize("limit", [3, 20])
def test_search_agrees_on_ids_scores_and_receipts(both: dict[str, Any], limit: int) -> None:
    found = 0
    for name in ("theirs", "ours"):
        path = both["folder"] / f"{name}.sqlite"
        with ledger.open_ledger(path) as connection:
            for query in QUERIES:
                # A query that begins with a hyphen is no option.
                theirs = both["sidecar"]("--db", path, "search", "--limit", str(limit), "--", query)
                ours = search(connection, query, now=datetime.now(UTC), limit=limit, upstream=True)
                _same(query, theirs, ours)
                found += len(theirs)
    assert found > 100


def _same(query: str, theirs: list[dict[str, Any]], ours: Found) -> None:
    assert [hit.row.id for hit in ours.hits] == [item["id"] for item in theirs], query
    for hit, item in zip(ours.hits, theirs, strict=True):
        assert hit.factors is not None
        assert hit.factors.score == pytest.approx(item["final_score"], rel=1e-12), query
    if theirs:
        names = ("lane_hits", "query_lang", "fallback_triggered", "cross_lang_recovered")
        assert {name: ours.receipt[name] for name in names} == {name: theirs[0][name] for name in names}, query


def test_timeline_and_get_agree(both: dict[str, Any]) -> None:
    path = both["folder"] / "theirs.sqlite"
    with ledger.open_ledger(path) as connection:
        for command, ids in (("get", (5, 1, 599)), ("timeline", (3, 300))):
            around = ids if command == "get" else [near for one in ids for near in range(one - 4, one + 5)]
            theirs = both["sidecar"]("--db", path, command, *map(str, ids))
            assert [row._asdict() for row in ledger.get(connection, around)] == theirs


def test_each_program_goes_on_with_the_others_file(both: dict[str, Any]) -> None:
    folder, sidecar = both["folder"], both["sidecar"]
    more = folder / "more.jsonl"
    more.write_text('{"ts": "2026-11-20T09:00:00Z", "kind": "fact", "summary": "quince 採用陶盆種羅勒"}\n', "utf-8")
    for name in ("theirs", "ours"):
        path = Path(shutil.copy(folder / f"{name}.sqlite", folder / f"shared-{name}.sqlite"))
        sidecar("--db", path, "ingest", "--file", more)
        assert ingest(path, more).inserted == 1
        theirs = sidecar("--db", path, "search", "quince")
        with ledger.open_ledger(path) as connection:
            ours = search(connection, "quince", now=datetime.now(UTC))
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert [hit.row.id for hit in ours.hits] == [item["id"] for item in theirs] == [601, 602]
        assert sidecar("--db", path, "pack", "--query", "quince")["items"]


def test_archive_keeps_the_bytes_that_harvest_keeps(sidecar: Any, tmp_path: Path) -> None:
    text = "".join(json.dumps(item) + "\n" for item in observations(4, 50))
    logs = [tmp_path / name / "openclaw-mem-observations.jsonl" for name in ("theirs", "ours")]
    for log in logs:
        log.parent.mkdir()
        log.write_text(text, "utf-8")
    words = ("--source", logs[0], "--archive-dir", tmp_path / "kept", "--no-embed", "--no-update-index")
    receipt = sidecar("--db", tmp_path / "theirs.sqlite", "harvest", *words)
    ours = tmp_path / "ours.sqlite"
    ingest(ours, logs[1], upstream=True)
    done = archive(ours, logs[1], write=True)
    (kept,) = (tmp_path / "kept").iterdir()
    assert (receipt["ingested"], kept.read_text()) == (50, Path(done["archived"]).read_text())
    assert [log.exists() for log in logs] == [False, False]
    assert [comparable(row) for row in rows(tmp_path / "theirs.sqlite")] == [comparable(row) for row in rows(ours)]


def test_differences_are_those_of_the_rule(sidecar: Any, tmp_path: Path) -> None:
    """Show each difference of LD-11 in the public program, so that the list stays true."""
    path, log = tmp_path / "theirs.sqlite", tmp_path / "log.jsonl"

    def taken(*items: Any) -> list[Observation]:
        path.unlink(missing_ok=True)
        log.write_text("".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items), "utf-8")
        sidecar("--db", path, "ingest", "--file", log, "--importance-scorer", "heuristic-v1")
        return rows(path)

    # Grades that it cannot read are replaced.
    (row,) = taken({"summary": "x", "detail": {"importance": "high"}})
    assert row.detail["importance"]["method"] == "heuristic-v1"
    # The kinds of capture are replaced.
    assert taken({"summary": "We decided", "kind": "note"})[0].kind == "decision"
    # A second ingest doubles the log.
    sidecar("--db", path, "ingest", "--file", log)
    assert len(rows(path)) == 2
    # A line of another file becomes a row.
    assert taken({"text": "x", "time": "2026-01-01"})[0].summary is None
    # A number of uses that is no float ends a search.
    taken({"summary": "basil", "lifecycle": {"used_count": 10**400}})
    with pytest.raises(subprocess.CalledProcessError):
        sidecar("--db", path, "search", "basil")
    # A malformed line stops an ingest, and nothing of the log is kept.
    with pytest.raises(subprocess.CalledProcessError):
        taken({"summary": "good"}, "nope")
    assert rows(path) == []
    # Of many matches it ranks the oldest.
    taken(*[{"summary": f"basil and {number} other words"} for number in range(700)], {"summary": "basil"})
    assert 701 not in [item["id"] for item in sidecar("--db", path, "search", "basil", "--limit", "1")]
