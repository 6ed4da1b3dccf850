"""Rank measures against values by hand, a second implementation, and published rankings."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.measures.catalogue import RANKED
from lab.measures.inputs import judge
from lab.measures.score import CUTOFFS, rank_measures

AT_CUTOFFS = [name for name, one in RANKED.items() if one.cut]
RANKING = ["x", "gold2", "y", "gold1", "z", "gold1b"]
GRADES = {"gold2": 2, "gold1": 1, "gold1b": 1, "never": 1}


def _of_one(ranking: list[str], grades: dict[str, int], depth: int = 50) -> dict[str, float | None]:
    """Return every measure of one probe, with None for NaN."""
    return {
        name: None if math.isnan(value) else value
        for name, (value,) in rank_measures(judge([ranking], [grades]), depth).items()
    }


@pytest.mark.parametrize(
    ("measure", "k", "expected"),
    [
        ("Success", 1, 0.0),
        ("Success", 2, 1.0),
        ("R", 1, 0.0),
        ("R", 2, 1 / 4),
        ("R", 4, 2 / 4),
        ("R", 6, 3 / 4),
        ("R", 50, 3 / 4),
        ("P", 1, 0.0),
        ("P", 2, 1 / 2),
        ("P", 6, 3 / 6),
        # Missing items count as not relevant.
        ("P", 10, 3 / 10),
        ("RR", 1, 0.0),
        ("RR", 2, 1 / 2),
        ("RR", 50, 1 / 2),
        ("AP", 1, 0.0),
        ("AP", 4, (1 / 2 + 2 / 4) / 4),
        ("AP", 50, (1 / 2 + 2 / 4 + 3 / 6) / 4),
        # Four are relevant, two of them among the first four.
        ("Rprec", 50, 2 / 4),
        ("Rprec", 3, 1 / 4),
        # The ideal first item has grade 2; here it is not relevant.
        ("nDCG", 1, 0.0),
        # Grade 2 at rank 2, discounted by log2 3; the ideal is 2 + 1/log2 3. With an exponential gain it would differ.
        ("nDCG", 2, (2 / math.log2(3)) / (2 + 1 / math.log2(3))),
        (
            "nDCG",
            6,
            (2 / math.log2(3) + 1 / math.log2(5) + 1 / math.log2(7))
            / (2 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5)),
        ),
    ],
)
def test_rank_measures_equal_values_by_hand(measure: str, k: int, expected: float) -> None:
    assert RANKED[measure].values(judge([RANKING], [GRADES]), k) == pytest.approx(expected, abs=1e-15)


def test_rank_measures_empty_ranking_scores_0() -> None:
    assert set(_of_one([], {"gold": 1}).values()) == {0.0}


def test_rank_measures_perfect_ranking_scores_1() -> None:
    values = _of_one(["a", "b", "c"], {"a": 2, "b": 1, "c": 1}, depth=3)
    assert {name: values[name] for name in ("Success@3", "R@3", "P@3", "nDCG@3", "RR@3")} == {
        "Success@3": 1.0,
        "R@3": 1.0,
        "P@3": 1.0,
        "nDCG@3": 1.0,
        "RR@3": 1.0,
    }


def test_rank_measures_order_of_equal_grades_is_irrelevant() -> None:
    grades = {"a": 1, "b": 1, "c": 2}
    judged = judge([["c", "a", "b"], ["c", "b", "a"], ["a", "c", "b"]], [grades] * 3)
    one, other, wrong = RANKED["nDCG"].values(judged, 3).tolist()
    assert one == other == 1.0
    assert wrong < 1.0


@pytest.mark.parametrize("depth", [1, 4, 6, 20, 50])
def test_rank_measures_cutoff_beyond_the_depth_is_missing(depth: int) -> None:
    values = _of_one(["a"], {"a": 1}, depth)
    assert {name for name, value in values.items() if value is None} == {
        f"{name}@{k}" for k in CUTOFFS for name in AT_CUTOFFS if k > depth
    }


def test_rank_measures_include_every_cutoff() -> None:
    expected = [f"{name}@{k}" for k in (1, 3, 5, 6, 10, 20, 50) for name in AT_CUTOFFS]
    assert list(_of_one([], {"a": 1})) == [*expected, "Rprec"]


def _plainly(ranking: list[str], grades: dict[str, int], k: int) -> dict[str, float]:
    """The same measures as plain loops, as in a textbook."""
    result, first, gain = 0, 0, 0.0
    for place in range(k):
        if place < len(ranking) and ranking[place] in grades:
            result += 1
            first = first or place + 1
            gain += grades[ranking[place]] * math.log(2) / math.log(place + 2)
    best = 0.0
    ideal = list(grades.values())
    for place in range(min(k, len(grades))):
        best += ideal.pop(ideal.index(max(ideal))) * math.log(2) / math.log(place + 2)
    return {
        "Success": 1.0 if result else 0.0,
        "R": result / len(grades),
        "P": result / k,
        "nDCG": gain / best,
        "RR": 1 / first if first else 0.0,
    }


def test_rank_measures_equal_a_second_implementation() -> None:
    source = random.Random(7)
    rankings, golds = [], []
    for _ in range(400):
        pool = [f"m{number}" for number in range(source.randint(1, 60))]
        ranking = source.sample(pool, source.randint(0, min(50, len(pool))))
        judged = source.sample([*pool, "lost1", "lost2"], source.randint(1, min(9, len(pool) + 2)))
        grades = {key: source.randint(1, 3) for key in judged}
        rankings.append(ranking)
        golds.append(grades)
    values = rank_measures(judge(rankings, golds), 50)
    for place, (ranking, grades) in enumerate(zip(rankings, golds, strict=True)):
        for k in CUTOFFS:
            for name, expected in _plainly(ranking, grades, k).items():
                assert values[f"{name}@{k}"][place] == pytest.approx(expected, abs=1e-12), (name, k, ranking, grades)
    assert 100 < values["Success@50"].sum() < 400


def test_rank_measures_probe_does_not_depend_on_others() -> None:
    source = random.Random(3)
    pool = [f"m{number}" for number in range(60)]
    rankings = [source.sample(pool, source.randint(0, 50)) for _ in range(100)]
    golds = [{key: source.randint(1, 3) for key in source.sample(pool, source.randint(1, 9))} for _ in rankings]
    together = rank_measures(judge(rankings, golds), 50)
    for place, (ranking, grades) in enumerate(zip(rankings, golds, strict=True)):
        assert _of_one(ranking, grades) == {name: values[place] for name, values in together.items()}


@pytest.mark.parametrize(
    ("file", "printed"),
    [
        (
            "madial_en_gte_top20.jsonl",
            {"R@1": "0.2713", "R@3": "0.4372", "R@5": "0.5250", "R@10": "0.6568", "RR@10": "0.5750"}
            | {"Success@10": "0.850"},
        ),
        (
            "madial_en_bge_m3_top20.jsonl",
            {"R@1": "0.2792", "R@3": "0.4729", "R@5": "0.5527", "R@10": "0.7047", "RR@10": "0.6324"}
            | {"Success@10": "0.888"},
        ),
    ],
)
def test_rank_measures_reproduce_published_scores(
    shared: Callable[..., Path], file: str, printed: dict[str, str]
) -> None:
    lines = [json.loads(line) for line in shared("data", "published_runs", file).read_text("utf-8").splitlines()]
    assert len(lines) == 160
    judged = judge(
        [[str(one) for one in line["top-20-ids"]] for line in lines],
        [{str(one): 1 for one in line["relevant-id"]} for line in lines],
    )
    scored = rank_measures(judged, depth=20)
    means = {name: scored[name].mean() for name in printed}
    # 142 of 160 is .8875, published with three digits, rounded half up.
    assert {name: f"{value + 1e-9:.{len(printed[name]) - 2}f}" for name, value in means.items()} == printed
    assert all(math.isnan(value) for value in scored["R@50"])
