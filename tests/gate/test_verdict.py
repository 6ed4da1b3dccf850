"""Verdicts: intervals against margins, and no pass without evidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import UnusableInput
from lab.compare.paired import Pairs
from lab.gate.evidence import NO_GOLD, Evidence, evidence
from lab.gate.keys import RULES
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.measures import judge_compared
from lab.gate.policy import Policy, Rule, read_policy
from lab.gate.verdict import JUDGED, judge, overall
from lab.golden.model import Aside
from lab.runs.directory import RunDirectory
from lab.runs.scores import read_gold
from tests.gate.paired import pairs

POLICY = Policy("mine", "what it means", "old", "new", 4, ())
GUARD = Rule("guard", "Success@6", margin=0.02)


def judged(rule: Rule, found: Pairs | None, policy: Policy = POLICY) -> Line:
    values = {} if found is None else {rule.measure: found.candidate}
    (line,) = judge_compared(policy, [rule], Evidence(values, {} if found is None else {rule.measure: found}, {}))
    return line


IMPROVE = Rule("improve", "Success@6", by=0.05)
LIMIT = Rule("limit", "Success@6")


@pytest.mark.parametrize(
    ("rule", "found", "status"),
    [
        (GUARD, pairs(0.0, 0.001), PASS),
        (GUARD, pairs(-0.015, 0.0001), PASS),
        (GUARD, pairs(-0.1, 0.001), FAIL),
        (GUARD, pairs(0.0, 0.1), INCONCLUSIVE),
        (GUARD, pairs(0.5, 0.001, conversations=3), INCONCLUSIVE),
        (replace(GUARD, margin=0.0), pairs(0.0, 0.0), PASS),
        (replace(GUARD, direction="lower"), pairs(0.1, 0.001), FAIL),
        (replace(GUARD, direction="lower"), pairs(-0.1, 0.001), PASS),
        (IMPROVE, pairs(0.1, 0.001), PASS),
        (IMPROVE, pairs(0.01, 0.001), FAIL),
        (IMPROVE, pairs(0.05, 0.01), INCONCLUSIVE),
        # Four equal conversations: the interval is a point, and the smallest p of a sign-flip test is 1/16.
        (IMPROVE, pairs(0.1, 0.0, conversations=4), INCONCLUSIVE),
        (GUARD, pairs(-0.1, 0.0, conversations=4), INCONCLUSIVE),
        # Two equal arms need no interval; below six conversations there is none for others.
        (GUARD, pairs(0.0, 0.0, conversations=4), PASS),
        (GUARD, pairs(0.1, 0.0, conversations=5), INCONCLUSIVE),
        (replace(GUARD, critical=False), pairs(-0.1, 0.0, conversations=6), FAIL),
        (replace(LIMIT, at_most=0.6), pairs(0.05, 0.3), PASS),
        (replace(LIMIT, at_most=0.5), pairs(0.05, 0.3, conversations=2), FAIL),
        (replace(LIMIT, at_least=0.6), pairs(0.05, 0.3, conversations=2), FAIL),
        (GUARD, None, ERROR),
        (LIMIT, None, ERROR),
        (replace(GUARD, without_data="skip"), None, SKIPPED),
    ],
)
def test_rule_status_follows_its_interval(rule: Rule, found: Pairs | None, status: str) -> None:
    line = judged(rule, found)
    assert line.status == status, line.reason
    assert line.reason.startswith("Success@6: ")
    assert bool(line.settles) == (status == INCONCLUSIVE)
    # Every interval has a confidence.
    assert (line.confidence is None) == (line.low is None)


def test_line_confidence_follows_the_policy_level() -> None:
    for level, confidence in ((0.05, 0.9), (0.025, 0.95)):
        line = judged(GUARD, pairs(0.0, 0.05), replace(POLICY, level=level))
        assert line.confidence == pytest.approx(confidence)
        assert f"({100 * confidence:g} % interval {line.low:+.3f} to {line.high:+.3f}" in line.reason


def test_improve_with_few_conversations_says_how_many_are_needed() -> None:
    """The interval shows the improvement, but the smallest p of six conversations is 1/64."""
    strict = replace(POLICY, minimum_conversations=2, level=0.01)
    line = judged(IMPROVE, pairs(0.1, 0.0001, 3), strict)
    assert (line.status, line.settles, line.low) == (INCONCLUSIVE, "3 more conversations", None)
    assert "3 conversations; an interval needs 6" in line.reason
    line = judged(IMPROVE, pairs(0.1, 0.0001, 6), strict)
    assert (line.status, line.settles) == (
        INCONCLUSIVE,
        "about 1 more conversation like these, if the observed difference is true (80 % power)",
    )
    assert judged(IMPROVE, pairs(0.1, 0.0001, 7), strict).status == PASS
    # Holm's correction needs more conversations for two rules.
    other = replace(IMPROVE, measure="R@6")
    both = {name: pairs(0.1, 0.0001, 7, name) for name in ("Success@6", "R@6")}
    for one in judge_compared(strict, [IMPROVE, other], Evidence({}, both, {})):
        assert (one.status, str(one.settles)[:12]) == (INCONCLUSIVE, "about 1 more")


def test_settles_states_the_conversations_needed() -> None:
    line = judged(GUARD, pairs(0.0, 0.05))
    assert line.status == INCONCLUSIVE
    more = int(str(line.settles).split()[1])
    # The stated number of conversations narrows the interval enough, with power to spare; a third of it does not.
    assert judged(GUARD, pairs(0.0, 0.05 / np.sqrt((8 + more) / 8))).status == PASS
    assert judged(GUARD, pairs(0.0, 0.05 / np.sqrt((8 + more / 3) / 8))).status == INCONCLUSIVE


def test_guard_fail_needs_interval_and_corrected_sign_flip() -> None:
    strict = replace(POLICY, fail_level=0.001)
    # 2 ** -8 exceeds .001, whatever the interval; ten conversations suffice for one guard but not for two.
    line = judged(GUARD, pairs(-0.1, 0.001), strict)
    assert (line.status, "not significant at the fail level, 0.001" in line.reason) == (INCONCLUSIVE, True)
    assert line.settles == "about 2 more conversations like these, if the observed difference is true (80 % power)"
    assert judged(GUARD, pairs(-0.1, 0.001, 10), strict).status == FAIL
    other = replace(GUARD, measure="R@6")
    both = {"Success@6": pairs(-0.1, 0.001, 10), "R@6": pairs(0.0, 0.001, 10, "R@6")}
    first, second = judge_compared(strict, [GUARD, other], Evidence({}, both, {}))
    assert (first.status, second.status) == (INCONCLUSIVE, PASS)


def test_guard_rarely_fails_under_random_swaps() -> None:
    draw = np.random.default_rng(0)
    statuses = []
    for _ in range(200):
        found = pairs(0.0, 0.0, 12)
        for number in range(12):
            change = 0.3 * draw.choice([-1.0, 1.0]) + 0.05 * draw.standard_normal(5)
            found.candidate[5 * number : 5 * number + 5] = (0.5 + change).tolist()
        statuses.append(judged(GUARD, found, replace(POLICY, fail_level=0.001)).status)
    assert FAIL not in statuses


def test_slices_are_advisory() -> None:
    rule = replace(GUARD, slices=("type",))
    found = pairs(0.0, 0.001)
    # One type in every conversation, and one in only three.
    types = {at: "rule" if at.endswith("/0") else "fact" for at in found.at if not at.endswith("/1")}
    types |= dict.fromkeys(("0/1", "1/1", "2/1"), "rare")
    slices = {at: {"type": one} for at, one in types.items()}
    whole, *parts = judge_compared(POLICY, [rule], Evidence({}, {"Success@6": found}, slices))
    assert (whole.slice, whole.critical, whole.n) == (None, True, 40)
    assert [(one.name, one.critical, one.n) for one in parts] == [
        ("guard Success@6 [type=fact]", False, 24),
        ("guard Success@6 [type=rule]", False, 8),
    ]
    assert all(one.reason.endswith("(exploratory)") for one in parts)
    # A slice that the run does not have is reported and skipped.
    absent = replace(rule, slices=("tpye",))
    whole, skipped = judge_compared(POLICY, [absent], Evidence({}, {"Success@6": found}, slices))
    assert (whole.status, skipped.status, skipped.name) == (PASS, SKIPPED, "guard Success@6 [tpye]")
    assert skipped.reason.endswith("slices: 'tpye' has 0 values, not 1 to 20; slices: type")


@pytest.mark.parametrize("states", list(itertools.product((PASS, INCONCLUSIVE, FAIL, ERROR), repeat=2)))
def test_overall_is_the_most_severe_critical_status(states: tuple[str, str]) -> None:
    lines = [Line("guard", "R@6", state, True, "why") for state in states]
    advisory = Line("guard", "R@6", ERROR, False, "why")
    order = [PASS, INCONCLUSIVE, FAIL, ERROR]
    assert overall([*lines, advisory]) == max(states, key=order.index)
    assert overall([*lines, replace(advisory, status=SKIPPED, critical=True)]) == max(states, key=order.index)
    assert overall([advisory]) == overall([]) == ERROR


PolicyOf = Callable[[str], Policy]


@pytest.fixture
def policy_of(tmp_path: Path) -> PolicyOf:
    def make(rules: str) -> Policy:
        path = tmp_path / "mine.toml"
        path.write_text(f'name = "mine"\nabout = "what it means"\n{rules}')
        return read_policy(str(path))

    return make


RECEIPTS = '[[receipts]]\nmeasure = "errors.rate"\nat_most = 0.1\n'
OF_A_RUN = '[[limit]]\nmeasure = "WrongScope"\nat_most = 0\n'
EXACT = '[[exact]]\nchanged = "fail"\n'


def test_judge_rule_without_input_is_error_or_skipped(
    policy_of: PolicyOf, run: RunDirectory, audit: dict[str, Any]
) -> None:
    def statuses(rules: str, **given: Any) -> list[tuple[str, str]]:
        verdict = judge(policy_of(rules), **given)
        return [(line.kind, line.status) for line in verdict.lines] + [("all", verdict.status)]

    both = RECEIPTS + OF_A_RUN + EXACT
    assert statuses(both, run=run, against=run, audit=audit) == [
        ("limit", PASS), ("receipts", PASS), ("exact", PASS), ("all", PASS)
    ]  # fmt: skip
    assert statuses(both, audit=audit)[::3] == [("limit", ERROR), ("all", ERROR)]
    assert statuses(both, run=run)[1:3] == [("receipts", ERROR), ("exact", ERROR)]
    may = RECEIPTS + "must_have_data = false\n" + OF_A_RUN + EXACT + "must_have_data = false\n"
    assert statuses(may, run=run) == [("limit", PASS), ("receipts", SKIPPED), ("exact", SKIPPED), ("all", PASS)]
    for rules, given, needs in ((RECEIPTS, {"run": run}, "AUDIT"), (OF_A_RUN, {"audit": audit}, "DIR")):
        with pytest.raises(UnusableInput, match=f"the input of every rule is missing; it needs {needs}"):
            judge(policy_of(rules), **given)
    with pytest.raises(UnusableInput, match="but none to judge; add DIR"):
        judge(policy_of(both), against=run, audit=audit)


def test_only_where_skips_other_runs(policy_of: PolicyOf, run: RunDirectory) -> None:
    where = OF_A_RUN + 'only_where = {{ scope = "{}" }}\n'
    asked = judge(policy_of(where.format("recorded")), run)
    assert (asked.status, asked.lines[0].n) == (PASS, asked.lines[0].n or 0)
    skipped = judge(policy_of(where.format("tags") + RECEIPTS + "must_have_data = false\n"), run)
    # If no rule applies, nothing was measured.
    assert (skipped.status, skipped.lines[0].status) == (ERROR, SKIPPED)
    assert "applies only if scope is 'tags'; here it is 'recorded'" in skipped.lines[0].reason
    with pytest.raises(UnusableInput, match="only_where: a run has no 'scopes'; it has: "):
        judge(policy_of(where.format("x").replace("scope =", "scopes =")), run)
    # Rules may also depend on the candidate's configuration.
    knob = OF_A_RUN + 'only_where = {{ "arm.config.{}" = {} }}\n'
    assert judge(policy_of(knob.format("scopePolicy.fallbackScopes", "[]")), run).status == PASS
    (other,) = judge(policy_of(knob.format("scopePolicy.fallbackScopes", '["global"]')), run).lines
    assert (other.status, other.reason.endswith("is ['global']; here it is []")) == (SKIPPED, True)
    with pytest.raises(
        UnusableInput, match=r"only_where: arm \w+ has no .arm\.config\.budget\.maxWords.; it has: .*maxChars"
    ):
        judge(policy_of(knob.format("budget.maxWords", "1")), run)


def test_condition_that_no_run_can_meet_is_refused_before_judging(
    policy_of: PolicyOf, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.gate.verdict.evidence", None)
    last = OF_A_RUN + OF_A_RUN.replace("WrongScope", "Future") + "only_where = {{ {} }}\n"
    for condition, said in (
        ('scope = "recoded"', "only_where: scope: unknown value 'recoded'; did you mean 'recorded'?"),
        ('scope = ["recorded"]', "only_where: scope: is a string, such as 'recorded', and never"),
        ('"arm.config.autoRecall.maxItems" = "6"', "is a number, such as 6, and never '6'"),
        ('"arm.config.autoRecall.selectionMode" = "tier_quota"', "did you mean 'tier_quota_v1'?"),
    ):
        with pytest.raises(UnusableInput) as refused:
            judge(policy_of(last.format(condition)), run)
        assert said in str(refused.value), condition


def test_slice_that_is_mistyped_is_refused_before_scoring(
    policy_of: PolicyOf, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = read_gold(run)
    value = next(iter(known.values())).slices["type"]
    rule = '[[slice]]\nmeasure = "Success@6"\nmargin = 0.5\nof = "{}"\nvalues = ["{}", "nothing like it"]\n'
    lines = judge(policy_of(rule.format("type", value)), run).lines
    missing = [line for line in lines if line.slice == "type=nothing like it"]
    assert [(line.status, line.critical) for line in missing] == [(SKIPPED, False)]
    assert "no probe has the value 'nothing like it' of 'type'" in missing[0].reason
    monkeypatch.setattr("lab.gate.evidence.score_run", None)
    for of, mistyped, said in (
        ("type", f"{value}s", f"values: no probe has '{value}s'; did you mean '{value}'? probes have: "),
        ("typo", value, "of: no probe has 'typo'; did you mean 'type'? probes have: "),
    ):
        with pytest.raises(UnusableInput) as refused:
            judge(policy_of(rule.format(of, mistyped)), run)
        assert said in str(refused.value)


def test_turns_that_are_not_judged_yet_are_named(
    policy_of: PolicyOf, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = [*read_gold(run)]
    waiting = ("a/s1/t1", judged[0], "b/s1/t1", "b/s1/t2", "b/s1/t3")
    monkeypatch.setattr("lab.gate.verdict.aside", lambda _: Aside({}, {}, waiting))
    note = judge(policy_of(OF_A_RUN), run).embedder[-1]
    assert note.startswith(
        f"4 of {len(judged) + 4} turns to judge are not judged yet: a/s1/t1, b/s1/t1, b/s1/t2 and 1 more; "
    )


@pytest.mark.parametrize("kind", ["guard", "limit"])
def test_rule_beyond_the_cutoff_names_the_largest_one(policy_of: PolicyOf, run: RunDirectory, kind: str) -> None:
    bound = {"guard": "margin = 0.1", "limit": "at_least = 0"}[kind]
    (line,) = judge(policy_of(f'[[{kind}]]\nmeasure = "R@50"\n{bound}\n'), run).lines
    reason = "R@50: the arm returns at most 6 items, so there is no value at 50; use @6 in mine.toml"
    assert (line.status, line.reason) == (ERROR, reason)


def test_cause_of_a_missing_value_is_found_in_a_run(policy_of: PolicyOf, run: RunDirectory) -> None:
    """What the rules themselves do not read still says why they have no value."""
    policy = policy_of('[[guard]]\nmeasure = "P(rel=2)@50"\nmargin = 0.1\n')
    found = evidence(policy, policy.rules, run)
    assert (found.depth, found.why_nothing(policy.rules[0]).remedy) == (6, "use @6 in mine.toml")
    assert found.turns > 1
    # Where nothing is judged, no cutoff helps.
    assert replace(found, valued=frozenset({"RepeatRate"})).why_nothing(policy.rules[0]) == NO_GOLD
    # A shipped policy is changed in a copy, whichever pair it is asked about.
    rollout = read_policy("rollout").of_pair("tier_first_v1", "tier_quota_v1", run.arms)
    assert (
        evidence(rollout, rollout.rules, run).policy == "a copy of policy rollout (`lab gate policies --show rollout`)"
    )


def test_rules_of_every_kind_are_judged() -> None:
    """A kind that a policy may have and that nothing judges would leave its rules out of the verdict in silence."""
    assert sorted(itertools.chain(*JUDGED)) == sorted(RULES)
