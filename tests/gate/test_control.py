"""Rules against the control, worth rules, slices and families: what a policy says about a second arm and subgroups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.compare.paired import Pairs
from lab.gate.evidence import Evidence
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.measures import judge_compared
from lab.gate.outputs import headline
from lab.gate.policy import Control, Policy, Rule, read_policy
from lab.gate.verdict import answer_of, judge, overall
from lab.runs.directory import RunDirectory
from tests.gate.paired import pairs

TIERS = Control("hybrid", "tiers are worth having", "tiers are not worth having")
POLICY = Policy("mine", "what it means", "old", "new", 8, (), control=TIERS)
WORTH = Rule("worth", "Success@6", by=0.02, against="control", family="worth")
GUARD = Rule("guard", "Success@6", margin=0.05, against="control", family="control")
SLICE = Rule("slice", "Success@6", margin=0.1, of="type", family="slices")


def judged(rules: list[Rule], control: Pairs | None, policy: Policy = POLICY) -> list[Line]:
    held = {} if control is None else {control.measure: control}
    return list(judge_compared(policy, rules, Evidence({}, {}, {}, control=held)))


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        (pairs(0.1, 0.001), PASS, "tiers are worth having: better than hybrid in Success@6 (0.600 against 0.500)"),
        (pairs(0.0, 0.0001), FAIL, "tiers are not worth having: hybrid does as well in Success@6"),
        (pairs(-0.2, 0.001), FAIL, "tiers are not worth having: worse than hybrid in Success@6"),
        (pairs(0.0, 0.1), INCONCLUSIVE, "it is not shown that tiers are worth having: not shown to be better than hyb"),
        (
            pairs(0.3, 0.001, 5),
            INCONCLUSIVE,
            "it is not shown that tiers are worth having: 5 conversations are too few",
        ),
    ],
)
def test_answer_follows_worth_rules_and_guards(found: Pairs, status: str, said: str) -> None:
    lines = judged([WORTH, GUARD], found)
    answer = answer_of(POLICY, lines)
    assert answer is not None
    assert (answer.arm, answer.status) == ("hybrid", status)
    assert answer.sentence.startswith(said)
    # The answer stands beside the verdict: a worth rule decides nothing, a guard against the control does.
    assert [line.critical for line in lines] == [False, True]
    assert overall(lines) == {PASS: PASS, FAIL: lines[1].status, INCONCLUSIVE: INCONCLUSIVE}[status]


def test_answer_mixed_is_not_shown() -> None:
    better = Rule("worth", "R@6", by=0.02, against="control", family="worth")
    data = Evidence({}, {}, {}, control={"R@6": pairs(0.2, 0.001, measure="R@6"), "Success@6": pairs(-0.2, 0.001)})
    answer = answer_of(POLICY, list(judge_compared(POLICY, [better, WORTH, GUARD], data)))
    assert answer is not None
    assert answer.status == INCONCLUSIVE
    assert "better than hybrid in R@6" in answer.sentence
    assert "but worse in Success@6" in answer.sentence


def test_answer_needs_a_control_and_a_worth_rule() -> None:
    assert answer_of(POLICY, judged([GUARD], pairs(0.0, 0.001))) is None
    assert answer_of(replace(POLICY, control=None), judged([WORTH], pairs(0.1, 0.001))) is None


def test_families_are_corrected_apart() -> None:
    """Forty rules on other measures must not dilute a family of harms."""
    harm = Rule("guard", "Forbidden@6", margin=0.02, direction="lower", family="harms")
    names = [f"P@{k}" for k in range(1, 41)]
    others = [Rule("guard", name, margin=0.02) for name in names]
    found = {name: pairs(0.0, 0.001, 8, name) for name in names} | {"Forbidden@6": pairs(0.2, 0.001, 8, "Forbidden@6")}
    data = Evidence({}, found, {})
    assert next(judge_compared(POLICY, [harm, *others], data)).status == FAIL
    # In one family of 41, the smallest p of eight conversations, 1/256, is no longer significant.
    together = next(judge_compared(POLICY, [replace(harm, family="rules"), *others], data))
    assert together.status == INCONCLUSIVE
    assert "corrected over 41 rules" in together.reason
    # A rule alone in its family, of too few conversations to fail.
    few = replace(data, pairs={"Forbidden@6": pairs(0.2, 0.001, 6, "Forbidden@6")})
    alone = next(judge_compared(replace(POLICY, minimum_conversations=6, fail_level=0.001), [harm], few))
    assert "corrected over 1 rule, is not significant" in alone.reason


def test_slice_fails_if_worse_and_decides_nothing_otherwise() -> None:
    found = pairs(0.0, 0.001)
    for row, at in enumerate(found.at):
        if at.endswith("/0"):
            found.candidate[row] = 0.1
    kinds = ("rule", "fact", "rare")
    slices = {at: {"type": kinds[0 if at.endswith("/0") else 1]} for at in found.at}
    slices |= {at: {"type": "rare"} for at in found.at if at in ("0/1", "1/1", "2/1")}
    lines = {line.slice: line for line in judge_compared(POLICY, [SLICE], Evidence({}, {"Success@6": found}, slices))}
    assert {name: (line.status, line.critical) for name, line in lines.items()} == {
        "type=rule": (FAIL, True),
        "type=fact": (PASS, False),
        "type=rare": (INCONCLUSIVE, False),
    }
    assert lines["type=rule"].reason.startswith("Success@6 [type=rule]: 0.100 against 0.500")
    assert "3 conversations; the policy requires at least 8" in lines["type=rare"].reason
    # The values that the policy names are the family; others are not judged.
    (only,) = judge_compared(POLICY, [replace(SLICE, values=("fact",))], Evidence({}, {"Success@6": found}, slices))
    assert only.slice == "type=fact"
    assert overall([*lines.values()]) == FAIL


def test_slice_family_is_holm_corrected() -> None:
    """One of many values with a small p fails alone, and not among the others."""
    found = pairs(0.0, 0.0, 8)
    for row, at in enumerate(found.at):
        if at.endswith("/0"):
            found.candidate[row] = 0.2
    slices = {at: {"type": at.rpartition("/")[2]} for at in found.at}
    data = Evidence({}, {"Success@6": found}, slices)
    strict = replace(POLICY, fail_level=0.01)
    alone = next(judge_compared(strict, [replace(SLICE, values=("0",))], data))
    among = next(judge_compared(strict, [SLICE], data))
    assert (alone.status, among.status) == (FAIL, INCONCLUSIVE)


def test_absent_slice_is_skipped_with_the_known_ones() -> None:
    data = Evidence({}, {"Success@6": pairs(0.0, 0.1)}, {"0/0": {"kind": "a"}})
    (line,) = judge_compared(POLICY, [SLICE], data)
    assert (line.status, line.critical) == (SKIPPED, False)
    assert line.reason.endswith("no probe has a value of the slice 'type'; slices: kind")
    # The slice is there, and none of its values that the rule names.
    (line,) = judge_compared(POLICY, [replace(SLICE, of="kind", values=("b", "c"))], data)
    assert (line.status, line.reason[-43:]) == (SKIPPED, "no probe has the value 'b' or 'c' of 'kind'")


@pytest.mark.parametrize(
    ("measure", "option", "cause"),
    [
        ("HardRules", "`lab replay --hard-rules N`", "not measurable here"),
        ("FalseRecall", "needs_nothing", "not measurable here"),
        ("Forbidden@6", "lab golden judge", "not measurable here"),
        ("WrongScope", "--scope recorded", "there is nothing to measure"),
        ("BackboneDuplication", "workingSet.enabled", "there is nothing to measure"),
    ],
)
def test_missing_data_can_be_inconclusive_and_names_the_option(measure: str, option: str, cause: str) -> None:
    rule = Rule("guard", measure, margin=0.02, direction="lower", without_data="inconclusive")
    (line,) = judge_compared(POLICY, [rule], Evidence({}, {}, {}))
    assert (line.status, line.critical) == (INCONCLUSIVE, True)
    assert option in str(line.settles)
    # The cause is in the reason, not among what would settle it.
    assert line.reason.startswith(f"{measure}: {cause}: ")
    assert not {"no", "not"} & set(str(line.settles).split())
    statuses = [
        next(judge_compared(POLICY, [replace(rule, without_data=other)], Evidence({}, {}, {}))).status
        for other in ("error", "skip")
    ]
    assert statuses == [ERROR, SKIPPED]


def test_rollout_says_first_whether_tiers_are_worth_having(three: RunDirectory) -> None:
    verdict = judge(read_policy("rollout"), three)
    assert verdict.control is not None
    assert f"; {verdict.control.sentence}" in headline(verdict)
    assert "tiers are " in verdict.control.sentence
    assert verdict.judged is not None
    assert set(verdict.judged["shares"]) == {"tier_first_v1", "tier_quota_v1", "hybrid"}
    critical = {line.name for line in verdict.lines if line.critical}
    assert critical >= {"guard NetBenefit@6", "guard HardRules", "guard FalseRecall"}
    assert critical >= {f"guard {name} against hybrid" for name in ("Forbidden@6", "CleanHit@6", "StaleRecall")}
    # What rises with how much is recalled is said, and decides nothing against an arm that recalls less.
    said = {line.name: line.critical for line in verdict.lines}
    assert not said["guard Forbidden@6 (advisory)"]
    assert not said["guard StaleRecall (advisory)"]
    assert "guard Success@6 against hybrid" in critical
    # No hard rule was sampled: none can be lost, and the line says which option samples some.
    hard = next(line for line in verdict.lines if line.name == "guard HardRules")
    assert (hard.status, "--hard-rules N" in hard.reason) == (SKIPPED, True)


def test_missing_control_names_the_command(run: RunDirectory) -> None:
    with pytest.raises(UnusableInput) as caught:
        judge(read_policy("rollout"), run)
    said = str(caught.value)
    assert "has no arm 'hybrid'; it has: tier_first_v1, tier_quota_v1. A run with it: lab replay " in said
    assert "--arm tier_first_v1 --arm tier_quota_v1 --arm hybrid" in said
    assert said.endswith(f"--out {run.path}-hybrid")


def test_control_of_another_run_is_recorded(three: RunDirectory, run: RunDirectory) -> None:
    control = replace(TIERS, arm=f"{three.path}:hybrid")
    rules = (replace(GUARD, measure="RepeatRate", direction="lower"),)
    verdict = judge(Policy("mine", "what it means", *run.arms, 6, rules, control=control), run)
    assert verdict.lines[0].against == control.arm
    assert verdict.evidence is not None
    assert verdict.evidence.others == {str(three.path): three.content}


OLD = """
name = "old"
about = "A policy as it was written before there was a control."
minimum_conversations = 8
[comparison]
baseline = "tier_first_v1"
candidate = "tier_quota_v1"
[[guard]]
measure = "RepeatRate"
margin = 0.02
must_have_data = true
[[improve]]
measure = "GoldNice@6"
[[limit]]
measure = "Forbidden@6"
at_most = 0.25
must_have_data = false
critical = false
"""


def test_older_policies_mean_what_they_meant(tmp_path: Path, run: RunDirectory) -> None:
    (tmp_path / "old.toml").write_text(OLD)
    policy = read_policy(str(tmp_path / "old.toml"))
    assert policy.control is None
    assert [rule.without_data for rule in policy.rules] == ["error", "error", "skip"]
    assert {(rule.against, rule.family) for rule in policy.rules} == {("baseline", "rules")}
    verdict = judge(policy, run)
    assert verdict.control is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("must_have_data = true\nwithout_data = 'skip'\n", "must_have_data and without_data say the same"),
        ("against = 'control'\n", "guard RepeatRate: there is no [control] to compare with; add one"),
        ("against = 'hybrid'\n", "guard 1: against: expected 'baseline' or 'control', found 'hybrid'"),
        ("without_data = 'pass'\n", "guard 1: without_data: expected 'error' or 'skip' or 'inconclusive'"),
        ("[control]\narm = 'hybrid'\n", "control: needs claim: "),
        ("[control]\nbaseline = 'hybrid'\n", "control: unknown key 'baseline'"),
        ("[[slice]]\nmeasure = 'R@6'\nmargin = 0.1\n", "slice 1: needs of: the slice of the golden set"),
        ("[[worth]]\nmeasure = 'R@6'\ncritical = true\n", "worth 1: unknown key 'critical'"),
    ],
)
def test_read_policy_refuses_what_contradicts_itself(tmp_path: Path, text: str, said: str) -> None:
    guard = 'name = "x"\nabout = "y"\n[[guard]]\nmeasure = "RepeatRate"\nmargin = 0.1\n'
    (tmp_path / "bad.toml").write_text(guard + text)
    with pytest.raises(UnusableInput) as caught:
        read_policy(str(tmp_path / "bad.toml"))
    assert said in str(caught.value)
