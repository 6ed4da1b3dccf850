"""Fusion by scores: each lane's scores are normalised, then added with a weight.

The methods and their sources are in docs/design/fusion.md. All results are in 0..1; a row that a lane did not return
gets nothing from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lab.retrieval.contract import Lanes, cosine_of

# The lowest possible score of each lane: BM25 is at least 0, the cosine at least -1.
LEAST_TEXT, LEAST_COSINE = 0.0, -1.0
# Below the float32 precision of BM25, so that the last bits of a lane's score do not decide an order.
DIGITS = 7
Normalise = Callable[[Sequence[float], float], list[float]]


def minmax(scores: Sequence[float], _least: float) -> list[float]:
    """Map the lowest score of a lane to 0 and the highest to 1; equal scores become 1."""
    return theoretical(scores, min(scores))


def theoretical(scores: Sequence[float], least: float) -> list[float]:
    """Map the lowest possible score to 0 and the highest of a lane to 1; equal scores become 1."""
    span = max(scores) - least
    return [(score - least) / span if span > 0 else 1.0 for score in scores]


def distribution(scores: Sequence[float], _least: float) -> list[float]:
    """Map three standard deviations below the mean of a lane to 0, and above it to 1; equal scores become 0.5."""
    mean = math.fsum(scores) / len(scores)
    spread = 3.0 * math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    if spread <= 0:
        return [0.5] * len(scores)
    return [min(1.0, max(0.0, (score - mean + spread) / (2.0 * spread))) for score in scores]


NORMALISE: dict[str, Normalise] = {"minmax": minmax, "theoretical": theoretical, "distribution": distribution}


def fused_scores(lanes: Lanes, normalise: str, vector_weight: float, *, agreement: bool) -> dict[int, float]:
    """Return the fused score of each row, by its number.

    With ``agreement`` (CombMNZ), a row that only one lane returned gets half of its score.
    """
    scores: dict[int, float] = {}
    lanes_of: dict[int, int] = {}
    for hits, weight, least, raw in (
        (lanes.fts, 1.0 - vector_weight, LEAST_TEXT, [hit.score for hit in lanes.fts]),
        (lanes.vec, vector_weight, LEAST_COSINE, [cosine_of(hit.distance) for hit in lanes.vec]),
    ):
        seen: set[int] = set()
        normal = NORMALISE[normalise](raw, least) if raw else []
        for hit, value in zip(hits, normal, strict=True):
            if hit.row not in seen:
                seen.add(hit.row)
                scores[hit.row] = scores.get(hit.row, 0.0) + weight * value
                lanes_of[hit.row] = lanes_of.get(hit.row, 0) + 1
    return {row: round(score * lanes_of[row] / 2.0 if agreement else score, DIGITS) for row, score in scores.items()}


def inverse_square_scores(lanes: Lanes) -> dict[int, float]:
    """Return the score of each row by inverse square ranks, divided by its maximum of 4."""
    ranks: dict[int, list[int]] = {}
    for hits in (lanes.fts, lanes.vec):
        first: dict[int, int] = {}
        for rank, hit in enumerate(hits, 1):
            first.setdefault(hit.row, rank)
        for row, rank in first.items():
            ranks.setdefault(row, []).append(rank)
    return {row: len(by_lane) * sum(1.0 / rank**2 for rank in by_lane) / 4.0 for row, by_lane in ranks.items()}
