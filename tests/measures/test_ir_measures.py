"""Rankings score as in ir_measures on ten thousand random runs with ties."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from lab.measures.trec import evaluate

pytestmark = pytest.mark.slow

ir_measures: Any = pytest.importorskip("ir_measures", reason="ir_measures is not installed")

NAMES = (
    *(f"{name}@{k}" for name in ("nDCG", "P", "R", "Success", "AP") for k in (1, 5, 10)),
    *("nDCG", "RR", "AP", "Rprec", "P(rel=2)@5", "R(rel=2)@10", "RR(rel=2)", "AP(rel=2)", "Rprec(rel=2)"),
)
RUNS = 10_000


@pytest.fixture(scope="module")
def drawn() -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """Return short rankings with many ties and gold of all grades, some not returned."""
    source = random.Random(7)
    runs, golds = {}, {}
    for number in range(RUNS):
        pool = [f"m{place}" for place in range(source.randint(1, 20))]
        result = source.sample(pool, source.randint(1, len(pool)))
        judged = source.sample([*pool, "lost"], source.randint(1, min(6, len(pool) + 1)))
        runs[f"q{number}"] = {key: source.choice((0.1, 0.2, 0.5, 0.5, -0.7)) for key in result}
        golds[f"q{number}"] = {key: source.choice((0, 1, 1, 2, 3)) for key in judged}
    return runs, golds


def _theirs(names: tuple[str, ...], golds: Any, runs: Any) -> dict[str, list[float]]:
    values: dict[str, dict[str, float]] = {name: {} for name in names}
    parsed = {ir_measures.parse_measure(name): name for name in names}
    for one in ir_measures.iter_calc(list(parsed), golds, runs):
        values[parsed[one.measure]][one.query_id] = one.value
    return {name: [values[name][query] for query in golds] for name in names}


def test_evaluate_random_ties_equal_ir_measures(drawn: Any) -> None:
    runs, golds = drawn
    theirs, ours = _theirs(NAMES, golds, runs), evaluate(runs, golds, NAMES)
    for name in NAMES:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-9, rtol=0, err_msg=name)
    assert 0.05 < ours["AP"].mean() < 0.95


def test_evaluate_rr_and_judged_without_ties_equal_ir_measures(drawn: Any) -> None:
    """ir_measures breaks ties by ascending name for these two measures, unlike for the others."""
    runs, golds = drawn
    falling = {query: {key: -float(place) for place, key in enumerate(run)} for query, run in runs.items()}
    names = ("RR@1", "RR@5", "RR@10", "Judged@1", "Judged@5", "Judged@10")
    theirs, ours = _theirs(names, golds, falling), evaluate(falling, golds, names)
    for name in names:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-9, rtol=0, err_msg=name)
