"""Searching the index of documents: both lanes, their fusion, Chinese, and what others write meanwhile."""

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


def test_both_lanes_are_fused_by_reciprocal_rank(handbook: Path, opened: Opened, counting: Any) -> None:
    runbook, login, port = (
        f"doc:local:handbook/{name}"
        for name in (
            "gateway/runbook.md#runbook:001",
            "mobile/specs/login.md#login:001",
            "gateway/decisions/2026-03-02-port.md#port:001",
        )
    )
    found = opened(handbook, counting()).search("mobile OR restart", limit=3, rrf_k=10, vec_k=3)
    assert [(row.record_ref, row.match, row.score) for row in found.rows] == [
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
        # No expression of FTS5: quoted where a hyphen is to blame, else nothing.
        ("passkey?", []),
        ("sign-in", []),
        ("the-mobile app", ["mobile/specs/login.md#login:001"]),
        ('the-mobile "app', ["mobile/specs/login.md#login:001"]),
        ("no-such:column", []),
        ('"', []),
        ("*id", []),
        ("port\ud83d", []),
        ("restart \x00", ["gateway/runbook.md#runbook:001"]),
    ],
)
def test_the_text_lane_reads_a_query_as_fts5_does(
    handbook: Path, opened: Opened, query: str, expected: list[str], refs: Any
) -> None:
    assert sorted(refs(opened(handbook).search(query, limit=5))) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("週五可以部署嗎？", ["notes/部署.md#root:001", "notes/部署.md#root~2:001"]),
        ("要不要先備份資料庫", ["notes/部署.md#root~2:001"]),
        ("例外", ["notes/部署.md#root~2:001"]),
        ("備", []),
        ("天氣", []),
    ],
)
def test_chinese_is_found_by_its_pairs_where_words_find_nothing(
    handbook: Path, opened: Opened, query: str, expected: list[str], refs: Any
) -> None:
    assert refs(opened(handbook).search(query, limit=5)) == expected


def test_pairs_are_not_tried_where_words_were_found(handbook: Path, opened: Opened, refs: Any) -> None:
    assert refs(opened(handbook).search("passkey OR 部署", limit=5)) == ["mobile/specs/login.md#login:001"]


def test_terms_are_runs_and_their_pairs_up_to_sixteen() -> None:
    assert cjk_terms("用 資料庫，備份 and 資料 X") == ["資料庫", "資料", "料庫", "備份"]
    assert cjk_terms("甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未")[:3] == [
        "甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未",
        "甲乙",
        "乙丙",
    ]
    assert len(cjk_terms("甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未")) == 16
    assert cjk_terms("no 字") == []


@pytest.mark.parametrize("query", ["port", "部署規則"])
def test_repos_limit_both_lanes_whatever_their_case(written: Write, opened: Opened, query: str, counting: Any) -> None:
    text = "# 部署規則\n\nport 部署規則\n"
    folder = written({"App/.git/HEAD": "", "App/a.md": text, "web/.git/HEAD": "", "web/b.md": text, "c.md": text})
    index = opened(folder, counting())
    found = index.search(query, limit=9, repos=["aPP", "nothing"])
    assert [(row.repo, row.match) for row in found.rows] == [("App", ("fts", "vector"))]
    assert len(index.search(query, limit=9).rows) == 3


def test_a_search_can_be_given_up(written: Write, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written({f"{number}.md": "port " * 50 for number in range(60)})
    index = opened(folder)
    monkeypatch.setattr(indexing, "STEPS_BETWEEN_QUESTIONS", 10)
    answers = iter([False, False])
    with pytest.raises(SearchTimeout):
        index.search("port", limit=9, expired=lambda: next(answers, True))
    assert len(index.search("port", limit=9).rows) == 9


def test_another_process_that_writes_is_seen(handbook: Path, opened: Opened, counting: Any, refs: Any) -> None:
    first, second = opened(handbook, counting()), opened(handbook, counting())
    assert "new.md#a:001" not in refs(first.search("clashed passkey", limit=9))
    (handbook / "new.md").write_text("# A\n\nclashed passkey\n", encoding="utf-8")
    second.ingest(plan_ingest(DocsSettings(source_roots=(str(handbook),))))
    assert refs(first.search("clashed passkey", limit=1)) == ["new.md#a:001"]


def test_what_an_index_ingests_itself_is_seen(handbook: Path, opened: Opened, counting: Any, refs: Any) -> None:
    index = opened(handbook, counting())
    assert index.search("?", limit=99).vector_status == "ok"
    (handbook / "new.md").write_text("# A\n\nport\n", encoding="utf-8")
    index.ingest(plan_ingest(DocsSettings(source_roots=(str(handbook),))))
    assert "new.md#a:001" in refs(index.search("?", limit=99))


def test_vectors_of_what_is_gone_are_forgotten(handbook: Path, opened: Opened, counting: Any) -> None:
    opened(handbook, counting())
    (handbook / "notes/部署.md").unlink()
    assert opened(handbook, counting())._db.execute("SELECT count(*) FROM vectors").fetchone() == (5,)
