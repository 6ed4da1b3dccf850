"""The exact store returns the same rows, scores and order as LanceDB."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import cycle, pairwise
from pathlib import Path

import numpy as np
import pytest

from lab.recordings.model import LABELS
from lab.replay.run import run_replay
from lab.retrieval.contract import Filter, Lanes, Query, Row, Store
from lab.retrieval.exact import ExactStore
from lab.retrieval.lance import LanceStore
from lab.retrieval.tokens import TextSettings, Tokens
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.systems.openclaw.memory import engine_id

pytestmark = pytest.mark.slow

DIMENSION = 8
SCOPES = ("global", "o'brien", 'say "x"', "x' OR '1'='1", "團隊")
WORDS = "deploy gateway rollback migration friday database backup token 決定 備份 資料庫 退款 客戶 not the of"
VOCABULARY = WORDS.split()
SETTINGS = TextSettings()
FILTERS = [
    Filter(),
    *(Filter(scope) for scope in SCOPES),
    *(Filter(None, (label,)) for label in LABELS),
    Filter(None, LABELS),
    Filter("global", ("must_remember",)),
    Filter("o'brien", ("nice_to_have", "unknown")),
    Filter("團隊", ("ignore",)),
    Filter("nobody has this scope"),
    Filter("nobody's", ("must_remember",)),
]


class Pool:
    """Rows with their vectors and words, and queries; many texts and vectors occur several times."""

    def __init__(self, size: int, seed: int, *, wordless: bool = False) -> None:
        choose = random.Random(seed)
        texts = [self._text(choose) for _ in range(max(1, size // 3))]
        if wordless:
            texts[:3] = ["", "!!!", "the of"]
        directions = np.random.default_rng(seed).normal(size=(max(2, size // 4), DIMENSION))
        self._directions = (directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(np.float32)
        self.rows = []
        for number in range(size):
            text, scope, label = choose.choice(texts), choose.choice(SCOPES), choose.choice(LABELS)
            self.rows.append(Row(engine_id(f"{seed}/{number}"), str(number), text, text, 0, "fact", label, scope))
        self.vectors = self._directions[[choose.randrange(len(self._directions)) for _ in range(size)]]
        asked = [
            *(self._text(choose) for _ in range(3)),
            choose.choice(texts),
            "deploy deploy 備份",
            "zzyzx",
            "the",
            "",
        ]
        tokens = Tokens(SETTINGS)
        tokens.prepare([*texts, *asked])
        self.tokens = tokens.of([row.index_text for row in self.rows])
        vectors: list[np.ndarray | None] = [self._directions[choose.randrange(len(self._directions))] for _ in asked]
        vectors[1] = None
        self.queries = [Query(*one) for one in zip(asked, tokens.of(asked), vectors, strict=True)]

    @staticmethod
    def _text(choose: random.Random) -> str:
        """Return a text with one significant word and others, some of which are stop words."""
        return " ".join([choose.choice(VOCABULARY[:-2]), *choose.choices(VOCABULARY, k=choose.randint(0, 11))])

    def feed(self, store: Store, numbers: Sequence[int]) -> None:
        """Add the rows with these numbers, in that order."""
        chosen = list(numbers)
        store.add([self.rows[row] for row in chosen], self.vectors[chosen], [self.tokens[row] for row in chosen])


@contextmanager
def both() -> Iterator[tuple[ExactStore, LanceStore]]:
    exact, lance = ExactStore(DIMENSION), LanceStore(DIMENSION, SETTINGS)
    with closing(exact), closing(lance):
        yield exact, lance


def assert_alike(mine: Lanes, theirs: Lanes) -> None:
    """Assert equal rows, order and scores, and distances equal to 1e-12."""
    for ours, others in zip(mine[:2], theirs[:2], strict=True):
        assert [(hit.row, hit.score) for hit in ours] == [(hit.row, hit.score) for hit in others]
        assert [hit.distance for hit in ours] == pytest.approx([hit.distance for hit in others], abs=1e-12, rel=0)


def compare(exact: Store, lance: Store, queries: Sequence[Query], filters: Sequence[Filter], limits: list[int]) -> int:
    """Compare every query with every third filter, at the limits in turn; return how many hits were compared."""
    hits, turn = 0, cycle(limits)
    for number, query in enumerate(queries, len(exact.rows)):
        mine, theirs = exact.view(query), lance.view(query)
        for where, limit in zip(filters[number % 3 :: 3], turn, strict=False):
            answer = mine.search(where, limit)
            assert_alike(answer, theirs.search(where, limit))
            hits += len(answer.fts) + len(answer.vec)
    return hits


@pytest.mark.parametrize(
    ("size", "wordless", "steps", "limits"),
    [
        (1, False, 1, [1, 50]),
        (7, False, 7, [1, 5, 50]),
        (60, True, 6, [1, 12]),
        (400, False, 5, [1, 12, 50]),
        (2001, False, 2, [12, 50]),
    ],
)
def test_stores_return_equal_lanes_after_every_step(size: int, wordless: bool, steps: int, limits: list[int]) -> None:
    pool = Pool(size, seed=size, wordless=wordless)
    cuts = [size * step // steps for step in range(steps + 1)]
    compared = 0
    with both() as (exact, lance):
        for start, end in pairwise(cuts):
            pool.feed(exact, range(start, end))
            pool.feed(lance, range(start, end))
            last = end == size
            queries = pool.queries if last else pool.queries[:2]
            compared += compare(exact, lance, queries, FILTERS if last else FILTERS[::3], limits)
    assert compared >= min(size, 1000)


def test_stores_cut_one_ranking_at_every_limit() -> None:
    """Ties are cut at almost every limit: a hundred rows share eight vectors and a few texts."""
    pool = Pool(30, seed=5)
    pool.rows = [
        Row(engine_id(f"again/{number}"), str(number), *([pool.rows[number % 8].text] * 2), 0, scope="global")
        for number in range(100)
    ]
    pool.vectors = pool.vectors[[number % 8 for number in range(100)]]
    pool.tokens = [pool.tokens[number % 8] for number in range(100)]
    with both() as (exact, lance):
        pool.feed(exact, range(100))
        pool.feed(lance, range(100))
        for query in (pool.queries[0], pool.queries[3]):
            ranking = exact.view(query).search(Filter(), 100)
            for limit in range(1, 51):
                found = exact.view(query).search(Filter(), limit)
                assert found[:2] == (ranking.fts[:limit], ranking.vec[:limit])
                assert_alike(found, lance.view(query).search(Filter(), limit))


def test_stores_consider_all_vectors_that_tie_after_rounding() -> None:
    """Twelve distances from 2 to 2.000006 round to one score, so the smallest id wins, wherever it is."""
    turns = [5e-7 * number / 2 for number in range(12)]
    vectors = np.zeros((12, DIMENSION), np.float32)
    vectors[:, 0], vectors[:, 1] = [-turn for turn in turns], 1.0
    rows = [Row(f"{11 - number:02d}", str(number), "same", "same", 0) for number in range(12)]
    query = Query("", [], np.eye(DIMENSION, dtype=np.float32)[0])
    with both() as (exact, lance):
        for store in (exact, lance):
            store.add(rows, vectors, [["same"]] * 12)
        mine, theirs = (store.view(query).search(Filter(), 1) for store in (exact, lance))
        assert [exact.rows[hit.row].id for hit in mine.vec] == ["00"]
        assert_alike(mine, theirs)


def test_stores_without_rows_return_nothing() -> None:
    with both() as (exact, lance):
        for store in (exact, lance):
            store.add([], np.zeros((0, DIMENSION), np.float32), [])
        assert compare(exact, lance, Pool(3, seed=1).queries, FILTERS, [1, 50]) == 0


def test_stores_do_not_depend_on_the_order_of_insertion() -> None:
    pool = Pool(300, seed=9)
    shuffled = random.Random(9).sample(range(300), 300)
    stores = [(kind, order) for order in (range(300), range(299, -1, -1), shuffled) for kind in ("exact", "lancedb")]
    answers = []
    for kind, order in stores:
        store: Store = ExactStore(DIMENSION) if kind == "exact" else LanceStore(DIMENSION, SETTINGS)
        with closing(store):
            pool.feed(store, order)
            answers.append(
                [
                    [(store.rows[hit.row].id, hit.score) for hit in lane]
                    for query in pool.queries
                    for where in FILTERS[::2]
                    for lane in store.view(query).search(where, 12)[:2]
                ]
            )
    assert all(answer == answers[0] for answer in answers)
    assert sum(map(len, answers[0])) > 500


def test_view_sees_only_rows_added_before_it() -> None:
    pool = Pool(40, seed=3)
    for settings in (TextSettings(), TextSettings(lane="scan")):
        store = ExactStore(DIMENSION, settings)
        pool.feed(store, range(20))
        view, query = store.view(pool.queries[0]), pool.queries[0]
        pool.feed(store, range(20, 40))
        found = view.search(Filter(), 50)
        assert {hit.row for hit in (*found.fts, *found.vec)} <= set(range(20))
        assert len(found.vec) == 20
        assert len(store.view(query).search(Filter(), 50).vec) == 40


def test_with_labels_equals_a_store_with_those_labels() -> None:
    pool = Pool(80, seed=4)
    drawn = [LABELS[(number * 7 + 1) % 4] for number in range(80)]
    codes = np.asarray([LABELS.index(label) for label in drawn], np.int8)
    for settings in (TextSettings(), TextSettings(lane="scan")):
        store, other = ExactStore(DIMENSION, settings), ExactStore(DIMENSION, settings)
        pool.feed(store, range(80))
        relabelled = [
            Row(row.id, row.key, row.text, row.index_text, 0, "fact", label, row.scope)
            for row, label in zip(pool.rows, drawn, strict=True)
        ]
        other.add(relabelled, pool.vectors, pool.tokens)
        for query in pool.queries:
            view, expected = store.view(query).with_labels(codes), other.view(query)
            for where in FILTERS:
                assert view.search(where, 12)[:2] == expected.search(where, 12)[:2]


@pytest.mark.full
def test_stores_give_equal_receipts_for_a_real_persona(realmem: Path, tmp_path: Path) -> None:
    """Compare every receipt of five arms over the first sixty dialogues of a persona, which span months.

    The vectors of the hashing embedder are sparse and tie far more often than a model's.
    """
    persona = json.loads((realmem / "Sophie_Dubois_dialogues_256k.json").read_bytes())
    recording = tmp_path / "Sophie_Dubois_dialogues_256k.json"
    recording.write_text(json.dumps(persona | {"dialogues": persona["dialogues"][:60]}), "utf-8")
    arms = ("tier_first_v1", "tier_quota_v1", "bm25", "vector", "hybrid")
    tables = []
    for store in ("exact", "lancedb"):
        request = ReplayRequest(str(recording), "realmem", arms, store=store, embedder="hashing")
        outcome = run_replay(request, tmp_path / store)
        assert outcome.failures == ()
        tables.append(read_table(outcome.run.receipts("Sophie_Dubois")))
    assert tables[0].num_rows >= 300
    assert set(tables[0]["arm"].to_pylist()) == set(arms)
    assert tables[0].equals(tables[1], check_metadata=True)
