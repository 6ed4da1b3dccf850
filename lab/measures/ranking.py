"""Rank measures under their TREC names, for one probe. Graded gold counts as relevant from grade 1.

A ranking shorter than the cutoff is scored as it is: what was not returned was not found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def success(ranking: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """Success@k, also called hit@k: 1 if any gold memory is among the first k."""
    return float(any(key in grades for key in ranking[:k]))


def recall(ranking: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """R@k: the share of the gold memories that is among the first k."""
    return sum(key in grades for key in ranking[:k]) / len(grades)


def precision(ranking: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """P@k: the share of k places that hold a gold memory; an empty place counts as a wrong one."""
    return sum(key in grades for key in ranking[:k]) / k


def ndcg(ranking: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """nDCG@k with linear gain and a log2 discount, as trec_eval's ndcg_cut.

    Normalised by the best ranking of all gold.
    """
    gained = sum(grades.get(key, 0) / math.log2(rank + 1) for rank, key in enumerate(ranking[:k], 1))
    ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:k], 1))
    return gained / ideal


def reciprocal_rank(ranking: Sequence[str], grades: Mapping[str, int], k: int) -> float:
    """RR@k: one over the rank of the first gold memory, 0 if none is among the first k."""
    return next((1.0 / rank for rank, key in enumerate(ranking[:k], 1) if key in grades), 0.0)


MEASURES = {"Success": success, "R": recall, "P": precision, "nDCG": ndcg, "RR": reciprocal_rank}
CUTOFFS = (1, 3, 5, 6, 10, 20, 50)


def rank_measures(
    ranking: Sequence[str], grades: Mapping[str, int], depth: int, cutoffs: Sequence[int] = CUTOFFS
) -> dict[str, float | None]:
    """Every measure at every cutoff; null where the cutoff is beyond what the arm can return."""
    return {
        f"{name}@{k}": measure(ranking, grades, k) if k <= depth else None
        for k in cutoffs
        for name, measure in MEASURES.items()
    }
