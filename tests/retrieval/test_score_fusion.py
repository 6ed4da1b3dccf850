"""Fusion by scores and by inverse square ranks: worked examples, ranges, ties."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lab.retrieval.contract import Hit, Lanes, Row
from lab.retrieval.fusion import METHODS, NORMALISATIONS, Fusion, fuse, inverse_square_scores

ROWS = [Row(name, name, "", "", 0) for name in "abcd"]
# BM25 8, 4, 2 for a, b, c; cosines .9, .5, .1 for b, d, a.
LANES = Lanes([Hit(0, 8.0), Hit(1, 4.0), Hit(2, 2.0)], [Hit(1, 1.0, 0.2), Hit(3, 1.0, 1.0), Hit(0, 1.0, 1.8)])


def scores(fusion: Fusion, lanes: Lanes = LANES) -> dict[str, float]:
    return {candidate.id: candidate.score for candidate in fuse(lanes, ROWS, 10, fusion)}


@pytest.mark.parametrize(
    ("fusion", "expected"),
    [
        # Text 1, 1/3, 0; vectors 1, .5, 0.
        (Fusion("convex"), {"b": 2 / 3, "a": 0.5, "d": 0.25, "c": 0.0}),
        (Fusion("convex", vector_weight=0.2), {"a": 0.8, "b": 0.8 / 3 + 0.2, "d": 0.1, "c": 0.0}),
        # Text 1, .5, .25; vectors 1, 1.5/1.9, 1.1/1.9.
        (
            Fusion("convex", "theoretical"),
            {"a": 0.5 + 0.55 / 1.9, "b": 0.75, "d": 0.75 / 1.9, "c": 0.125},
        ),
        (Fusion("combmnz"), {"b": 2 / 3, "a": 0.5, "d": 0.125, "c": 0.0}),
        (Fusion("isr"), {"a": 2 * (1 + 1 / 9) / 4, "b": 2 * (1 / 4 + 1) / 4, "d": 1 / 4 / 4, "c": 1 / 9 / 4}),
        (Fusion(k=1), {"a": 1 / 2 + 1 / 4, "b": 1 / 3 + 1 / 2, "d": 1 / 3, "c": 1 / 4}),
    ],
)
def test_fuse_by_method_gives_the_worked_scores(fusion: Fusion, expected: dict[str, float]) -> None:
    assert scores(fusion) == pytest.approx(expected, abs=1e-7)
    assert list(scores(fusion)) == sorted(expected, key=lambda name: (-expected[name], name))


def test_fuse_dbsf_maps_the_mean_to_a_half_and_clips_three_deviations() -> None:
    lanes = Lanes([Hit(0, 9.0), Hit(1, 6.0), Hit(2, 3.0)], [])
    deviation = (2 * 9 / 3) ** 0.5
    assert scores(Fusion("dbsf", vector_weight=0.0), lanes) == pytest.approx(
        {"a": 0.5 + 3 / (6 * deviation), "b": 0.5, "c": 0.5 - 3 / (6 * deviation)}, abs=1e-7
    )
    outlier = Lanes([Hit(0, 100.0), *(Hit(1, 1.0) for _ in range(40)), Hit(2, 1.0)], [])
    assert scores(Fusion("dbsf", vector_weight=0.0), outlier)["a"] == 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_fuse_equal_scores_tie_and_order_by_id(method: str, normalise: str) -> None:
    """Two stores may return tied texts in any order: with one score they must not differ in anything but rank."""
    fusion = Fusion(method, normalise)
    tied = scores(fusion, Lanes([Hit(2, 3.0), Hit(1, 3.0)], [Hit(0, 1.0, 0.5), Hit(3, 1.0, 0.5)]))
    assert list(tied) == ["a", "c", "b", "d"] if method in ("rrf", "isr") else sorted(tied)
    assert all(0 < score <= fusion.best for score in tied.values())


@given(
    some.lists(some.tuples(some.integers(0, 3), some.floats(0.01, 50)), max_size=6),
    some.lists(some.tuples(some.integers(0, 3), some.floats(0, 4)), max_size=6),
    some.sampled_from(METHODS),
    some.sampled_from(NORMALISATIONS),
    some.floats(0, 1),
)
def test_fuse_any_lanes_give_each_row_once_within_the_range(
    fts: Sequence[tuple[int, float]],
    vec: Sequence[tuple[int, float]],
    method: str,
    normalise: str,
    weight: float,
) -> None:
    lanes = Lanes(
        [Hit(row, score) for row, score in sorted(dict(fts).items(), key=lambda pair: (-pair[1], pair[0]))],
        [Hit(row, 1 / (1 + far), far) for row, far in sorted(dict(vec).items(), key=lambda pair: (pair[1], pair[0]))],
    )
    fusion = Fusion(method, normalise, weight)
    candidates = fuse(lanes, ROWS, 10, fusion)
    assert {candidate.id for candidate in candidates} == {ROWS[hit.row].id for lane in lanes[:2] for hit in lane}
    assert all(0 <= candidate.score <= fusion.best + 1e-12 for candidate in candidates)
    assert candidates == fuse(lanes, ROWS, 10, fusion)
    assert fuse(lanes, ROWS, 2, fusion) == candidates[:2]


def test_fuse_with_all_weight_on_one_lane_ranks_as_that_lane() -> None:
    assert list(scores(Fusion("convex", vector_weight=1.0)))[:2] == ["b", "d"]
    assert list(scores(Fusion("convex", vector_weight=0.0)))[:3] == ["a", "b", "c"]


@given(some.lists(some.integers(0, 60), unique=True), some.lists(some.integers(0, 60), unique=True))
def test_fuse_isr_gives_the_scores_of_the_definition_bit_for_bit(fts: Sequence[int], vec: Sequence[int]) -> None:
    rows = [Row(f"m{number}", f"m{number}", "", "", 0) for number in range(61)]
    lanes = Lanes([Hit(number, 1.0) for number in fts], [Hit(number, 1.0, 0.5) for number in vec])
    found = {candidate.id: candidate.score for candidate in fuse(lanes, rows, 100, Fusion("isr"))}
    assert found == {rows[number].id: score for number, score in inverse_square_scores(lanes).items()}
