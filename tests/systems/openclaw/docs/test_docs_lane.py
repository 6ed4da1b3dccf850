"""The docs cold lane in a turn: when it is consulted, what it returns, and that it never fails the turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.utf16 import js_length
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs import index as indexing
from lab.systems.openclaw.docs.index import DocsIndex
from lab.systems.openclaw.docs.lane import DocHit, DocsLane, open_docs, overfetch, snippet

Write = Callable[[Mapping[str, str]], Path]
Opened = Callable[..., DocsIndex]
PORT = "doc:handbook:gateway/decisions/2026-03-02-port.md#port:001"


def settings(**given: Any) -> DocsSettings:
    return DocsSettings(enabled=True, source_roots=("one", "two"), **given)


def receipt(**given: Any) -> dict[str, Any]:
    return {
        "enabled": True,
        "consulted": True,
        "trigger": "insufficient_hot",
        "scope": "global",
        "strategy": "repo_prefix",
        "requested": 2,
        "returned": 0,
        "filteredByScope": 0,
        "rawCandidates": 0,
        "scopedCandidates": 0,
        "pushdownRepos": [],
        "pushdownApplied": False,
        "sourceRootsCount": 2,
        "error": None,
    } | given


@pytest.mark.parametrize(("hot", "minimum", "needed"), [(0, 2, True), (1, 2, True), (2, 2, False), (0, 0, False)])
def test_needed_if_there_are_few_hot_items(hot: int, minimum: int, needed: bool) -> None:
    assert DocsLane(settings(min_hot_items=minimum), None).needed(hot) is needed
    assert not DocsLane(DocsSettings(min_hot_items=minimum), None).needed(hot)


def test_hit_has_its_citation(handbook: Path, opened: Opened) -> None:
    answer = DocsLane(settings(), opened(handbook)).consult(
        " gateway listens ", "global", 2, trigger="insufficient_hot"
    )
    assert answer.hits == (
        DocHit(
            record_ref=PORT,
            doc_kind="decision",
            text="The gateway listens on port 8443.",
            title="Port",
            heading_path="Port",
            path="gateway/decisions/2026-03-02-port.md",
            repo="handbook",
            score=1 / 61,
            match=("fts",),
        ),
    )
    assert [(hit.source_kind, hit.trust_tier) for hit in answer.hits] == [("operator", "trusted")]
    assert answer.receipt == receipt(returned=1, rawCandidates=1, scopedCandidates=1)
    assert list(answer.receipt) == list(receipt())


def test_consult_with_the_same_query_gives_the_same_bytes(handbook: Path, opened: Opened) -> None:
    def embed(texts: Any) -> np.ndarray:
        return np.array([[len(text), text.count("o"), 1] for text in texts], np.float32)

    queries = ("port", "gateway OR passkey", "週五不部署", "什麼時候備份資料庫", "?")
    receipt = []
    for name in ("one", "one", "two"):
        lane = DocsLane(settings(scope_mapping_strategy="path_prefix"), opened(handbook, embed, name))
        receipt += [
            json.dumps(
                [lane.consult(query, scope, 3, trigger="manual") for query in queries for scope in ("", "mobile")]
            )
        ]
    assert receipt[0] == receipt[1] == receipt[2]


@pytest.mark.parametrize(
    ("query", "ref"), [("週五可以部署嗎", "root:001"), ("遷移之前要不要備份", "root~2:001"), ("通知客服", "root~2:001")]
)
def test_consult_finds_chinese_documents_for_chinese_prompts(
    handbook: Path, opened: Opened, query: str, ref: str
) -> None:
    answer = DocsLane(settings(), opened(handbook)).consult(query, "global", 1, trigger="insufficient_hot")
    assert [hit.record_ref for hit in answer.hits] == [f"doc:handbook:notes/部署.md#{ref}"]


def test_consult_receipt_contains_no_text(handbook: Path, opened: Opened) -> None:
    lane = DocsLane(settings(), opened(handbook))
    for query in ("gateway listens", "週五不部署"):
        receipt = json.dumps(lane.consult(query, "global", 2, trigger="manual").receipt, ensure_ascii=False)
        assert not any(word in receipt for word in ("gateway", "listens", "部署"))


def test_consult_of_a_disabled_lane_says_disabled() -> None:
    answer = DocsLane(DocsSettings(), None).consult("port", "global", 2, trigger="insufficient_hot")
    expected = receipt(enabled=False, consulted=False, trigger="disabled", sourceRootsCount=0)
    # Nothing was searched, so nothing can have failed.
    del expected["error"]
    assert answer == ((), expected)


@pytest.mark.parametrize("query", ["", " \n\u3000\ufeff"])
def test_consult_with_an_empty_query_reports_empty_query(handbook: Path, opened: Opened, query: str) -> None:
    answer = DocsLane(settings(), opened(handbook)).consult(query, "global", 2, trigger="manual")
    assert answer == ((), receipt(trigger="manual", error="empty_query"))


def test_consult_without_an_index_reports_a_failed_search() -> None:
    answer = DocsLane(settings(), None).consult("port", "proj-a", 9, trigger="insufficient_hot")
    assert answer.receipt == receipt(
        scope="proj-a", requested=2, pushdownRepos=["proj-a"], pushdownApplied=True, error="docs_search_failed"
    )


def test_consult_with_a_broken_index_does_not_raise(handbook: Path, opened: Opened) -> None:
    index = opened(handbook)
    index.path.write_bytes(b"rubbish" * 5000)
    assert DocsLane(settings(), index).consult("port", "", 2, trigger="manual").receipt["error"] == "docs_search_failed"
    index.close()
    assert DocsLane(settings(), index).consult("port", "", 2, trigger="manual").receipt["error"] == "docs_search_failed"


def test_consult_reports_a_timeout(handbook: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "STEPS_BETWEEN_CHECKS", 1)

    def ticking(step: int) -> Callable[[], int]:
        ticks: Iterator[int] = count(0, step)
        return lambda: next(ticks)

    index = opened(handbook)
    slow = DocsLane(settings(), index, clock=ticking(900_000_000)).consult("port", "", 2, trigger="manual")
    assert slow == ((), receipt(trigger="manual", scope="", error="docs_search_timeout"))
    quick = DocsLane(settings(), index, clock=ticking(1)).consult("port", "", 2, trigger="manual")
    assert len(quick.hits) == 2


@pytest.mark.parametrize(
    ("max_items", "requested", "returned"), [(2, 5, 2), (5, 3, 3), (5, 0, 1), (5, -1, 1), (1, 4, 1), (5, 9, 4)]
)
def test_consult_returns_a_bounded_number_of_hits(
    written: Write, opened: Opened, max_items: int, requested: int, returned: int
) -> None:
    folder = written({f"{name}.md": "port" for name in "abcd"})
    answer = DocsLane(settings(max_items=max_items), opened(folder)).consult("port", "", requested, trigger="manual")
    assert (len(answer.hits), answer.receipt["returned"], answer.receipt["requested"]) == (
        returned,
        returned,
        max(1, min(max_items, requested)),
    )


@pytest.mark.parametrize(
    ("limit", "fts_k", "vec_k", "expected"), [(2, 20, 20, 20), (2, 1, 1, 10), (5, 20, 30, 30), (2, 100, 1, 50)]
)
def test_overfetch_requests_more_rows_in_a_scope(limit: int, fts_k: int, vec_k: int, expected: int) -> None:
    assert overfetch(limit, settings(search_fts_k=fts_k, search_vec_k=vec_k)) == expected


def test_consult_in_a_scope_is_not_starved_by_better_matches_elsewhere(written: Write, opened: Opened) -> None:
    files = {f"other/{number}.md": "# Port\n\nport port port\n" for number in range(9)}
    folder = written(
        files | {".git/HEAD": "", "team/a.md": "# Notes\n\nA port among many other words of no interest.\n"}
    )
    narrow = settings(scope_mapping_strategy="path_prefix", search_fts_k=1, search_vec_k=1)
    lane = DocsLane(narrow, opened(folder))
    answer = lane.consult("port", "team", 2, trigger="insufficient_hot")
    assert [hit.path for hit in answer.hits] == ["team/a.md"]
    assert answer.receipt == receipt(
        scope="team",
        strategy="path_prefix",
        returned=1,
        rawCandidates=10,
        scopedCandidates=1,
        filteredByScope=9,
    )


@pytest.fixture
def repos(written: Write, opened: Opened) -> DocsIndex:
    """Three repositories and a folder outside them, all about ports."""
    text = "# Port\n\nport\n"
    names = ("App/.git/HEAD", "web/.git/HEAD", "lib/.git/HEAD")
    return opened(
        written(dict.fromkeys(names, "") | dict.fromkeys(("App/a.md", "web/b.md", "lib/c.md", "app/d.md"), text)),
        by_path=False,
    )


@pytest.mark.parametrize(
    ("strategy", "scope", "expected", "pushed", "filtered"),
    [
        ("repo_prefix", "app/api", [], ["app"], 0),
        ("repo_prefix", "[scope:WEB]", ["web:b.md"], ["web"], 0),
        ("repo_prefix", "global", ["App:a.md", "lib:c.md", "local:d.md", "web:b.md"], [], 0),
        ("path_prefix", "d.md", ["local:d.md"], [], 3),
        ("none", "app", ["App:a.md", "lib:c.md", "local:d.md", "web:b.md"], [], 0),
        ("map", "team:x", ["App:a.md", "web:b.md"], ["web", "App"], 0),
        ("map", "elsewhere", [], [], 4),
    ],
)
def test_consult_in_a_scope_returns_only_its_documents(
    repos: DocsIndex, strategy: str, scope: str, expected: list[str], pushed: list[str], filtered: int
) -> None:
    mapped = (("team:x", ("/web", "WEB")), ("team", ("App",)))
    lane = DocsLane(settings(scope_mapping_strategy=strategy, scope_map=mapped, max_items=5), repos)
    answer = lane.consult("port", scope, 5, trigger="manual")
    assert sorted(f"{hit.repo}:{hit.path}" for hit in answer.hits) == expected
    receipt = answer.receipt
    assert (receipt["pushdownRepos"], receipt["pushdownApplied"], receipt["filteredByScope"]) == (
        pushed,
        bool(pushed),
        filtered,
    )


def test_snippet_is_collapsed_and_cut() -> None:
    assert snippet(" a\n\n\u3000b\ufeffc ", 80) == "a b c"
    assert snippet("x" * 280, 280) == "x" * 280
    assert snippet("x" * 281, 280) == "x" * 280 + "…"
    assert js_length(snippet("x" * 9000, 1)) == 81
    assert js_length(snippet("x" * 9000, 9000)) == 1201


def test_snippet_may_end_in_half_a_character_as_the_plugins() -> None:
    assert snippet("x" * 79 + "😀" * 9, 80) == "x" * 79 + "\ud83d…"
    assert snippet("😀" * 41, 80) == "😀" * 40 + "…"


def test_open_docs_accepts_a_folder_or_a_file(handbook: Path, tmp_path: Path) -> None:
    docs_settings = DocsSettings(enabled=True, source_roots=(str(handbook),))
    for given, path in (
        (tmp_path / "cache" / "docs", tmp_path / "cache" / "docs" / "docs.sqlite"),
        (tmp_path / "x.db", tmp_path / "x.db"),
    ):
        with open_docs(docs_settings, given) as index:
            assert (index.path, index.last_ingest["chunks_inserted"]) == (path, 7)
        with open_docs(docs_settings, given) as index:
            assert index.last_ingest["chunks_unchanged"] == 7
        assert [file.name for file in path.parent.iterdir() if file.name.startswith(path.name)] == [path.name]


def test_open_docs_uses_the_configured_chunk_size(written: Write, opened: Opened) -> None:
    folder = written({"a.md": f"{'word ' * 60}\n\n{'word ' * 60}\n"})
    assert opened(folder).last_ingest["chunks_total"] == 1
    assert opened(folder, max_chunk_chars=300).last_ingest["chunks_total"] == 2
