"""Means over sets, and who wins: against formulas written out, and on invented values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.compare.statistics import clustered, sign_flip
from lab.report.league import sentence
from lab.runs.scores import Values
from lab.studies.league.contest import Contest, contest
from lab.studies.league.table import Cell, Measured, Row, by_conversation, overall, stratified, weighted_sums

Conversations = Mapping[str, Sequence[float]]
GROUPS = st.lists(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=4),
        min_size=2,
        max_size=6,
    ),
    min_size=2,
    max_size=3,
)


def part(set_name: str, arm: str, hits: Conversations) -> Measured:
    """The figures of an arm whose hits are given by conversation."""
    at = [(f"{name}/{number}", name, value) for name, values in hits.items() for number, value in enumerate(values)]
    values = Values(*(list(column) for column in zip(*at, strict=True)))
    mean = sum(values.value) / len(at)
    return Measured(Row(set_name, arm, 64, len(hits), {"hit": Cell(mean, len(at))}), {"hit": values})


@given(GROUPS)
def test_stratified_mean_and_interval_are_those_of_the_formula(strata: list[dict[str, list[float]]]) -> None:
    from scipy import stats

    estimate = stratified(strata)
    means = [sum(map(sum, groups.values())) / sum(map(len, groups.values())) for groups in strata]
    assert estimate.mean == pytest.approx(sum(means) / len(means))
    variance = 0.0
    for groups, mean in zip(strata, means, strict=True):
        n, count = sum(map(len, groups.values())), len(groups)
        spread = sum((sum(values) - len(values) * mean) ** 2 for values in groups.values())
        variance += count / (count - 1) * spread / n**2
    error = math.sqrt(variance) / len(strata)
    assert estimate.standard_error == pytest.approx(error)
    clusters = sum(map(len, strata))
    if clusters < 6:
        assert estimate.low is None
    else:
        half = stats.t.ppf(0.975, clusters - len(strata)) * error
        assert estimate.high == pytest.approx(estimate.mean + half)
    assert sum(weighted_sums(strata)) == pytest.approx(estimate.mean)


def test_one_stratum_is_the_clustered_mean() -> None:
    groups = {name: [0.0, 1.0, float(name == "a")] for name in "abcdefg"}
    assert stratified([groups]) == clustered(groups)


def test_stratum_of_one_conversation_gives_no_interval() -> None:
    many = {name: [0.0, 1.0] for name in "abcdefg"}
    assert stratified([many, {"x": [1.0, 0.0]}]).low is None


NAMES = "abcdefgh"
LOW = {name: [0.0, 0.0, 0.0, 1.0] for name in NAMES}
HIGH = {name: [1.0, 1.0, 0.0, 1.0] for name in NAMES}
NEAR = {name: [1.0, 1.0, 0.0, float(name > "a")] for name in NAMES}


def test_winner_is_above_one_arm_and_not_shown_to_differ_from_another() -> None:
    arms = {"low": LOW, "high": HIGH, "near": NEAR}
    parts = {arm: [part("s", arm, hits)] for arm, hits in arms.items()}
    cells = {arm: ones[0].row.cells["hit"] for arm, ones in parts.items()}
    result = contest("s", 64, "hit", cells, parts)
    assert result is not None
    assert (result.winner, result.pairs, result.conversations) == ("high", 3, 8)
    assert [one.arm for one in result.below] == ["low"]
    assert [one.arm for one in result.alike] == ["near"]
    low = next(one for one in result.against if one.arm == "low")
    assert (low.difference, low.low, low.high) == (0.5, 0.5, 0.5)
    # Two of the 256 signs are as extreme; the smallest of three p-values is multiplied by three, or shares that rank.
    assert low.p_holm == pytest.approx(3 * 2 / 256)


def result_of(**arms: Conversations) -> Contest:
    """The contest of arms whose hits are given by conversation."""
    parts = {arm: [part("s", arm, hits)] for arm, hits in arms.items()}
    result = contest("s", 1200, "hit", {arm: ones[0].row.cells["hit"] for arm, ones in parts.items()}, parts)
    assert result is not None
    return result


def test_arms_with_the_same_mean_win_together() -> None:
    other = dict(zip(NAMES, reversed(list(HIGH.values())), strict=True))
    result = result_of(low=LOW, high=HIGH, twin=other)
    assert (result.winner, result.tied) == ("high", ("twin",))
    said = sentence(result)
    assert said.startswith("At 1,200 tokens, high and twin have the highest share of hits: 0.750. ")
    assert "high is shown to be above low. high is not shown to differ from twin (+0.000, p 1.000)." in said
    assert result_of(low=LOW, high=HIGH, near=NEAR).tied == ()


def test_statement_without_a_rival_or_a_hit_names_no_winner() -> None:
    assert (
        sentence(result_of(high=HIGH)) == "At 1,200 tokens, high has a share of hits of 0.750; no other arm is ranked."
    )
    never = {name: [0.0] for name in NAMES}
    assert sentence(result_of(one=never, two=never)) == "At 1,200 tokens, no ranked arm has any hits."


def test_few_conversations_show_nothing() -> None:
    parts = {arm: [part("s", arm, {name: hits[name] for name in "abcde"})] for arm, hits in (("l", LOW), ("h", HIGH))}
    cells = {arm: ones[0].row.cells["hit"] for arm, ones in parts.items()}
    result = contest("s", 64, "hit", cells, parts)
    assert result is not None
    assert not result.is_testable
    assert result.below == ()


@pytest.mark.parametrize(("pairs", "least"), [(1, 6), (3, 7), (91, 12)])
def test_more_pairs_take_more_conversations(pairs: int, least: int) -> None:
    result = Contest("s", 64, "hit", "a", Cell(1.0, 9), least, (), pairs)
    assert (result.least, result.is_testable) == (least, True)
    assert not result._replace(conversations=least - 1).is_testable


def test_contest_over_sets_flips_signs_of_weighted_conversations() -> None:
    sets = [
        ({"a": [1.0, 1.0], "b": [0.0]}, {"a": [0.0, 1.0], "b": [0.0]}),
        ({name: [1.0] for name in "cdefg"}, {name: [float(name == "g")] for name in "cdefg"}),
    ]
    parts = {
        "high": [part(str(number), "high", one) for number, (one, _) in enumerate(sets)],
        "low": [part(str(number), "low", other) for number, (_, other) in enumerate(sets)],
    }
    cells = {arm: overall(arm, 64, ones).cells["hit"] for arm, ones in parts.items()}
    assert cells["high"].mean == pytest.approx((2 / 3 + 1) / 2)
    result = contest("all sets", 64, "hit", cells, parts)
    assert result is not None
    sums = [1 / 3 / 2, 0.0, *[1 / 5 / 2] * 4, 0.0]
    observed = sum(sums)
    extreme = [
        abs(sum(sign * one for sign, one in zip(signs, sums, strict=True))) >= observed - 1e-12
        for signs in product((-1, 1), repeat=len(sums))
    ]
    assert result.against[0].p_holm == pytest.approx(sum(extreme) / len(extreme))
    assert result.against[0].p_holm == pytest.approx(sign_flip(sums))
    assert result.against[0].difference == pytest.approx(observed)


def test_measure_without_values_has_no_contest() -> None:
    assert contest("s", 64, "Present", {}, {"a": [part("s", "a", HIGH)]}) is None


def test_values_are_grouped_by_conversation() -> None:
    assert by_conversation(Values(["1", "2", "3"], ["a", "b", "a"], [0.0, 1.0, 1.0])) == {"a": [0.0, 1.0], "b": [1.0]}
