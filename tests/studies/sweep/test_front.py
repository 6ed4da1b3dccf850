"""The Pareto front and the results of a sweep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from lab.studies.draws import Draw
from lab.studies.sweep.front import CHARS, HIT, REPEAT, configurations, differences, pareto, reference
from lab.studies.sweep.grid import grid_of
from lab.studies.sweep.groups import MEASURES
from lab.studies.sweep.sweep import Swept


@given(some.lists(some.tuples(*[some.integers(0, 4)] * 3), min_size=1, max_size=30))
def test_pareto_returns_the_undominated_rows(rows: list[tuple[int, int, int]]) -> None:
    front = pareto(np.asarray(rows, float))

    def beats(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
        return all(a >= b for a, b in zip(one, other, strict=True)) and one != other

    assert [not any(beats(other, one) for other in rows) for one in rows] == front.tolist()


def swept(hits: list[list[list[float]]], probes: list[list[int]]) -> Swept:
    """Return two configurations and the reference: hits by conversation, draw and configuration."""
    grid = grid_of({"arm": "quota_repeat", "grid": {"autoRecall.maxItems": [4, 6]}}, "here")
    shape = (len(hits), len(hits[0]), 3, len(MEASURES))
    sums, counts = np.zeros(shape), np.zeros(shape, np.int64)
    sums[..., HIT] = hits
    counts[..., HIT] = np.asarray(probes)[:, :, None]
    counts[..., [REPEAT, CHARS]] = 10
    sums[..., REPEAT] = [[[1, 2, 3], [4, 2, 3]][: len(hits[0])]] * len(hits)
    draws = tuple(Draw("random", 0.5, seed) for seed in range(len(hits[0])))
    return Swept(Path("sweep"), grid, tuple("abcdef"[: len(hits)]), draws, sums, counts)


def test_configurations_have_worst_and_best_conversation_and_draw() -> None:
    found = swept([[[1, 3, 2], [2, 2, 4]], [[4, 4, 4], [0, 4, 2]]], [[4, 4], [4, 4]])
    first, second = configurations(found)
    assert (first.lowest, first.highest) == ((1 / 4 + 2 / 4) / 2, (4 / 4 + 0) / 2)
    assert (second.lowest, second.highest) == ((3 / 4 + 2 / 4) / 2, 1.0)
    # Hits of all conversations: 5, 7 and 6 of 8 under one draw, 2, 6 and 6 under the other.
    assert (first.behind, second.behind) == ((2 - 6) / 8, 0.0)
    assert (first.repeats, second.repeats) == (0.4, 0.2)
    assert first.measures["Success"] == (5 / 8 + 2 / 8) / 2
    assert reference(found)["Success"] == 6 / 8
    # Two conversations are too few for an interval.
    assert differences(found, 1, 0) == ((7 + 6 - 5 - 2) / 16, None, None)


def test_differences_over_six_conversations_have_an_interval() -> None:
    found = swept([[[1, 3, 2]], [[2, 4, 2]], [[0, 3, 2]]] * 2, [[4]] * 6)
    mean, low, high = differences(found, 1, 0)
    assert low is not None
    assert high is not None
    assert low < mean < high


def test_differences_count_copies_as_one_conversation() -> None:
    found = swept([[[1, 3, 2]], [[2, 4, 2]], [[0, 3, 2]]] * 2, [[4]] * 6)
    copied = replace(found, copies=(("a", "d"),))
    assert (differences(copied, 1, 0)[0], differences(copied, 1, 0)[1:]) == (differences(found, 1, 0)[0], (None, None))


def test_configurations_ignore_conversations_without_relevant_memories() -> None:
    found = swept([[[1, 3, 2]], [[0, 0, 0]]], [[4], [0]])
    first, second = configurations(found)
    assert (first.lowest, first.highest) == (first.measures["Success"], 0.25) == (0.25, 0.25)
    assert (second.lowest, second.highest) == (0.75, 0.75)
    assert differences(found, 1, 0) == (0.5, None, None)


def test_configurations_without_repeats_have_a_front() -> None:
    """Conversations with one recall have no RepeatRate."""
    found = swept([[[1, 3, 2]]], [[4]])
    found.counts[..., REPEAT] = 0
    found.sums[..., CHARS] = [50, 40, 60]
    assert [(one.on_front, one.repeats, one.measures["RepeatRate"]) for one in configurations(found)] == [
        (False, None, None),
        (True, None, None),
    ]
