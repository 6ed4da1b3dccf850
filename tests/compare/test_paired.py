"""Paired comparisons: directions, denominators, and runs that cannot be compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lab.base.errors import NotARun, NotComparable, UnusableInput
from lab.compare.paired import Comparison, Difference, compare_arms
from lab.compare.statistics import clustered, holm, sign_flip
from lab.measures.score import headlines, score_run
from lab.runs.directory import RunDirectory

MakeRun = Callable[..., RunDirectory]
FIRST, QUOTA = "tier_first_v1", "tier_quota_v1"


@pytest.fixture(scope="module")
def run(make_run: MakeRun) -> RunDirectory:
    """Both policies, an empty arm and a perfect one, over six conversations."""
    return make_run(FIRST, QUOTA, "none", "oracle")


@pytest.fixture(scope="module")
def found(run: RunDirectory) -> Comparison:
    """The comparison of the two policies."""
    return compare_arms(run, FIRST, QUOTA)


def _by_measure(comparison: Comparison) -> dict[str, Difference]:
    return {one.measure: one for one in comparison.differences}


def _values(run: RunDirectory, arm: str, measure: str) -> dict[str, tuple[str, float]]:
    return {
        one.at: (one.conversation, one.value)
        for one in score_run(run)
        if one.arm == arm and one.measure == measure and one.value is not None
    }


@pytest.mark.parametrize("measure", ["Success@6", "nDCG@6", "RepeatRate", "LongestStreak"])
def test_difference_uses_pairs_of_both_arms(run: RunDirectory, found: Comparison, measure: str) -> None:
    base, cand = _values(run, FIRST, measure), _values(run, QUOTA, measure)
    groups: dict[str, list[float]] = {}
    for at in base.keys() & cand.keys():
        groups.setdefault(base[at][0], []).append(cand[at][1] - base[at][1])
    pairs = [value for values in groups.values() for value in values]
    one = _by_measure(found)[measure]
    assert (one.n, one.conversations) == (len(pairs), 6)
    assert one.estimate == pytest.approx(clustered(groups))
    assert one.candidate - one.baseline == pytest.approx(one.estimate.mean)
    assert one.p == pytest.approx(sign_flip([sum(values) for values in groups.values()]))
    assert (one.wins, one.ties, one.losses) == (
        sum(value > 0 for value in pairs),
        sum(value == 0 for value in pairs),
        sum(value < 0 for value in pairs),
    )


def test_holm_covers_the_primary_measures_and_no_others(found: Comparison) -> None:
    by_measure = _by_measure(found)
    assert {name for name, one in by_measure.items() if one.p_holm is not None} == set(headlines(6))
    assert {name: by_measure[name].p_holm for name in headlines(6)} == holm(
        {name: by_measure[name].p for name in headlines(6)}
    )


def test_gained_and_lost_are_probes_with_a_changed_hit(run: RunDirectory, found: Comparison) -> None:
    base, cand = _values(run, FIRST, "Success@6"), _values(run, QUOTA, "Success@6")
    assert set(found.gained) == {at for at in base if cand[at][1] > base[at][1]}
    assert set(found.lost) == {at for at in base if cand[at][1] < base[at][1]}
    one = _by_measure(found)["Success@6"]
    assert (len(found.gained), len(found.lost)) == (one.wins, one.losses)
    assert found.gained


def test_swapping_the_arms_flips_every_sign(run: RunDirectory, found: Comparison) -> None:
    back = compare_arms(run, QUOTA, FIRST)
    assert (back.baseline, back.candidate) == (found.candidate, found.baseline)
    assert (set(back.gained), set(back.lost)) == (set(found.lost), set(found.gained))
    assert _by_measure(back).keys() == _by_measure(found).keys()
    for measure, one in _by_measure(found).items():
        other = _by_measure(back)[measure]
        assert (other.baseline, other.candidate) == pytest.approx((one.candidate, one.baseline))
        assert (other.wins, other.ties, other.losses) == (one.losses, one.ties, one.wins)
        assert other.estimate.mean == pytest.approx(-one.estimate.mean)
        # A measure with values in one conversation has no interval.
        if one.estimate.low is None:
            assert other.estimate.low is None
        else:
            assert (other.estimate.low, other.estimate.high) == pytest.approx((-one.estimate.high, -one.estimate.low))
        assert (other.p, other.p_holm) == pytest.approx((one.p, one.p_holm))


def test_compare_with_an_empty_arm_has_hits_but_no_repeats(run: RunDirectory) -> None:
    by_measure = _by_measure(compare_arms(run, "none", "oracle"))
    hit = by_measure["Success@6"]
    assert (hit.baseline, hit.losses) == (0.0, 0)
    assert (hit.n, hit.candidate) == (84, pytest.approx(1.0))
    assert (hit.p, hit.estimate.mean) == (2 / 2**6, pytest.approx(1.0))
    # A measure that one arm never has is reported and not compared.
    assert dict(compare_arms(run, "none", "oracle").unmeasured)["RepeatRate"] == "none"
    assert "RepeatRate" not in by_measure
    assert "LongestStreak" not in by_measure


def test_compare_two_runs_equals_comparing_one_run(make_run: MakeRun, run: RunDirectory, found: Comparison) -> None:
    alone = make_run(QUOTA)
    across = compare_arms(run, FIRST, f"{alone.path}:{QUOTA}")
    assert across.differences == found.differences
    assert (across.gained, across.lost) == (found.gained, found.lost)
    assert across.candidate == f"{alone.path}:{QUOTA}"


def test_compare_arm_with_itself_at_a_smaller_cutoff(make_run: MakeRun, run: RunDirectory) -> None:
    fewer = make_run(FIRST, max_items=3)
    one = _by_measure(compare_arms(run, f"{fewer.path}:{FIRST}", FIRST))["InjectedItems"]
    assert one.baseline <= 3 < one.candidate


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"scope": "recorded"}, "scope (none / recorded)"),
        ({"limit": 5}, "conversations: 1 conversation removed: two-desks"),
        (
            {"labels": "sampled", "recall_turns": "none"},
            (
                "labels (mode recorded / sampled, must_share none / 0.1, nice_share none / 0.63, 1 more), "
                "recall_turns (user / none)"
            ),
        ),
        ({"hard_rules": 1, "limit": 1}, "hard_rules (drawn 0 / 1, seed none / 0)"),
        ({"categories": "detected"}, "categories (recorded / detected)"),
        ({"haystack": 20}, "haystack (none / 20)"),
    ],
)
def test_compare_incomparable_runs_names_the_differences(
    make_run: MakeRun, run: RunDirectory, arguments: dict[str, Any], named: str
) -> None:
    other = make_run(QUOTA, **arguments)
    with pytest.raises(NotComparable) as refused:
        compare_arms(run, FIRST, f"{other.path}:{QUOTA}")
    assert str(refused.value).endswith(f"cannot be compared: they differ in {named}")
    assert refused.value.exit_code == 3


def test_compare_runs_with_other_haystacks_names_their_sizes(make_run: MakeRun) -> None:
    small, other = make_run(FIRST, haystack=20), make_run(QUOTA, haystack=10, seed=3)
    with pytest.raises(NotComparable, match=re.escape('they differ in haystack (20 / 10 {"seed": 3})')):
        compare_arms(small, FIRST, f"{other.path}:{QUOTA}")


@pytest.mark.parametrize("same", [QUOTA, "{path}:" + QUOTA])
def test_compare_arm_with_itself_is_refused(run: RunDirectory, same: str) -> None:
    with pytest.raises(UnusableInput, match="name two different arms"):
        compare_arms(run, QUOTA, same.format(path=run.path))


def test_compare_unknown_arm_lists_the_known_ones(run: RunDirectory) -> None:
    with pytest.raises(UnusableInput, match="has no arm 'vector'; it has: tier_first_v1, tier_quota_v1, none, oracle"):
        compare_arms(run, FIRST, "vector")
    with pytest.raises(UnusableInput, match="has no arm 'vector'"):
        compare_arms(run, FIRST, f"{run.path}:vector")


def test_compare_with_a_folder_without_run_is_refused(run: RunDirectory) -> None:
    with pytest.raises(NotARun, match="is not a run directory"):
        compare_arms(run, FIRST, f"{run.path.parent}:{QUOTA}")


def test_as_json_holds_every_measure_with_its_estimate(found: Comparison) -> None:
    value = found.as_json()
    assert list(value) == [
        *("trial", "judged", "baseline", "candidate", "cutoff", "primary", "differences", "gained", "lost"),
        *("probes", "sampled_labels", "unmeasured", "slices"),
    ]
    one = _by_measure(found)["R@6"]
    assert value["differences"]["R@6"] == {
        "n": one.n,
        "conversations": one.conversations,
        "baseline": one.baseline,
        "candidate": one.candidate,
        "p": one.p,
        "p_holm": one.p_holm,
        "wins": one.wins,
        "ties": one.ties,
        "losses": one.losses,
        "relative": one.estimate.mean / one.baseline,
        "standardised": one.standardised,
        "filled_baseline": 0,
        "filled_candidate": 0,
        "left_out": 0,
        "mean": one.estimate.mean,
        "low": one.estimate.low,
        "high": one.estimate.high,
        "standard_error": one.estimate.standard_error,
        "design_effect": one.estimate.design_effect,
        "detectable": one.estimate.detectable,
    }
