"""Benchmarks of the parts of one turn on synthetic stores. None fails on a time.

Run with ``nox -s kernels``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lab.embedding.vectors import Vectors, embedder_named
from lab.recordings.model import LABELS
from lab.retrieval.contract import Filter, Query, Row, Store
from lab.retrieval.exact import ExactStore
from lab.retrieval.fusion import fuse
from lab.retrieval.lance import LanceStore
from lab.retrieval.retrievers import QueryContext, Retrieval, StoreRetriever
from lab.retrieval.tokens import TextSettings
from lab.systems.contract import Ask, SharedRetrieval
from lab.systems.kit import Kit, Tools
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.select.policies import POLICIES
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec

DIMENSION = 384
WORDS = [f"word{number}" for number in range(2_000)]


def invented(count: int) -> tuple[list[Row], np.ndarray, list[list[str]]]:
    """Rows with Zipf-like words, so that some words are common and most are rare."""
    random = np.random.default_rng(7)
    ranks = np.minimum(random.zipf(1.3, (count, 20)), len(WORDS)) - 1
    texts = [[WORDS[rank] for rank in row] for row in ranks]
    vectors = random.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    labels = random.choice(LABELS, count, p=[0.1, 0.63, 0.0, 0.27])
    rows = [
        Row(engine_id(str(number)), str(number), " ".join(text), " ".join(text), number, "fact", str(label))
        for number, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    return rows, vectors, texts


def query(vectors: np.ndarray) -> Query:
    return Query(" ".join(WORDS[:12]), WORDS[:12], vectors[3])


def a_kit(arm: str) -> Kit:
    """Unused tools: the policy is given its candidates."""
    embedder = embedder_named("hashing")

    def live(retrieval: Retrieval) -> StoreRetriever:
        raise NotImplementedError(retrieval)

    return Kit(Tools("turn", embedder, Vectors(embedder), live, live), arm)


@pytest.fixture(scope="module", params=["exact", "lancedb"])
def store(request: pytest.FixtureRequest) -> Iterator[tuple[Store, Query]]:
    """A thousand rows in each store."""
    rows, vectors, texts = invented(1_000)
    built: Store = ExactStore(DIMENSION) if request.param == "exact" else LanceStore(DIMENSION, TextSettings())
    built.add(rows, vectors, texts)
    yield built, query(vectors)
    built.close()


@pytest.mark.parametrize("policy", POLICIES)
def test_turn(benchmark: BenchmarkFixture, store: tuple[Store, Query], policy: str) -> None:
    """Search, fuse, select, wrap and write a receipt for one arm."""
    built, query = store
    system = make_arm(ArmSpec(policy, policy)).open(a_kit(policy))
    assert isinstance(system, SharedRetrieval)
    recall = benchmark(
        lambda: system.select(
            Ask("turn", query.text, 0),
            QueryContext(built.view(query), built.rows, {row.id: row for row in built.rows}),
        )
    )
    assert recall.injected == 6


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_exact_scoring(benchmark: BenchmarkFixture, count: int) -> None:
    """Score every row in both lanes."""
    rows, vectors, texts = invented(count)
    built = ExactStore(DIMENSION)
    built.add(rows, vectors, texts)
    lanes = benchmark(lambda: built.view(query(vectors)).search(Filter(), 12))
    assert lanes.vec[0].row == 3


def test_fuse(benchmark: BenchmarkFixture) -> None:
    """Fuse two lanes of twelve hits."""
    rows, vectors, texts = invented(200)
    built = ExactStore(DIMENSION)
    built.add(rows, vectors, texts)
    lanes = built.view(query(vectors)).search(Filter(), 12)
    assert len(benchmark(lambda: fuse(lanes, rows, 12))) == 12
