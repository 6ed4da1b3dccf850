"""Rankings in memory score as in trec_eval on thousands of random runs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from lab.base.errors import UnusableInput
from lab.measures.trec import evaluate

CUTOFFS = (1, 3, 5, 6, 10, 20, 50)
THEIRS = {
    **{
        f"{ours}@{k}": f"{theirs}_{k}"
        for k in CUTOFFS
        for ours, theirs in (("Success", "success"), ("R", "recall"), ("P", "P"), ("nDCG", "ndcg_cut"))
    },
    **{f"AP@{k}": f"map_cut_{k}" for k in CUTOFFS},
    "nDCG": "ndcg",
    "RR": "recip_rank",
    "AP": "map",
    "Rprec": "Rprec",
}
ASKED = {
    *(f"{name}.{','.join(map(str, CUTOFFS))}" for name in ("success", "recall", "P", "ndcg_cut", "map_cut")),
    *("ndcg", "recip_rank", "map", "Rprec"),
}

Runs = dict[str, dict[str, float]]
Golds = dict[str, dict[str, int]]


def _random(source: random.Random, probes: int, scores: Any) -> tuple[Runs, Golds]:
    """Return rankings of 0 to 60 items with 0 to 9 gold items, some not returned, some with grade 0."""
    runs, golds = {}, {}
    for number in range(probes):
        pool = [f"記憶{place}" if place % 5 == 0 else f"m{place}" for place in range(source.randint(1, 60))]
        result = source.sample(pool, source.randint(0, len(pool)))
        judged = source.sample([*pool, "lost1", "lost2"], source.randint(1, min(9, len(pool) + 2)))
        runs[f"q{number}"] = {key: scores() for key in result}
        golds[f"q{number}"] = {key: source.choice((0, 1, 1, 2, 3, -1)) for key in judged}
    return runs, golds


@pytest.mark.parametrize("ties", ["none", "many", "beyond single precision"])
@pytest.mark.parametrize("seed", [1, 2])
def test_evaluate_random_runs_equal_trec_eval(ties: str, seed: int) -> None:
    source = random.Random(seed)
    draws = {
        "none": source.random,
        "many": lambda: source.choice((0.1, 0.2, 0.5, 0.5, -0.7)),
        "beyond single precision": lambda: 0.5 + source.choice((0.0, 1e-12, 1e-9, 1e-3)),
    }
    runs, golds = _random(source, 1_000, draws[ties])
    theirs = pytrec_eval.RelevanceEvaluator(golds, ASKED).evaluate(runs)
    ours = evaluate(runs, golds, THEIRS)
    assert set(theirs) == set(golds)
    for name, their in THEIRS.items():
        np.testing.assert_allclose(ours[name], [theirs[probe][their] for probe in golds], atol=1e-12, rtol=0)
    assert 0.05 < ours["AP"].mean() < 0.95


def test_evaluate_lists_equal_decreasing_scores() -> None:
    source = random.Random(5)
    runs, golds = _random(source, 300, source.random)
    rankings = {probe: sorted(run, key=run.__getitem__, reverse=True) for probe, run in runs.items()}
    mixed = {probe: rankings[probe] if number % 2 else runs[probe] for number, probe in enumerate(runs)}
    expected = evaluate(runs, golds, THEIRS)
    for given in (rankings, mixed):
        result = evaluate(given, golds, THEIRS)
        assert all((result[name] == expected[name]).all() for name in THEIRS)


def test_evaluate_probe_without_ranking_or_gold_scores_0() -> None:
    result = evaluate({"a": ["x"], "stranger": ["x"]}, {"a": {"x": 1}, "b": {"x": 1}}, ["Success@1", "RR"])
    assert {name: values.tolist() for name, values in result.items()} == {"Success@1": [1.0, 0.0], "RR": [1.0, 0.0]}
    assert evaluate({}, {}, ["nDCG@5"])["nDCG@5"].tolist() == []
    assert evaluate({}, {"a": {}}, ["nDCG@5", "AP", "P@3"])["AP"].tolist() == [0.0]


@pytest.mark.parametrize("name", ["nDGC@5", "nDCG@", "nDCG@0", "nDCG@-1", "nDCG@five", "P", "@5", ""])
def test_evaluate_unknown_measure_is_named(name: str) -> None:
    with pytest.raises(UnusableInput, match="known with a cutoff"):
        evaluate({}, {}, [name])
