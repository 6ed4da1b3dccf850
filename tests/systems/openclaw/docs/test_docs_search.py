"""Searching the document index: both lanes, their fusion, Chinese, and concurrent writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs import index as indexing
from lab.systems.openclaw.docs.globs import plan_ingest
from lab.systems.openclaw.docs.index import DocsIndex, SearchTimeout, cjk_terms

Write = Callable[[Mapping[str, str]], Path]
Opened = Callable[..., DocsIndex]


def test_search_fuses_both_lanes_by_reciprocal_rank(handbook: Path, opened: Opened, counting: Any) -> None:
    runbook, login, port = (
        f"doc:handbook:{name}"
        for name in (
            "gateway/runbook.md#runbook:001",
            "mobile/specs/login.md#login:001",
            "gateway/decisions/2026-03-02-port.md#port:001",
        )
    )
    answer = opened(handbook, counting()).search("mobile OR restart", limit=3, rrf_k=10, vec_k=3)
    assert [(row.record_ref, row.match, row.score) for row in answer.rows] == [
        (runbook, ("fts", "vector"), 2 / 11),
        (login, ("fts", "vector"), 2 / 12),
        (port, ("vector",), 1 / 13),
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("PASSKEY", ["mobile/specs/login.md#login:001"]),
        ("passkey gateway", []),
        ("passkey OR restart", ["gateway/runbook.md#runbook:001", "mobile/specs/login.md#login:001"]),
        ("clash*", ["gateway/decisions/2026-03-02-port.md#port-why:001"]),
        # Invalid FTS5 expressions are quoted if they contain a hyphen, else match nothing.
        ("passkey?", []),
        ("sign-in", []),
        ("the-mobile app", ["mobile/specs/login.md#login:001"]),
        # Quotes within are not doubled.
        ('the-mobile "app', []),
        ("no-such:column", []),
        ('"', []),
        ("*id", []),
        ("passkey\ud83d", ["mobile/specs/login.md#login:001"]),
        ("restart \x00", ["gateway/runbook.md#runbook:001"]),
    ],
)
def test_text_lane_parses_a_query_as_fts5(
    handbook: Path, opened: Opened, query: str, expected: list[str], refs: Any
) -> None:
    assert sorted(refs(opened(handbook).search(query, limit=5))) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("週五可以部署嗎？", ["notes/部署.md#root:001"]),
        ("要不要先備份資料庫", ["notes/部署.md#root~2:001"]),
        ("例外情況", []),
        ("コーヒー", []),
        ("備", []),
        ("天氣", []),
    ],
)
def test_text_lane_matches_chinese_pairs_if_words_match_nothing(
    handbook: Path, opened: Opened, query: str, expected: list[str], refs: Any
) -> None:
    assert refs(opened(handbook).search(query, limit=5)) == expected


def test_text_lane_skips_pairs_if_words_match(handbook: Path, opened: Opened, refs: Any) -> None:
    assert refs(opened(handbook).search("passkey OR 資料庫", limit=5)) == ["mobile/specs/login.md#login:001"]


def test_cjk_terms_are_at_most_16_runs_and_pairs() -> None:
    assert cjk_terms("用 資料庫，備份 and 資料 X") == ["資料庫", "資料", "料庫", "備份"]
    assert cjk_terms("甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未")[:3] == [
        "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未",
        "甲乙",
        "乙丙",
    ]
    assert len(cjk_terms("甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未")) == 16
    assert cjk_terms("no 字") == []


@pytest.mark.parametrize("query", ["port", "部署規則"])
def test_search_limits_both_lanes_to_repos(written: Write, opened: Opened, query: str, counting: Any) -> None:
    text = "# 部署規則\n\nport 部署規則\n"
    folder = written({"App/.git/HEAD": "", "App/a.md": text, "web/.git/HEAD": "", "web/b.md": text, "c.md": text})
    index = opened(folder, counting())
    answer = index.search(query, limit=9, repos=["App", "WEB"])
    assert [(row.repo, row.match) for row in answer.rows] == [("App", ("fts", "vector"))]
    assert len(index.search(query, limit=9).rows) == 3


def test_search_can_be_aborted(written: Write, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written({f"{number}.md": "port " * 50 for number in range(60)})
    index = opened(folder)
    monkeypatch.setattr(indexing, "STEPS_BETWEEN_CHECKS", 10)
    answers = iter([False, False])
    with pytest.raises(SearchTimeout):
        index.search("port", limit=9, expired=lambda: next(answers, True))
    assert len(index.search("port", limit=9).rows) == 9


def test_search_sees_writes_of_another_process(handbook: Path, opened: Opened, counting: Any, refs: Any) -> None:
    first, second = opened(handbook, counting()), opened(handbook, counting())
    assert "new.md#a:001" not in refs(first.search("clashed passkey", limit=9))
    (handbook / "new.md").write_text("# A\n\nclashed passkey\n", encoding="utf-8")
    second.ingest(plan_ingest(DocsSettings(source_roots=(str(handbook),))))
    assert refs(first.search("clashed passkey", limit=1)) == ["new.md#a:001"]


def test_search_sees_its_own_ingests(handbook: Path, opened: Opened, counting: Any, refs: Any) -> None:
    index = opened(handbook, counting())
    assert index.search("port?", limit=99).vector_status == "ok"
    (handbook / "new.md").write_text("# A\n\nport\n", encoding="utf-8")
    index.ingest(plan_ingest(DocsSettings(source_roots=(str(handbook),))))
    assert "new.md#a:001" in refs(index.search("port?", limit=99))


def test_ingest_deletes_vectors_of_deleted_chunks(handbook: Path, opened: Opened, counting: Any) -> None:
    opened(handbook, counting())
    (handbook / "notes/部署.md").unlink()
    assert opened(handbook, counting())._db.execute("SELECT count(*) FROM vectors").fetchone() == (5,)
