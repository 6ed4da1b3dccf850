"""Measure names: all measures of a run are known, also at other cutoffs and levels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.gate.policy import Policy, Rule
from lab.gate.verdict import judge
from lab.measures.catalogue import is_measure
from lab.measures.score import score_run
from lab.runs.directory import RunDirectory


def test_is_measure_knows_every_measure_of_a_run(run: RunDirectory) -> None:
    scores = score_run(run)
    assert [name for name in scores.measures if not is_measure(name)] == []


def test_rule_beyond_the_depth_of_an_arm_names_the_smaller_depth(run: RunDirectory) -> None:
    rule = Rule("guard", "R@99", margin=0.02)
    policy = Policy("mine", "what it means", "tier_first_v1", "tier_quota_v1", 2, (rule,))
    whole = run.depths["tier_quota_v1"]
    for arm in policy.baseline, policy.candidate:
        resolved = run.manifest.resolved
        arms = tuple(replace(one, depth=whole - 7) if one.name == arm else one for one in resolved.arms)
        shallow = replace(run.manifest, resolved=replace(resolved, arms=arms))
        (line,) = judge(policy, RunDirectory(run.path, shallow)).lines
        assert line.reason == (
            f"R@99: the arm returns at most {whole - 7} items, so there is no value at 99; "
            f"use @{whole - 7} in policy mine"
        )


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *((one, True) for one in ("R@7", "P(rel=2)@6", "AP@999", "Rprec", "RepeatRate(probes)", "GoldNice@4")),
        *((one, False) for one in ("R", "R@0", "R@", "R@x", "nDCG(rel=2)@6", "WrongScope@6", "hit@6", "", "@6", "R@²")),
    ],
)
def test_cutoffs_and_levels(name: str, known: bool) -> None:
    assert is_measure(name) == known
