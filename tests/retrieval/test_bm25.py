"""The text lane's scores equal those of a real LanceDB index, bit for bit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lab.recordings.readers import read_library
from lab.retrieval.bm25 import Postings, index_scores, scan_hits
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.retrieval.tokens import TextSettings, Tokens

ENGLISH_WORDS = (
    "deploy gateway rollback migration friday database replica backup index token retry budget invoice refund "
    "customer release branch staging production the of and not will bin die schema query latency cache memory"
)
CHINESE_WORDS = "我們 決定 使用 資料庫 備份 每週 部署 閘道 不要 自動 合併 分支 客戶 退款 三千 燈籠 網站 記憶 索引 查詢"
ENGLISH, CHINESE = ENGLISH_WORDS.split(), CHINESE_WORDS.split()
SETTINGS = [TextSettings(), TextSettings("none", stem=False)]


def invented(count: int, seed: int, *, wordless: bool) -> list[str]:
    """Texts in both languages; one in six repeats an earlier one, and optionally one in twelve has no word."""
    choose = random.Random(seed)
    texts: list[str] = []
    for _ in range(count):
        match choose.randrange(12):
            case 0 if wordless:
                texts.append(choose.choice(["", "!!!", "the of and", "。，、"]))
            case 1 | 2 if texts:
                texts.append(choose.choice(texts))
            case 3 | 4 | 5:
                texts.append("".join(choose.choices(CHINESE, k=choose.randint(1, 14))) + "。")
            case 6:
                texts.append(" ".join(choose.choices(ENGLISH, k=3)) + "，" + "".join(choose.choices(CHINESE, k=4)))
            case _:
                # Never stop words only: whether those are words depends on the setting.
                texts.append(" ".join([choose.choice(ENGLISH[:19]), *choose.choices(ENGLISH, k=choose.randint(0, 40))]))
    return texts


QUERIES = [
    "deploy gateway",
    "deploy deploy deploy gateway deploy",
    "備份資料庫",
    "備份備份，資料庫",
    "rollback 退款 migration 不要自動合併",
    "zzyzx unheard quux",
    "deploy zzyzx 鯨魚",
    "not will bin die",
    "the friday of production",
    " ".join(ENGLISH),
    "".join(CHINESE),
]


class Index:
    """A LanceDB table with a full-text index that shares only the settings with the lab."""

    def __init__(self, folder: Path, settings: TextSettings) -> None:
        self._database = import_lancedb().connect(str(folder))
        self._settings = settings
        self._size = 0
        self._table: Any = None

    def add(self, texts: Sequence[str]) -> None:
        from lancedb.index import FTS

        numbers = range(self._size, self._size + len(texts))
        rows = pa.table({"number": pa.array(numbers, pa.int64()), "index_text": list(texts)})
        self._size += len(texts)
        with quiet_lance():
            if self._table is None:
                self._table = self._database.create_table("texts", rows)
                self._table.create_index("index_text", config=FTS(**self._settings.options()))
            else:
                self._table.add(rows)
                self._table.optimize()

    def scores(self, text: str) -> np.ndarray:
        from lancedb.query import MatchQuery

        search = self._table.search(MatchQuery(text, "index_text"), query_type="fts")
        found = search.select(["number", "_score"]).limit(self._size).to_arrow()
        out = np.zeros(self._size, np.float32)
        out[found["number"].to_numpy()] = found["_score"].to_numpy()
        return out


def of(settings: TextSettings, texts: Sequence[str]) -> list[list[str]]:
    tokens = Tokens(settings)
    tokens.prepare(texts)
    return tokens.of(texts)


@pytest.fixture(scope="module", params=[False, True], ids=["", "rows-without-words"])
def wordless(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module", params=SETTINGS, ids=["english-stemmed", "every-word"])
def grown(request: pytest.FixtureRequest, wordless: bool, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """An index and postings that grow together in five steps, with the scores of both after each."""
    settings = request.param
    index, postings = Index(tmp_path_factory.mktemp("lance"), settings), Postings()
    texts = invented(420, seed=11, wordless=wordless)
    queries = of(settings, QUERIES)
    steps = []
    for start, end in ((0, 1), (1, 40), (40, 41), (41, 250), (250, 420)):
        index.add(texts[start:end])
        postings.add(of(settings, texts[start:end]))
        steps.append(
            [
                (text, end, index.scores(text), index_scores(postings, words))
                for text, words in zip(QUERIES, queries, strict=True)
            ]
        )
    return postings, steps


def test_index_scores_equal_lancedb_bit_for_bit_after_every_step(grown: tuple[Any, ...]) -> None:
    _, steps = grown
    differing = [
        (text, size) for step in steps for text, size, theirs, mine in step if mine.tobytes() != theirs.tobytes()
    ]
    assert differing == []
    assert {mine.dtype for step in steps for *_, mine in step} == {np.dtype(np.float32)}
    # Sanity check: most queries match rows, and the query of unknown words matches none.
    found = {text: int((mine > 0).sum()) for text, _, _, mine in steps[-1]}
    assert found["zzyzx unheard quux"] == 0
    assert sum(count > 20 for count in found.values()) >= 7


def test_index_scores_count_a_repeated_query_word_twice(grown: tuple[Any, ...]) -> None:
    postings, _ = grown
    once, twice = index_scores(postings, ["deploy"]), index_scores(postings, ["deploy", "deploy"])
    assert once.any()
    assert np.array_equal(twice, once + once)


def test_index_scores_of_real_texts_equal_lancedb(operators: Path, tmp_path: Path) -> None:
    """English and Traditional Chinese texts of real users; their own turns are the queries."""
    settings = TextSettings()
    recordings = read_library(operators, "lab").recordings
    texts = [memory.index_text for recording in recordings for memory in recording.memories]
    queries = [turn.text for recording in recordings for turn in recording.turns if turn.role == "user"][::7]
    assert len(texts) >= 200
    assert sum(any(character > "\u3000" for character in text) for text in texts) >= 50
    index, postings = Index(tmp_path, settings), Postings()
    index.add(texts)
    postings.add(of(settings, texts))
    differing = [
        text
        for text, words in zip(queries, of(settings, queries), strict=True)
        if words and index_scores(postings, words).tobytes() != index.scores(text).tobytes()
    ]
    assert differing == []
    assert len(queries) >= 20


# --- without LanceDB: the formula computed by hand


def weight(rows: int, frequency: int, count: int, length: int, average: float) -> float:
    idf = math.log(1 + (rows - frequency + 0.5) / (frequency + 0.5))
    return idf * 2.2 * count / (count + 1.2 * (0.25 + 0.75 * length / average))


def test_index_scores_follow_the_formula() -> None:
    postings = Postings()
    postings.add([["a", "b", "a"], ["b"], ["c", "c"]])
    assert index_scores(postings, ["a"]).tolist() == pytest.approx([weight(3, 1, 2, 3, 2), 0, 0], rel=1e-6)
    assert index_scores(postings, ["b", "a"]).tolist() == pytest.approx(
        [weight(3, 2, 1, 3, 2) + weight(3, 1, 2, 3, 2), weight(3, 2, 1, 1, 2), 0], rel=1e-6
    )


def test_index_scores_ignore_rows_without_words() -> None:
    """LanceDB's index has no document for them, so they change neither the count nor the average length."""
    alone, beside = Postings(), Postings()
    alone.add([["a", "b"], ["b"]])
    beside.add([[], ["a", "b"], [], ["b"]])
    assert index_scores(beside, ["a"])[[1, 3]].tolist() == index_scores(alone, ["a"]).tolist()
    assert index_scores(beside, ["a", "b"])[[0, 2]].tolist() == [0.0, 0.0]


