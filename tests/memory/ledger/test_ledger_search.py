"""Search of a ledger: lanes, filters before the cut, and the composite score (LD-6 to LD-8)."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.ledger import ledger
from lab.memory.ledger import search as ledger_search
from lab.memory.ledger.ledger import Observation
from lab.memory.ledger.search import Found, factors, search, state_of
from tests.memory.ledger.ledgers import NOW, filled

GARDEN = [
    {"summary": "The basil grows in clay pots"},
    {"summary": "決定採用陶盆種羅勒"},
    {"summary": "合唱團星期四在舊磨坊", "summary_en": "The choir meets on Thursday in the old mill"},
    {"summary": "gateway timeout at port 18888: see agents.main.log"},
    {"summary": "pots and pots of tomatoes"},
]


def found(path: Path, query: str, **options: Any) -> Found:
    with ledger.open_ledger(path) as connection:
        return search(connection, query, now=NOW, **options)


def ids(path: Path, query: str, **options: Any) -> list[int]:
    return [hit.row.id for hit in found(path, query, **options).hits]


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("garden") / "l.sqlite", GARDEN)


@pytest.mark.parametrize(
    ("query", "expected", "lanes"),
    [
        ("basil", [1], ["fts_original", "cjk_like"]),
        ("pots NOT basil", [5], ["fts_original"]),
        ("clay OR gateway", [1, 4], ["fts_original"]),
        ("18888: (see", [4], ["fts_original"]),
        ("basil tomatoes", [1, 5], ["fts_original"]),
        ("imeou", [4], ["fts_original", "cjk_like"]),
        ("採用陶盆", [2], ["trigram"]),
        ("羅勒", [2], ["cjk_like"]),
        ("舊磨坊 choir", [3], ["trigram", "fts_original"]),
        ("nothing here", [], ["fts_original", "cjk_like"]),
    ],
)
def test_query_finds_rows_by_lanes(garden: Path, query: str, expected: list[int], lanes: list[str]) -> None:
    result = found(garden, query, composite=False)
    assert sorted(hit.row.id for hit in result.hits) == expected
    # BM25 is weak where most rows match, so whether substrings are searched depends on it.
    assert set(lanes) - {"cjk_like"} <= set(result.receipt["lanes_used"])
    assert ("cjk_like" in result.receipt["lanes_used"]) == result.receipt["fallback_triggered"]


def test_receipt_counts_lanes_without_text(garden: Path) -> None:
    receipt = found(garden, "合唱團 Thursday choir").receipt
    assert (receipt["query_lang"], receipt["cross_lang_recovered"], receipt["result_count"]) == ("en", 0, 1)
    assert receipt["lane_hits"]["fts_en"] == 1
    assert "Thursday" not in str(receipt)
    with pytest.raises(UnusableInput, match="the query is blank"):
        found(garden, "  ")


def test_best_of_many_matches_is_found_unlike_upstream(tmp_path: Path) -> None:
    rows = [{"summary": f"basil and {number} other words here"} for number in range(600)]
    path = filled(tmp_path / "l.sqlite", [*rows, {"summary": "basil"}])
    assert ids(path, "basil", limit=1, composite=False) == [601]
    # The public sidecar ranks the 512 oldest matches.
    assert ids(path, "basil", limit=1, composite=False, upstream=True) == [1]


def test_filters_apply_before_the_cut_unlike_upstream(tmp_path: Path) -> None:
    rows = [{"summary": "basil", "detail": {"scope": "Other place"}} for _ in range(300)]
    mine = [{"summary": "basil in the sun", "detail": {"scope": "garden"}}]
    path = filled(tmp_path / "l.sqlite", [*rows, *mine])
    assert ids(path, "basil", scope="Garden", limit=3) == [301]
    assert ids(path, "basil", scope="garden", limit=3, upstream=True) == []
    assert len(ids(path, "basil", scope="other  place", limit=3)) == 3


@pytest.mark.parametrize("upstream", [False, True])
@pytest.mark.parametrize("scope", ["專案", "", "!!!"])
def test_scope_without_a_name_is_refused(garden: Path, scope: str, upstream: bool) -> None:
    with pytest.raises(UnusableInput, match="has no ASCII letter or digit"):
        ids(garden, "basil", scope=scope, upstream=upstream)


def test_single_chinese_character_is_found_but_not_upstream(garden: Path) -> None:
    [found] = ids(garden, "種")
    assert ids(garden, "陶盆") == [found]
    assert ids(garden, "種", upstream=True) == []


def test_archived_and_superseded_rows_are_left_out(tmp_path: Path) -> None:
    rows = [
        {"summary": "basil one", "detail": {"lifecycle": {"state": "soft-archived"}}},
        {"summary": "basil two", "detail": {"lifecycle": {"archived_at": "2026-01-01"}}},
        {"summary": "basil three", "detail": {"superseded_by": "obs:5"}},
        {"summary": "basil four"},
        {"summary": "basil five", "detail": {"provenance": {"supersedes": ["OBS:4", 3, True, None]}}},
        {"summary": "basil six", "detail": {"lifecycle": "broken", "provenance": {"supersedes": 1}}},
    ]
    path = filled(tmp_path / "l.sqlite", rows)
    assert sorted(ids(path, "basil")) == [5, 6]
    assert sorted(ids(path, "basil", include_archived=True)) == [2, 5, 6]


def test_quarantined_rows_and_cycles_hide_no_row_but_upstream(tmp_path: Path) -> None:
    def row(older: list[int], **detail: Any) -> dict[str, Any]:
        return {"summary": "basil", "detail": {"provenance": {"supersedes": older}, **detail}}

    quarantined = {"trust": "quarantined"}
    rows = [row([2]), row([1, 3]), row([]), row([5], **quarantined), row([]), row([7]), row([])]
    path = filled(tmp_path / "l.sqlite", rows)
    assert sorted(ids(path, "basil")) == [1, 2, 4, 5, 6]
    assert sorted(ids(path, "basil", upstream=True)) == [4, 6]


def test_substrings_by_trigrams_equal_those_of_a_scan(tmp_path: Path) -> None:
    draw = random.Random(7)
    words = ["basil", "Basilica", "ASIL", "sil", "pots", "potsdam", "choir", "100_000", "a%b", "決定採用"]
    rows = [{"summary": " ".join(draw.choices(words, k=4)), "summary_en": draw.choice(words)} for _ in range(300)]
    path = filled(tmp_path / "l.sqlite", rows)
    with ledger.open_ledger(path) as connection:
        for query in ("asil", "asil pots", "otsd", "00_0", "HOI", "po", "決定 asil", "sil sil asi"):
            scan = ledger_search._substrings(connection, query, 1000, True)
            assert ledger_search._substrings(connection, query, 1000, False) == scan, query
            assert scan, query


@pytest.mark.parametrize(
    ("table", "query"),
    [("observations_fts", "basil"), ("observations_fts_tri", "閘道器"), ("observations_fts_tri", "asi")],
)
@pytest.mark.parametrize("block", ["zeroblob(12)", "x''"])
def test_search_table_without_its_root_is_reported(tmp_path: Path, table: str, query: str, block: str) -> None:
    path = filled(tmp_path / "l.sqlite", [{"summary": "basil and 閘道器"}, {"summary": "mint"}])
    assert ids(path, query) == [1]
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {table}_data SET block = {block} WHERE id = 10")
    connection.close()
    with pytest.raises(UnusableInput, match="the search tables are damaged; remove them"):
        found(path, query)


def test_search_table_without_words_is_not_damaged(tmp_path: Path) -> None:
    # Two letters make no trigram.
    path = filled(tmp_path / "l.sqlite", [{"summary": "ab"}])
    assert ids(path, "閘道器") == ids(path, "asi") == []
    assert ids(path, "ab") == [1]


def row(**fields: Any) -> Observation:
    values = {"id": 1, "ts": "", "kind": None, "summary": "", "summary_en": None, "lang": None, "tool_name": None}
    return Observation(**{**values, "detail_json": None, **fields})


def ago(days: float) -> str:
    return (NOW.replace(hour=0) - timedelta(days=days)).isoformat()


def test_composite_score_is_the_product_of_its_factors() -> None:
    decision = row(kind="Decision", ts=ago(180), detail_json='{"importance": {"score": 0.9}}')
    assert math.isclose(factors(decision, 0, NOW).score, 1 / 61 * 1.2 * 0.5)
    event = row(kind="event", ts=ago(14), detail_json='{"importance": "ok", "lifecycle": {"used_count": 20}}')
    assert math.isclose(factors(event, 0, NOW).score, 1 / 61 * 0.5 * 1.3)
    # A time that lies ahead, or none, is no age; unknown kinds count as notes.
    assert factors(row(kind="note", ts=ago(-5)), 0, NOW).recency == 1
    assert factors(row(ts="yesterday"), 0, NOW).recency == 1
    assert factors(row(kind="bird", ts=ago(30)), 0, NOW).recency == 0.5
    assert factors(decision, 4, NOW).relevance == 1 / 65


@pytest.mark.parametrize(
    ("lifecycle", "state", "gate"),
    [
        ({}, "active", 1),
        ({"state": "Stale "}, "stale", 0.5),
        ({"state": "consolidated"}, "consolidated", 0.9),
        ({"state": "odd", "archived_at": "x"}, "soft-archived", 0),
        ([], "active", 1),
    ],
)
def test_state_gates_the_score(lifecycle: Any, state: str, gate: float) -> None:
    assert state_of({"lifecycle": lifecycle}) == state
    assert factors(row(detail_json=json.dumps({"lifecycle": lifecycle})), 0, NOW).state == gate


@contextmanager
def locked(path: Path) -> Iterator[None]:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def test_search_reads_while_another_process_writes(garden: Path) -> None:
    with locked(garden):
        assert ids(garden, "gateway") == [4]
