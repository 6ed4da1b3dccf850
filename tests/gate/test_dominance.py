"""RepeatDominance in audits and shipped policies: the measure itself, and advisory."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lab.base.shape import deep_merge
from lab.gate.line import FAIL, PASS, SKIPPED, Line
from lab.gate.policy import read_policy
from lab.gate.receipts import DOMINANCE
from lab.gate.verdict import Verdict, judge
from lab.measures.definitions.repeat_dominance import dominance
from lab.measures.inputs import selections_of
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table

QUOTA = "tier_quota_v1"


def _only(verdict: Verdict, measure: str) -> Line:
    (line,) = (line for line in verdict.lines if line.measure == measure)
    return line


def _others(verdict: Verdict) -> list[Line]:
    return [line for line in verdict.lines if line.measure not in ("RepeatDominance", DOMINANCE)]


def test_audit_dominance_is_the_measure_over_listed_items(run: RunDirectory, audit: Mapping[str, Any]) -> None:
    listed = defaultdict[str, list[list[str]]](list)
    for name in run.conversations:
        for row in read_table(run.receipts(name), ("arm", "receipt")).to_pylist():
            receipt = json.loads(row["receipt"])
            if row["arm"] == QUOTA and not receipt["skipped"]:
                listed[receipt["scope"]].append(receipt["fusedTop"])
    values = np.concatenate([dominance(selections_of(turns)) for turns in listed.values()])
    assert len(values) == audit["recalls"]["answered"] > 100
    assert audit["repeat"]["dominance"] == pytest.approx(float(np.nanmean(values)), abs=1e-12)


@pytest.mark.parametrize("name", ["rollout", "nightly"])
def test_dominance_of_a_run_is_advisory(name: str, three: RunDirectory) -> None:
    """The old policy dominates more: with the arms exchanged the rule fails, and decides nothing."""
    shipped = read_policy(name)
    exchanged = replace(
        shipped, baseline=QUOTA, candidate="tier_first_v1", minimum_conversations=2, fail_level=0.4, control=None
    )
    rules = tuple(rule for rule in exchanged.rules if rule.against == "baseline" and rule.kind != "exact")
    verdict = judge(replace(exchanged, rules=rules), three)
    line = _only(verdict, "RepeatDominance")
    assert (line.status, line.critical) == (FAIL, False)
    assert line.threshold == 0.008
    without = tuple(rule for rule in rules if rule.measure != "RepeatDominance")
    assert _others(verdict) == list(judge(replace(exchanged, rules=without), three).lines)


def test_dominance_of_receipts_is_advisory_and_older_audits_lack_it(audit: dict[str, Any]) -> None:
    policy = read_policy("stage-b")
    sound = judge(policy, audit=audit)
    assert _only(sound, DOMINANCE).status == PASS
    fixed = judge(policy, audit=deep_merge(audit, {"repeat": {"dominance": 0.9}}))
    assert (_only(fixed, DOMINANCE).status, fixed.status) == (FAIL, sound.status)
    older = dict(audit, repeat={name: value for name, value in audit["repeat"].items() if name != "dominance"})
    lacking = judge(policy, audit=older)
    assert (_only(lacking, DOMINANCE).status, lacking.status) == (SKIPPED, sound.status)
    assert _others(sound) == _others(fixed) == _others(lacking)
