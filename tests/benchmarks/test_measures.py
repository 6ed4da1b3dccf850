"""Benchmarks of scoring: rankings against gold, and repetition. None fails on a time.

Run with ``nox -s kernels``; ``scoring.py`` beside this times the same against other evaluators.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lab.measures import inputs
from lab.measures.catalogue import RANKED
from lab.measures.definitions.jaccard import neighbour_jaccard
from lab.measures.definitions.longest_streak import longest_streak
from lab.measures.definitions.repeat_dominance import dominance
from lab.measures.definitions.repeat_rate import repeat_rates
from lab.measures.inputs import Judged, judge
from lab.measures.score import rank_measures
from lab.measures.trec import evaluate

PROBES, ITEMS, TURNS = 10_000, 20, 2_600
Rankings = list[list[str]]
Grades = list[dict[str, int]]


@pytest.fixture(scope="module")
def probes() -> tuple[Rankings, Grades]:
    """Ten thousand rankings with one to four relevant memories each."""
    source = random.Random(1)
    pools = [[f"m{number}.{place}" for place in range(ITEMS * 5 // 4)] for number in range(PROBES)]
    grades = [{key: source.randint(1, 3) for key in source.sample(pool, source.randint(1, 4))} for pool in pools]
    return [source.sample(pool, ITEMS) for pool in pools], grades


@pytest.fixture(scope="module")
def judged(probes: tuple[Rankings, Grades]) -> Judged:
    """The same rankings as arrays."""
    return judge(*probes)


@pytest.fixture(scope="module")
def selections() -> inputs.Selections:
    """Six memories of three hundred, turn by turn."""
    source = np.random.default_rng(1)
    memories = np.concatenate([source.choice(300, 6, replace=False) for _ in range(TURNS)])
    return inputs.numbered_selections(memories, np.full(TURNS, 6))


def test_judge(benchmark: BenchmarkFixture, probes: tuple[Rankings, Grades]) -> None:
    """From Python lists and dicts to gains."""
    assert benchmark(lambda: judge(*probes)).gains.shape == (PROBES, ITEMS)


@pytest.mark.parametrize("name", RANKED)
def test_measure(benchmark: BenchmarkFixture, judged: Judged, name: str) -> None:
    """Compute one measure on fresh gains."""
    values = benchmark(lambda: RANKED[name].values(Judged(judged.grades, judged.ideal, judged.sizes), 10))
    assert values.shape == (PROBES,)


def test_rank_measures(benchmark: BenchmarkFixture, judged: Judged) -> None:
    """Compute all measures of a run at all cutoffs."""
    values = benchmark(lambda: rank_measures(Judged(judged.grades, judged.ideal, judged.sizes), ITEMS))
    assert 0 < values["nDCG@10"].mean() < 1


def test_evaluate(benchmark: BenchmarkFixture, probes: tuple[Rankings, Grades]) -> None:
    """Compute ten measures from dicts."""
    runs = {str(place): {key: -float(rank) for rank, key in enumerate(one)} for place, one in enumerate(probes[0])}
    golds = dict(zip(runs, probes[1], strict=True))
    names = ("Success@1", "Success@5", "Success@10", "R@5", "R@10", "P@5", "P@10", "nDCG@10", "AP", "RR")
    assert len(benchmark(lambda: evaluate(runs, golds, names))) == 10


@pytest.mark.parametrize("measure", [repeat_rates, dominance, longest_streak, neighbour_jaccard])
def test_repetition(
    benchmark: BenchmarkFixture, selections: inputs.Selections, measure: Callable[[inputs.Selections], object]
) -> None:
    """Compute repetition over as many turns as RealMem's personas have."""
    assert benchmark(lambda: measure(selections)) is not None
