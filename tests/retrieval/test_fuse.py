"""Reciprocal rank fusion: the worked examples of the specification, and lanes that no store returns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.retrieval.contract import Candidate, Hit, Lanes, Row
from lab.retrieval.fusion import fuse


def rows_named(ids: Sequence[str]) -> list[Row]:
    """Rows in the order of the ids; the creation time is the row's number."""
    return [Row(identity, identity, "", "", number) for number, identity in enumerate(ids)]


def fused(fts: Sequence[str], vec: Sequence[str], limit: int) -> list[Candidate]:
    """Fuse two lists of ids over rows in an unrelated order."""
    ids = sorted({*fts, *vec}, reverse=True)
    number_of = {identity: number for number, identity in enumerate(ids)}
    # The lanes' scores are reversed, because only ranks may count.
    lanes = Lanes(
        [Hit(number_of[one], float(rank)) for rank, one in enumerate(fts)],
        [Hit(number_of[one], float(rank), 9.0 - rank) for rank, one in enumerate(vec)],
    )
    return fuse(lanes, rows_named(ids), limit)


@pytest.mark.parametrize(
    ("fts", "vec", "expected"),
    [
        ("abc", "bd", [("b", 0.032522), ("a", 0.016393), ("d", 0.016129), ("c", 0.015873)]),
        ("xy", "pq", [("p", 0.016393), ("x", 0.016393), ("q", 0.016129), ("y", 0.016129)]),
        ("ab", "ba", [("a", 0.032522), ("b", 0.032522)]),
        ("a", "a", [("a", 0.032787)]),
        ("", "ab", [("a", 0.016393), ("b", 0.016129)]),
        ("ab", "", [("a", 0.016393), ("b", 0.016129)]),
        ("", "", []),
    ],
)
def test_fuse_reproduces_the_worked_examples(fts: str, vec: str, expected: list[tuple[str, float]]) -> None:
    assert [(candidate.id, round(candidate.score, 6)) for candidate in fused(fts, vec, 10)] == expected


def test_fuse_orders_equal_scores_by_id() -> None:
    candidates = fused(["é", "a", "Z"], ["b", "_", "z"], 10)
    assert [candidate.id for candidate in candidates] == ["b", "é", "_", "a", "z", "Z"]


@pytest.mark.parametrize(("limit", "expected"), [(0, ""), (1, "b"), (3, "bad"), (4, "badc"), (99, "badc")])
def test_fuse_cut_keeps_the_best(limit: int, expected: str) -> None:
    assert "".join(candidate.id for candidate in fused("abc", "bd", limit)) == expected


def test_fuse_candidate_has_ranks_and_creation_time() -> None:
    lanes = Lanes([Hit(2, 7.0), Hit(0, 3.0)], [Hit(0, 0.5, 1.0), Hit(1, 0.4, 1.5)])
    assert fuse(lanes, rows_named(["x", "y", "z"]), 3) == [
        Candidate("x", 1 / 62 + 1 / 61, 0, 2, 1, 1.0),
        Candidate("z", 1 / 61, 2, 1, None),
        Candidate("y", 1 / 62, 1, None, 2, 1.5),
    ]


@pytest.mark.parametrize(
    ("fts", "vec", "expected"),
    [
        # Every occurrence adds to the score; the first one gives the rank.
        ("aba", "b", [("a", 1 / 61 + 1 / 63, 1, None), ("b", 1 / 62 + 1 / 61, 2, 1)]),
        ("", "aab", [("a", 1 / 61 + 1 / 62, None, 1), ("b", 1 / 63, None, 3)]),
    ],
)
def test_fuse_adds_every_occurrence_of_a_repeated_row(
    fts: str, vec: str, expected: list[tuple[str, float, int | None, int | None]]
) -> None:
    candidates = [
        (candidate.id, candidate.score, candidate.fts_rank, candidate.vec_rank) for candidate in fused(fts, vec, 10)
    ]
    assert sorted(candidates) == expected


@pytest.mark.parametrize("fts", [["", "a"], ["", "a", ""]])
def test_fuse_row_without_id_keeps_its_rank_and_is_left_out(fts: list[str]) -> None:
    assert [(candidate.id, candidate.score) for candidate in fused(fts, ["b"], 10)] == [("b", 1 / 61), ("a", 1 / 62)]


@pytest.mark.parametrize("repeated", [False, True])
def test_fuse_uses_text_distance_if_vector_distance_is_zero(repeated: bool) -> None:
    """The text lane's distance applies if the vector lane has none or zero."""
    fts = [Hit(0, 1.0, 0.7), Hit(1, 1.0, 0.6), Hit(2, 1.0)]
    lanes = Lanes([*fts, *fts[2:]] if repeated else fts, [Hit(0, 0.5, 0.0), Hit(1, 0.5, 0.3)])
    assert {candidate.id: candidate.distance for candidate in fuse(lanes, rows_named("abc"), 9)} == {
        "a": 0.7,
        "b": 0.3,
        "c": 0.0,
    }


def test_fuse_keeps_lane_order_of_ids_that_compare_equal() -> None:
    rows = rows_named(["a\x00", "a\x01"])
    assert [candidate.id for candidate in fuse(Lanes([Hit(1, 1.0)], [Hit(0, 1.0)]), rows, 2)] == ["a\x01", "a\x00"]