def test_index_scores_use_statistics_of_all_rows_so_far() -> None:
    """Later rows change the scores of earlier ones, whether these were scored before or not."""
    postings = Postings()
    postings.add([["a", "b"]])
    assert index_scores(postings, ["a"]).tolist() == pytest.approx([weight(1, 1, 1, 2, 2.0)], rel=1e-6)
    postings.add([["a"], ["c"] * 6])
    assert index_scores(postings, ["a"]).tolist() == pytest.approx(
        [weight(3, 2, 1, 2, 3.0), weight(3, 2, 1, 1, 3.0), 0], rel=1e-6
    )


@pytest.mark.parametrize("documents", [[], [[]], [[], []]])
def test_index_scores_of_rows_without_words_are_zero(documents: list[list[str]]) -> None:
    postings = Postings()
    postings.add(documents)
    assert index_scores(postings, ["a"]).tolist() == [0.0] * len(documents)
    assert scan_hits(postings, ["a"], np.ones(len(documents), bool), 5) == ([], [])


# --- the scan


def test_scan_hits_counts_words_in_allowed_rows_in_insertion_order() -> None:
    postings = Postings()
    postings.add([["a", "x", "x"], ["a", "a"], ["b"], ["a", "a", "b", "b"], ["c"] * 4, ["d"]])
    allowed = np.array([True, False, True, True, True, True])
    # Five rows of thirteen words, in which "a" and "b" occur three times each.
    average = 13 / 5
    first, third, fourth = (
        weight(5, 3, 1, 3, average),
        weight(5, 3, 1, 1, average),
        2 * weight(5, 3, 2, 4, average),
    )
    rows, scores = scan_hits(postings, ["a", "b", "a"], allowed, 9)
    assert rows == [0, 2, 3]
    assert scores == pytest.approx([first, third, fourth], rel=1e-5)
    assert first < third
    assert scan_hits(postings, ["a", "b", "a"], allowed, 2)[0] == [0, 2]


def test_scan_hits_drops_rows_with_too_frequent_words() -> None:
    """A word with more occurrences than there are rows has a negative weight; a row's sum must be positive."""
    postings = Postings()
    postings.add([["a", "a"], ["a", "rare"], ["other"]])
    everything = np.ones(3, bool)
    assert weight(3, 3, 2, 2, 5 / 3) > 0
    assert scan_hits(postings, ["a"], everything, 9)[0] == [0, 1]
    postings.add([["a"] * 4])
    assert weight(4, 7, 2, 2, 9 / 4) < 0
    assert scan_hits(postings, ["a"], np.ones(4, bool), 9) == ([], [])
    assert scan_hits(postings, ["a", "rare"], np.ones(4, bool), 9)[0] == [1]


@pytest.mark.parametrize(
    "score", [index_scores, lambda postings, query: scan_hits(postings, query, np.ones(2, bool), 9)]
)
def test_scoring_leaves_postings_unchanged(score: Callable[[Postings, list[str]], Any]) -> None:
    postings = Postings()
    postings.add([["a", "b"], ["a", "c"]])
    before = score(postings, ["b", "a"])
    score(postings, ["zzyzx", "c"])
    assert np.array_equal(score(postings, ["b", "a"]), before)
