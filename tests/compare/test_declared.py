"""Primary measures, gained and lost hits, and slices."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable

import pytest

from lab.base.errors import UnusableInput
from lab.compare.paired import Comparison, compare_arms
from lab.compare.statistics import holm
from lab.measures.catalogue import direction
from lab.measures.score import headlines
from lab.runs.directory import RunDirectory
from lab.runs.scores import Score, read_gold

MakeRun = Callable[..., RunDirectory]
ARMS = ("tier_first_v1", "seed_full", "hybrid", "none")


@pytest.fixture(scope="module")
def run(make_run: MakeRun) -> RunDirectory:
    """Arms with and without a Working Set, the oracle, and the empty arm."""
    return make_run(*ARMS)


@pytest.fixture(scope="module")
def found(run: RunDirectory) -> Comparison:
    """A comparison with its slices."""
    return compare_arms(run, "tier_first_v1", "seed_full", slices=True)


def test_compare_family_is_the_primary_measures(run: RunDirectory) -> None:
    found = compare_arms(run, "tier_first_v1", "hybrid", primary=["hit@6", "StaleRecall", "Success@6"])
    assert (found.primary, found.family) == (("Success@6", "StaleRecall"), 2)
    p = {one.measure: one.p for one in found.differences if one.measure in found.primary}
    assert {one.measure: one.p_holm for one in found.differences if one.p_holm is not None} == holm(p)


def test_compare_refuses_more_than_five_primary_measures(run: RunDirectory) -> None:
    with pytest.raises(UnusableInput, match="6 primary measures: 5 at most"):
        compare_arms(run, "tier_first_v1", "hybrid", primary=[*headlines(6), "RR@6"])
    with pytest.raises(UnusableInput, match="--primary RepeatRate: none has no value"):
        compare_arms(run, "tier_first_v1", "none", primary=["RepeatRate"])
    with pytest.raises(UnusableInput, match="--primary: unknown measure 'Succes@6'; did you mean 'Success@6'"):
        compare_arms(run, "tier_first_v1", "hybrid", primary=["Succes@6"])
    for name, said in (
        ("R@777", "these arms return at most [0-9]+ items; "),
        ("GoldNice@7", "these arms return at most 6 items; "),
        ("P(rel=2)@7777", "these arms return at most [0-9]+ items; "),
    ):
        with pytest.raises(UnusableInput, match=re.escape(f"--primary {name}: ") + said):
            compare_arms(run, "tier_first_v1", "hybrid", primary=[name])


def test_gained_and_lost_do_not_depend_on_primary(run: RunDirectory, found: Comparison) -> None:
    declared = compare_arms(run, "tier_first_v1", "seed_full", primary=["RepeatRate"])
    assert (declared.gained, declared.lost, declared.probes) == (found.gained, found.lost, 84)
    (hit,) = [one for one in found.differences if one.measure == "Success@6"]
    assert (hit.wins, hit.losses, hit.n) == (len(found.gained), len(found.lost), found.probes)


def test_compare_reports_relative_effects(found: Comparison) -> None:
    by_measure = {one.measure: one for one in found.differences}
    one = by_measure["RepeatRate"]
    assert one.relative == pytest.approx(one.candidate / one.baseline - 1)
    assert one.standardised is not None
    assert one.standardised * one.estimate.mean > 0
    assert by_measure["BudgetEvictions"].relative is None
    assert ("BackboneDuplication", "tier_first_v1") in found.unmeasured


def test_slices_partition_the_pairs_without_adjustment(run: RunDirectory, found: Comparison) -> None:
    gold = read_gold(run)
    whole = {one.measure: one for one in found.differences}
    # Not every probe has a condition.
    names = {one.name for one in found.slices} - {"condition"}
    assert names >= {"type", "conversation"}
    for measure in found.primary:
        own = [one for one in found.slices if one.difference.measure == measure]
        assert all(one.difference.p_holm is None for one in own)
        for name in names:
            parts = [one.difference for one in own if one.name == name]
            if measure != "RepeatRate" or name == "conversation":
                assert sum(one.n for one in parts) == whole[measure].n
                assert sum(one.estimate.mean * one.n for one in parts) / whole[measure].n == pytest.approx(
                    whole[measure].estimate.mean
                )
        # The worst first.
        sign = -1 if direction(measure) == "lower" else 1
        means = [sign * one.difference.estimate.mean for one in own]
        assert means == sorted(means)
    (todo,) = [one for one in found.slices if (one.value, one.difference.measure) == ("todo", "Success@6")]
    assert todo.difference.n == sum(one.slices.get("type") == "todo" and bool(one.grades) for one in gold.values())
    (one,) = [one for one in found.slices if (one.value, one.difference.measure) == ("two-desks", "R@6")]
    assert one.difference.estimate.low is None


def test_slices_skip_constant_values(make_run: MakeRun) -> None:
    alone = compare_arms(make_run("tier_first_v1", "hybrid", limit=1), "tier_first_v1", "hybrid", slices=True)
    names = [one.name for one in alone.slices]
    assert "type" in names
    assert "conversation" not in names


def test_notebook_slices_are_computed_on_demand(run: RunDirectory) -> None:
    assert compare_arms(run, "tier_first_v1", "hybrid").slices == ()


def test_standardised_difference_is_mean_over_standard_deviation(run: RunDirectory, found: Comparison) -> None:
    from lab.measures.score import score_run

    values: dict[str, dict[str, float]] = {"tier_first_v1": {}, "seed_full": {}}
    for one in score_run(run):
        assert isinstance(one, Score)
        if one.measure == "nDCG@6" and one.arm in values and one.value is not None:
            values[one.arm][one.at] = one.value
    changes = [values["seed_full"][at] - value for at, value in values["tier_first_v1"].items()]
    (mine,) = [one for one in found.differences if one.measure == "nDCG@6"]
    assert mine.standardised == pytest.approx(statistics.fmean(changes) / statistics.stdev(changes))
