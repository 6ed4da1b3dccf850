"""Reciprocal rank fusion: the worked examples of the specification, and the lists of the public engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from lab.engine.memory import Candidate, Row
from lab.engine.recall.fuse import fuse
from lab.engine.store.contract import Hit, Lanes


def rows_named(ids: Sequence[str]) -> list[Row]:
    """Rows in the order of the ids; the time of creation is the row's number."""
    return [Row(identity, identity, "", "", number) for number, identity in enumerate(ids)]


def fused(fts: Sequence[str], vec: Sequence[str], limit: int) -> list[Candidate]:
    """Fuse two lists of ids over rows that stand in no useful order."""
    ids = sorted({*fts, *vec}, reverse=True)
    place = {identity: number for number, identity in enumerate(ids)}
    # Scores of the lanes are the wrong way round: ranks alone may count.
    lanes = Lanes(
        [Hit(place[one], float(rank)) for rank, one in enumerate(fts)],
        [Hit(place[one], float(rank), 9.0 - rank) for rank, one in enumerate(vec)],
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
def test_the_worked_examples_of_the_specification(fts: str, vec: str, expected: list[tuple[str, float]]) -> None:
    assert [(one.id, round(one.score, 6)) for one in fused(fts, vec, 10)] == expected


def test_equal_scores_are_ordered_by_id_by_code_point() -> None:
    found = fused(["é", "a", "Z"], ["b", "_", "z"], 10)
    assert [one.id for one in found] == ["b", "é", "_", "a", "Z", "z"]


@pytest.mark.parametrize(("limit", "expected"), [(0, ""), (1, "b"), (3, "bad"), (4, "badc"), (99, "badc")])
def test_the_cut_keeps_the_best(limit: int, expected: str) -> None:
    assert "".join(one.id for one in fused("abc", "bd", limit)) == expected


def test_a_candidate_carries_its_ranks_and_its_time() -> None:
    lanes = Lanes([Hit(2, 7.0), Hit(0, 3.0)], [Hit(0, 0.5, 1.0), Hit(1, 0.4, 1.5)])
    assert fuse(lanes, rows_named(["x", "y", "z"]), 3) == [
        Candidate("x", 1 / 62 + 1 / 61, 0, 2, 1),
        Candidate("z", 1 / 61, 2, 1, None),
        Candidate("y", 1 / 62, 1, None, 2),
    ]


def test_the_public_engine_fuses_alike(
    observed: Callable[[str], list[dict[str, Any]]], renamed: Callable[[Iterable[str]], dict[str, str]]
) -> None:
    """Left out are lists that name an id twice or hold an empty one: a store of ours returns neither."""
    expected, found = {}, {}
    for record in observed("fuse_recall.jsonl"):
        fts, vec = ([hit[0] for hit in record["input"][lane]] for lane in ("fts", "vector"))
        if any(not all(ids) or len(set(ids)) < len(ids) for ids in (fts, vec)):
            continue
        name = renamed({*fts, *vec})
        mine = fused([name[one] for one in fts], [name[one] for one in vec], record["input"]["limit"])
        found[record["id"]] = [(one.id, one.score, one.fts_rank, one.vec_rank) for one in mine]
        expected[record["id"]] = [
            (
                name[identity],
                score,
                fts.index(identity) + 1 if identity in fts else None,
                vec.index(identity) + 1 if identity in vec else None,
            )
            for identity, score, _ in record["output"]
        ]
    assert found == expected
    assert len(found) >= 100
