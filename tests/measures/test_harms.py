"""Measures of harms: alone or beside what is right, how fast a correction wins, and whether the old value returns."""

from __future__ import annotations

import numpy as np
import pytest

from lab.measures.catalogue import BY_NAME
from lab.measures.inputs import Probes, judge
from lab.measures.model import InjectedMeasure
from lab.measures.score import corrections_of
from lab.runs.scores import Gold

NAN = np.nan
RIGHT, WRONG, BOTH, NEITHER = ["new"], ["old"], ["old", "new"], ["other"]


def _values(
    name: str,
    injected: list[list[str]],
    corrections: list[int] | None = None,
    k: int = 2,
    pinned: list[list[str]] | None = None,
) -> list[float]:
    """The values at probes that need ``new`` and have ``old`` as misleading, every third recall point."""
    needed, misleading = [{"new": 2}] * len(injected), [{"old": 1}] * len(injected)
    right, lines, none = judge(injected, needed), pinned or [[]] * len(injected), np.zeros(len(injected))
    probes = Probes(
        *(right, right, judge(lines, needed), right, judge(injected, misleading)),
        *(none, none, none, none),
        np.arange(len(injected)) * 3,
        np.array(corrections or [0] * len(injected)),
        judge(lines, misleading),
    )
    measure = BY_NAME[name]
    assert isinstance(measure, InjectedMeasure)
    return [*map(float, measure.values(probes, k))]


def test_harm_is_alone_or_beside_what_is_right() -> None:
    injected = [RIGHT, WRONG, BOTH, NEITHER]
    assert _values("HarmAlone", injected) == [0, 1, 0, 0]
    assert _values("HarmBeside", injected) == [0, 0, 1, 0]
    # Only the first k count.
    assert _values("HarmAlone", [BOTH], k=1) == [1]


def test_a_line_of_the_working_set_stands_in_the_prompt() -> None:
    injected, pinned = [WRONG, NEITHER, RIGHT], [RIGHT, WRONG, WRONG]
    assert _values("HarmAlone", injected, pinned=pinned) == [0, 1, 0]
    assert _values("HarmBeside", injected, pinned=pinned) == [1, 0, 1]
    assert _values("NetBenefit", injected, pinned=pinned) == [0.5, -1, 0.5]


@pytest.mark.parametrize(
    ("injected", "delay"),
    [
        ([RIGHT, WRONG, WRONG], 0),
        ([WRONG, BOTH, RIGHT], 6),
        ([NEITHER, RIGHT, WRONG], 3),
        # It never wins: as long as it was looked at.
        ([WRONG, BOTH, NEITHER], 6),
    ],
)
def test_uptake_delay_ends_where_the_correction_stands_without_the_old_value(
    injected: list[list[str]], delay: int
) -> None:
    np.testing.assert_array_equal(_values("UptakeDelay", injected), [delay, NAN, NAN])


def test_uptake_delay_of_one_probe_says_nothing() -> None:
    np.testing.assert_array_equal(_values("UptakeDelay", [WRONG, WRONG, RIGHT], [0, 1, 1]), [NAN, 3, NAN])
    np.testing.assert_array_equal(_values("UptakeDelay", [WRONG, RIGHT], [-1, -1]), [NAN, NAN])


def test_resurrection_counts_probes_after_a_win() -> None:
    np.testing.assert_array_equal(_values("Resurrection", [WRONG, RIGHT, BOTH, RIGHT, WRONG]), [NAN, NAN, 1, 0, 1])
    # Each correction has a history of its own.
    np.testing.assert_array_equal(_values("Resurrection", [RIGHT, WRONG, WRONG], [0, 1, 0]), [NAN, NAN, 1])


def _gold(needed: dict[str, int], forbidden: list[str], **slices: str) -> Gold:
    return Gold("c", needed, {}, forbidden, slices, {})


def test_probes_about_one_correction_share_what_is_right_and_what_is_wrong() -> None:
    golds = [
        _gold({"b": 2}, ["a"], family="correction_explicit"),
        _gold({"y": 2}, ["x"], condition="superseded"),
        # A memory that helps does not make the correction another one.
        _gold({"b": 2, "z": 1}, ["a", "x"], family="correction_explicit"),
        _gold({"z": 1, "c": 2}, ["a", "b"], family="correction_twice"),
        _gold({"b": 2}, ["a"], family="like_names"),
        _gold({}, ["a"], family="correction_back"),
    ]
    first, second, again, third, *none = corrections_of(golds)
    assert first == again
    assert len({first, second, third}) == 3
    assert none == [-1, -1]
