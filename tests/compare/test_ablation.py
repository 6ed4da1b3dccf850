"""The ablation of a scored run: means of every step, and differences from the previous step."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from lab.compare.arms import StepResult, ablation, measures_shown
from lab.compare.paired import compare_arms
from lab.measures.score import score_run, summarise
from lab.runs.directory import RunDirectory
from lab.runs.scores import Scores, read_gold
from lab.systems.openclaw.presets import ABLATION

MakeRun = Callable[..., RunDirectory]
ARMS = tuple(step.arm for step in ABLATION)


@pytest.fixture(scope="module")
def run(make_run: MakeRun) -> RunDirectory:
    """Every step over three conversations, with hard rules and decisions to be found."""
    return make_run(*ARMS, limit=3, hard_rules=1, categories="detected")


@pytest.fixture(scope="module")
def scored(run: RunDirectory) -> tuple[Scores, dict[str, Any]]:
    """Its scores, and their means."""
    scores = score_run(run)
    return scores, summarise(scores, read_gold(run), run.arms)["arms"]


@pytest.fixture(scope="module")
def steps(scored: tuple[Scores, dict[str, Any]]) -> list[StepResult]:
    """Its ablation."""
    return ablation(*scored, 6)


def test_ablation_keeps_the_order_of_steps(scored: tuple[Scores, dict[str, Any]], steps: list[StepResult]) -> None:
    scores, means = scored
    assert [(step.arm, step.adds) for step in steps] == [(step.arm, step.adds) for step in ABLATION]
    assert ablation(scores, dict(reversed(means.items())), 6) == steps


def test_ablation_means_equal_the_run(scored: tuple[Scores, dict[str, Any]], steps: list[StepResult]) -> None:
    for step in steps:
        assert step.means == {name: scored[1][step.arm]["measures"][name] for name in measures_shown(6)}
    # Measures of the Working Set are missing in earlier steps.
    with_working_set = [step.arm for step in steps if step.means["BackboneDuplication"] is not None]
    assert with_working_set == ["quota_backbone", "quota_score", "seed_full"]
    assert steps[-1].means["HardRules"] == 1.0
    assert all(step.means["HardRules"] is not None for step in steps)


def test_ablation_change_is_paired_difference_from_previous_step(run: RunDirectory, steps: list[StepResult]) -> None:
    assert steps[0].changes == {}
    for below, step in pairwise(steps):
        compared = {one.measure: one for one in compare_arms(run, below.arm, step.arm).differences}
        assert step.changes.keys() == compared.keys() & measures_shown(6).keys()
        for name, change in step.changes.items():
            assert (change.estimate, change.p, change.n) == (
                compared[name].estimate,
                compared[name].p,
                compared[name].n,
            )
            # No primary measures, so no adjustment.
            assert change.p_holm is None
    assert "BackboneDuplication" not in steps[4].changes
    assert "BackboneDuplication" in steps[5].changes


def test_ablation_leaves_out_steps_without_an_arm(run: RunDirectory, scored: tuple[Scores, dict[str, Any]]) -> None:
    scores, means = scored
    kept = ("tier_first_v1", "quota_repeat", "seed_full")
    fewer = ablation(scores, {arm: means[arm] for arm in kept} | {"hybrid": means["seed_full"]}, 6)
    assert tuple(step.arm for step in fewer) == kept
    (found,) = (one for one in compare_arms(run, kept[0], kept[1]).differences if one.measure == "RepeatRate")
    assert fewer[1].changes["RepeatRate"].estimate == found.estimate
    assert fewer[1].changes["RepeatRate"].estimate.mean < 0


def test_measures_follow_the_cutoff(scored: tuple[Scores, dict[str, Any]]) -> None:
    scores, means = scored
    assert next(iter(measures_shown(3))) == "Success@3"
    steps = ablation(scores, means, 3)
    assert [step.means["Success@3"] for step in steps] == [means[arm]["measures"]["Success@3"] for arm in ARMS]
    # A measure that the run does not have is None.
    odd = ablation(scores, means, 7)
    assert [(step.means["Success@7"], "Success@7" in step.changes) for step in odd] == [(None, False)] * len(ARMS)


def test_ablation_step_is_plain_json(steps: list[StepResult]) -> None:
    values = json.loads(json.dumps([step.as_json() for step in steps]))
    assert [list(one) for one in values] == [["arm", "adds", "means", "changes"]] * len(ARMS)
    change = values[1]["changes"]["Success@6"]
    assert list(change) == ["mean", "low", "high", "standard_error", "design_effect", "detectable", "p"]
    assert change["mean"] == pytest.approx(values[1]["means"]["Success@6"] - values[0]["means"]["Success@6"])
