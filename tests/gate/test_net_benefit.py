"""Harms at equal exposure: what they cost, and who is refused without showing any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.gate.action import action_of
from lab.gate.line import FAIL, PASS
from lab.gate.policy import Policy, Rule, read_policy
from lab.gate.verdict import judge
from lab.golden.files import read_golden
from lab.golden.model import Probe
from lab.measures.definitions.net_benefit import net_benefit
from lab.measures.inputs import Probes
from lab.measures.inputs import judge as graded
from lab.measures.score import at_equal_exposure
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.systems.contract import ArmInfo, Ask, MemorySystem, Recall, Retriever
from lab.systems.kit import Kit
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec

EQUAL = Rule("guard", "NetBenefit@6", exposure="equal", margin=0.02)


@pytest.mark.parametrize(
    ("injected", "relevant", "misleading", "value"),
    [
        (["right"], ["right"], ["wrong"], 1.0),
        (["right", "wrong"], ["right"], ["wrong"], 0.5),
        (["wrong", "right"], ["right"], ["wrong"], 0.5),
        (["wrong", "other"], ["right"], ["wrong"], -1.0),
        (["wrong"], [], ["wrong"], -1.0),
        (["other"], ["right"], ["wrong"], 0.0),
        ([], ["right"], ["wrong"], 0.0),
        # Only the first k count.
        (["other", "other 2", "wrong"], ["right"], ["wrong"], 0.0),
        # Where nothing can mislead, there is no value.
        (["right"], ["right"], [], None),
    ],
)
def test_what_harms_and_hits_are_worth(
    injected: list[str], relevant: list[str], misleading: list[str], value: float | None
) -> None:
    of = graded([injected], [dict.fromkeys(relevant, 1)])
    harm = graded([injected], [dict.fromkeys(misleading, 1)])
    no = np.zeros(1)
    nothing, numbers = graded([[]], [{}]), (np.array([0]), np.array([-1]))
    (found,) = net_benefit(Probes(of, of, nothing, of, harm, no, no, no, no, *numbers, nothing), 2)
    assert (None if np.isnan(found) else found) == value


def test_equal_exposure_is_that_of_the_arm_with_fewer_judged_memories() -> None:
    judged = {"a", "b", "c", "d"}
    lists, counts = at_equal_exposure([["x", "a", "b", "c"], ["d", "y"]], judged, 6)
    assert lists == [["a"], ["d"]]
    assert counts == [3, 1]
    assert at_equal_exposure([["a", "b"], []], judged, 6) == ([[], []], [2, 0])
    # What is beyond the cutoff is not exposed.
    assert at_equal_exposure([["x", "a"], ["b"]], judged, 1) == ([[], []], [0, 1])


@dataclass(frozen=True)
class Harmed:
    """tier_first_v1, with a misleading memory in its last place at the probes that have one."""

    name: str
    inner: Any
    gold: Mapping[str, Probe]

    @property
    def retrieval(self) -> Any:
        return self.inner.retrieval

    @property
    def shares(self) -> bool:
        return bool(self.inner.shares)

    def describe(self) -> ArmInfo:
        return replace(self.inner.describe(), name=self.name)

    def open(self, kit: Kit) -> MemorySystem:
        return Changed(self.inner.open(kit), self.gold)


class Changed(MemorySystem):
    def __init__(self, inner: Any, gold: Mapping[str, Probe]) -> None:
        self._inner, self._gold = inner, gold
        self.retrieval_key = inner.retrieval_key

    def open_retriever(self) -> Retriever:
        found: Retriever = self._inner.open_retriever()
        return found

    def select(self, ask: Ask, candidates: Any) -> Recall:
        found: Recall = self._inner.select(ask, candidates)
        probe = self._gold.get(ask.turn)
        if probe is None or not probe.forbidden:
            return found
        wrong = found.items[0]._replace(id=probe.forbidden[0].memory, text="misleads")
        items = (*(item for item in found.items[: found.injected - 1] if item.id != wrong.id), wrong)
        return replace(found, items=items, injected=len(items), context="\n".join(item.text for item in items))


# Two of the six conversations.
DEAF = ("lantern-shop", "tea-mountain")


class Deaf(Harmed):
    """tier_first_v1, which injects nothing in a third of the conversations."""

    def open(self, kit: Kit) -> MemorySystem:
        system = Changed(self.inner.open(kit), {})
        return Silent(system) if kit.conversation in DEAF else system


class Silent(Changed):
    def __init__(self, inner: Any) -> None:
        super().__init__(inner, {})

    def select(self, ask: Ask, candidates: Any) -> Recall:
        return Recall(status="skipped")


@pytest.fixture(scope="module")
def harmed(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    first = make_arm(ArmSpec("tier_first_v1", "tier_first_v1"))
    gold = {str(probe.turn): probe for probe in read_golden(operators.parents[1] / "golden" / "operators").probes}
    made = {"harmed": Harmed("harmed", first, gold), "deaf": Deaf("deaf", first, gold)}
    arms = ("tier_first_v1", "harmed", "deaf", "oracle", "none", "hybrid")
    asked = ReplayRequest(str(operators), "lab", arms, scope="recorded", embedder="hashing")
    return run_replay(asked, tmp_path_factory.mktemp("harmed") / "run", made=made).run


def verdict_on(run: RunDirectory, candidate: str, *rules: Rule) -> Any:
    return judge(Policy("mine", "what it means", "tier_first_v1", candidate, 6, rules or (EQUAL,)), run)


def test_a_harm_added_to_the_old_policy_is_refused(harmed: RunDirectory) -> None:
    verdict = verdict_on(harmed, "harmed")
    assert verdict.status == FAIL
    assert verdict.lines[0].difference < -0.1
    assert "at equal exposure" in verdict.lines[0].reason
    # Its hits are nearly those of the old policy, so a rule on hits alone lets it pass.
    assert verdict_on(harmed, "harmed", Rule("guard", "Success@6", margin=0.2)).status == PASS


def test_an_oracle_passes_and_is_no_evidence(harmed: RunDirectory) -> None:
    verdict = verdict_on(harmed, "oracle")
    assert verdict.status == PASS
    assert "oracle reads the golden set" in verdict.trial
    assert action_of(verdict).sentence.endswith("nothing to switch to.")


def test_silence_is_refused_for_want_of_exposure(harmed: RunDirectory) -> None:
    verdict = verdict_on(harmed, "none")
    assert verdict.status == FAIL
    assert "without exposure: a judged memory is injected at 0 of" in verdict.lines[0].reason
    # Without the rule's condition, silence harms nobody.
    assert verdict_on(harmed, "none", replace(EQUAL, exposure=None, margin=0.5)).status != FAIL


def test_silence_in_a_quarter_of_the_conversations_is_refused(harmed: RunDirectory) -> None:
    """A mean hides who has no memory any more."""
    reason = verdict_on(harmed, "deaf").lines[0].reason
    assert verdict_on(harmed, "deaf").status == FAIL
    assert f"in {len(DEAF)} of {len(harmed.conversations)} conversations" in reason


def test_the_control_is_left_out_where_it_is_the_candidate(harmed: RunDirectory) -> None:
    policy = read_policy("rollout").of_pair("hybrid", None, harmed.arms)
    assert policy.control is None
    assert {line.against for line in judge(policy, harmed).lines} == {None}
