"""Distinct query words: both stores count a repeated word once, and every fusion of their lanes agrees."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from lab.replay.plan import make_plan
from lab.retrieval.contract import Filter, Query, Row
from lab.retrieval.exact import ExactStore
from lab.retrieval.fusion import METHODS, Fusion, fuse
from lab.retrieval.lance import LanceStore
from lab.retrieval.tokens import TextSettings, Tokens, distinct_text
from lab.runs.request import ReplayRequest
from tests.conftest import ROOT

DISTINCT = TextSettings(query_words="distinct")
# Repeated words, stems that are not their own stem, and Chinese words that occur twice.
QUERIES = (
    "backup the backup before the release, then release the backup of the course",
    "the courses of the coffee course: which coffee, which course?",
    "資料庫備份之後再備份資料庫",
    "reverse reversed reverses",
)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """The memories of two shipped conversations, one of them Chinese."""
    request = ReplayRequest(
        str(ROOT / "datasets" / "operators"), "lab", ("hybrid",), conversation=("harbor-release", "tea-mountain")
    )
    return [memory.text for recording in make_plan(request).recordings for memory in recording.memories]


@pytest.mark.slow
def test_stores_agree_on_distinct_query_words_in_every_fusion(texts: list[str]) -> None:
    tokens = Tokens(DISTINCT)
    tokens.prepare([*texts, *QUERIES])
    rows = [Row(f"m{number}", str(number), text, text, number) for number, text in enumerate(texts)]
    vectors = np.random.default_rng(1).normal(size=(len(rows) + 1, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with closing(LanceStore(8, DISTINCT)) as lance:
        exact = ExactStore(8, DISTINCT)
        for store in (exact, lance):
            store.add(rows, vectors[:-1], tokens.of(texts))
        matched = 0
        for text, words in zip(QUERIES, tokens.of(QUERIES), strict=True):
            query = Query(text, words, vectors[-1])
            mine, theirs = (store.view(query).search(Filter(), 30) for store in (exact, lance))
            assert [hit[:2] for hit in mine.fts] == [hit[:2] for hit in theirs.fts]
            matched += len(mine.fts)
            for method in METHODS:
                fused = [fuse(lanes, rows, 12, Fusion(method)) for lanes in (mine, theirs)]
                assert [(hit.id, hit.score) for hit in fused[0]] == [(hit.id, hit.score) for hit in fused[1]]
        assert matched >= 8


def test_distinct_words_change_scores_of_repeated_words_only(texts: list[str]) -> None:
    tokens = Tokens(DISTINCT)
    tokens.prepare([*texts, *QUERIES])
    rows = [Row(f"m{number}", str(number), text, text, number) for number, text in enumerate(texts)]
    hits = {}
    for settings in (TextSettings(), DISTINCT):
        store = ExactStore(8, settings)
        store.add(rows, np.zeros((len(rows), 8), np.float32), tokens.of(texts))
        repeated, plain = ("release release backup", "release backup")
        tokens.prepare([repeated, plain])
        hits[settings] = [
            store.view(Query(text, tokens.of([text])[0], None)).search(Filter(), 30).fts for text in (repeated, plain)
        ]
    assert hits[DISTINCT][0] == hits[DISTINCT][1] == hits[TextSettings()][1]
    assert hits[TextSettings()][0] != hits[DISTINCT][0]


def test_distinct_text_writes_a_stem_as_it_occurs() -> None:
    stems = {"courses": ["cours"], "cours": ["cour"], "tea": ["tea"], "two words": ["two", "words"]}
    assert distinct_text("Courses, tea", ["cours", "tea"], lambda part: stems.get(part.lower(), [])) == "Courses tea"
