"""The hybrid score, ageing, diversity, and what the host returns of its candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lab.embedding.embedder import QUERY, HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.systems.files.folder import Chunk, Entry, Folder, Piece
from lab.systems.files.index import FileIndex, Indexed
from lab.systems.files.search import Found, Hit, _selected, dated_ms, diverse, search
from lab.systems.files.settings import Settings

OLD, NEW = Settings("2026.6.6"), Settings("2026.9.6")
DAY = 86_400_000
NOW = dated_ms("memory/2026-03-01.md")
assert NOW is not None
NOTES = {
    "memory/2026-03-01.md": "the harbour pilot starts on Monday",
    "memory/2026-01-30.md": "the harbour pilot starts on Friday",
    "MEMORY.md": "the bakery has green harbour invoices",
    "sessions/1.jsonl": "User: when does the harbour pilot start?",
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def index_of(folder: Path, settings: Settings, notes: dict[str, str] = NOTES) -> FileIndex:
    index = FileIndex(Folder(folder), settings, Vectors(HashingEmbedder()))
    for path, text in notes.items():
        index.folder.append(path, Entry(path, text), [text], NOW - 15 * DAY)
    index.sync()
    return index


def scores(found: Found) -> dict[str, float]:
    return {hit.indexed.chunk.path: hit.score for hit in found.candidates}


def cosine(index: FileIndex, prompt: str, text: str) -> float:
    index.vectors.prepare([prompt], role=QUERY)
    pair = index.vectors.of([prompt], QUERY)[0].astype(float), index.vectors.of([text])[0].astype(float)
    return round(float(pair[0] @ pair[1] / np.linalg.norm(pair[0]) / np.linalg.norm(pair[1])), 6)


def test_score_is_the_weighted_sum_of_cosine_and_bm25(tmp_path: Path) -> None:
    index, prompt = index_of(tmp_path, OLD), "harbour pilot"
    found = search(index, prompt, 3, 0.35, NOW)
    (rank,) = index._db.execute(
        "SELECT bm25(chunks_fts) FROM chunks_fts WHERE chunks_fts MATCH ? AND text = ?",
        ('"harbour" AND "pilot"', NOTES["memory/2026-03-01.md"]),
    ).fetchone()
    words = -rank / (1 - rank)
    for path, text in NOTES.items():
        expected = 0.7 * cosine(index, prompt, text)
        if path == "memory/2026-03-01.md":
            expected += 0.3 * words
        if path in ("memory/2026-03-01.md", "MEMORY.md"):
            assert scores(found)[path] == pytest.approx(expected, abs=1e-6)
    assert found.fts == 3
    assert found.vec == 4
    assert [hit.fts_rank is None for hit in found.candidates].count(True) == 1
    # All words must be there, and 2026.6.6 looks for nothing less.
    assert search(index, "harbour pilot invoices", 3, 0.35, NOW).fts == 0


def test_newer_release_counts_covered_words_and_searches_single_ones(tmp_path: Path) -> None:
    index, prompt = index_of(tmp_path, NEW), "which invoices, pilot memory?"
    found = search(index, prompt, 3, 0.35, NOW)
    by_path = {hit.indexed.chunk.path: hit for hit in found.candidates}
    assert [by_path[path].fts_rank is None for path in NOTES] == [False] * 4
    (rank,) = index._db.execute(
        "SELECT bm25(chunks_fts) FROM chunks_fts WHERE chunks_fts MATCH '\"invoices\"'"
    ).fetchone()
    # Four words in the prompt, one of them in the text of six words, and one in the path.
    expected = -rank / (1 - rank) + 0.45 / 4 + 0.2 / 6 + 0.18 + 0.18
    assert by_path["MEMORY.md"].words == pytest.approx(min(1, expected))
    hit = by_path["MEMORY.md"]
    assert hit.score == pytest.approx(0.7 * hit.vector + 0.3 * hit.words)


def test_dated_notes_and_transcripts_halve_in_thirty_days(tmp_path: Path) -> None:
    index = index_of(tmp_path, NEW)
    hits = search(index, "harbour pilot", 3, 0.35, NOW).candidates
    factors = {h.indexed.chunk.path: h.score / (0.7 * h.vector + 0.3 * h.words) for h in hits}
    expected = {
        "memory/2026-03-01.md": 1,
        "memory/2026-01-30.md": 0.5,
        "MEMORY.md": 1,
        "sessions/1.jsonl": math.sqrt(0.5),
    }
    assert factors == pytest.approx(expected)
    later = scores(search(index, "harbour pilot", 3, 0.35, NOW - 40 * DAY))
    assert later["memory/2026-03-01.md"] == pytest.approx(
        scores(search(index, "harbour pilot", 3, 0, NOW))["memory/2026-03-01.md"]
    )


def test_dates_are_read_below_memory_only() -> None:
    assert dated_ms("memory/drafts/2026-03-01-x.md") == NOW
    assert [dated_ms(path) for path in ("MEMORY.md", "memory/rules.md", "notes/2026-03-01.md")] == [None] * 3


@pytest.mark.parametrize("fault", ["embedder_down", "input_too_long"])
def test_without_a_vector_the_words_are_the_score(tmp_path: Path, fault: str) -> None:
    index = index_of(tmp_path, OLD)
    found = search(index, "harbour pilot", 3, 0.35, NOW, frozenset({fault}))
    # Single words are searched too, in every release.
    assert (found.fts, found.vec) == (4, 0)
    assert [hit.score for hit in found.candidates] == [hit.words for hit in found.candidates]


def test_a_lane_that_fails_finds_nothing(tmp_path: Path) -> None:
    index = index_of(tmp_path, OLD)
    assert [
        search(index, "harbour pilot", 3, 0, NOW, frozenset({fault}))[2:] for fault in ("fts_error", "vector_error")
    ] == [
        (0, 4),
        (3, 0),
    ]
    both = search(index, "harbour", 3, 0, NOW, frozenset({"fts_error", "vector_error"}))
    assert both == ([], [], 0, 0)
    assert search(index, "  ", 3, 0, NOW) == ([], [], 0, 0)


def hit(row: int, score: float, text: str = "", fts: int | None = None, vec: int | None = 1) -> Hit:
    chunk = Chunk(f"{row}.md", "memory", (Piece(1, text, Entry("", text)),))
    return Hit(row, Indexed(chunk), score, score, 0.0, fts, vec)


def rows(hits: Sequence[Hit]) -> list[int]:
    return [one.row for one in hits]


def test_keyword_hits_are_returned_below_the_minimum_if_nothing_else_is() -> None:
    low = [hit(1, 0.3), hit(2, 0.2, fts=1), hit(3, -0.1, fts=2)]
    assert rows(_selected(low, 5, 0.35, OLD, no_vector=False)) == [2]
    assert rows(_selected([hit(4, 0.4), *low], 5, 0.35, OLD, no_vector=False)) == [4]
    only_words = hit(5, 0.1, fts=3, vec=None)
    mixed = [hit(4, 0.4), *low, only_words]
    assert rows(_selected(mixed, 5, 0.35, NEW, no_vector=False)) == [4, 5]
    assert rows(_selected(mixed, 1, 0.35, NEW, no_vector=False)) == [4]
    assert rows(_selected(low[:1], 5, 0.35, NEW, no_vector=False)) == []


def naive(hits: Sequence[Hit], weight: float) -> list[int]:
    """Maximal marginal relevance as its definition says."""
    span = [one.score for one in hits]
    left, order = list(hits), list[Hit]()

    def likeness(one: Hit, other: Hit) -> float:
        mine, theirs = ({*h.indexed.snippet.lower().split()} for h in (one, other))
        return len(mine & theirs) / len(mine | theirs)

    def value(one: Hit) -> float:
        relevance = (one.score - min(span)) / (max(span) - min(span))
        return weight * relevance - (1 - weight) * max((likeness(one, other) for other in order), default=0.0)

    while left:
        best = max(left, key=lambda one: (value(one), one.score))
        order.append(best)
        left.remove(best)
    return rows(order)


def test_diverse_order_is_that_of_maximal_marginal_relevance() -> None:
    texts = ["a b c d", "a b c e", "x y z", "a b x y", "q", "a b c d e f"]
    hits = [hit(number, 0.9 - number / 20, text) for number, text in enumerate(texts)]
    assert rows(diverse(hits, 0.7, {})) == naive(hits, 0.7)
    assert rows(diverse(hits, 0.7, {})) != rows(hits)
    assert rows(diverse(hits, 1.0, {})) == rows(hits)
    equal = [replace_score(one, 0.5) for one in hits[:3]]
    assert rows(diverse(equal, 0.7, {})) == [0, 2, 1]
    assert rows(diverse([hit(1, 0.1, ""), hit(2, 0.1, ""), hit(3, 0.1, "z")], 0.7, {})) == [1, 3, 2]


def replace_score(one: Hit, score: float) -> Hit:
    return one._replace(score=score)


def test_candidates_are_four_times_the_results_in_the_older_release(tmp_path: Path) -> None:
    many = {f"memory/n{number}.md": f"harbour note {number}" for number in range(60)}
    assert search(index_of(tmp_path / "old", OLD, many), "harbour", 6, 0, NOW)[2:] == (24, 24)
    new = replace(NEW, tokens=400)
    assert search(index_of(tmp_path / "new", new, many), "harbour", 6, 0, NOW)[2:] == (60, 60)
