"""What the data cannot measure: named once, no error, and no way to pass unless the policy accepts it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace

import pytest

from lab.compare.paired import Pairs
from lab.gate.action import action_of, why
from lab.gate.evidence import NO_GOLD, SAFETY, Evidence
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line, deciding
from lab.gate.measures import judge_compared
from lab.gate.outputs import by_reason, gravest_first, headline, write_verdict
from lab.gate.policy import Policy, Rule, read_policy
from lab.gate.shipped import SHIPPED
from lab.gate.verdict import Verdict, judge, overall
from lab.report.build import build_report
from lab.report.message import message_at
from lab.runs.directory import RunDirectory
from tests.gate.paired import pairs

POLICY = Policy("mine", "what it means", "old", "new", 8, ())
ACCEPTING = replace(POLICY, unmeasured="accept")
GUARD = Rule("guard", "Success@6", margin=0.02, without_data="inconclusive")
STALE = replace(GUARD, measure="StaleRecall", direction="lower")
RULES = (GUARD, STALE, replace(STALE, measure="HardRules"))


def verdict_of(policy: Policy, rules: tuple[Rule, ...], *found: Pairs) -> Verdict:
    values = {one.measure: one.candidate for one in found}
    data = Evidence(values, {one.measure: one for one in found}, {}, valued=frozenset(values))
    lines = tuple(judge_compared(policy, rules, data))
    return Verdict(policy.name, policy.about, "run", "old", "new", overall(lines), lines)


def test_what_the_data_cannot_measure_is_no_pass_and_no_error() -> None:
    verdict = verdict_of(POLICY, RULES, pairs(0.1, 0.001))
    assert (verdict.status, verdict.exit_code) == (INCONCLUSIVE, 3)
    assert headline(verdict) == (
        "INCONCLUSIVE (pass on what was measured): mine, new against old; not measurable here: StaleRecall, HardRules"
    )
    assert why(verdict) == (
        "the only critical rule that was measured holds: shown to be no worse in Success@6; not measurable here: "
        "StaleRecall, HardRules"
    )
    assert 'unmeasured = "accept"' in action_of(verdict).sentence
    stale = next(line for line in verdict.lines if line.measure == "StaleRecall")
    assert (stale.word, stale.unmeasured) == ("unmeasurable", True)
    # Named once with what it would take, whatever it is compared with.
    twice = [*verdict.lines, replace(stale, against="hybrid")]
    status, said = next(iter(by_reason(gravest_first(twice))))
    assert status == "not measurable here"
    assert said == (
        "StaleRecall: no memory is superseded. What would settle it: record what replaced a memory (field "
        "`supersedes`)."
    )


def test_policy_may_accept_what_the_data_cannot_measure() -> None:
    verdict = verdict_of(ACCEPTING, RULES, pairs(0.1, 0.001))
    assert (verdict.status, verdict.exit_code) == (PASS, 0)
    assert headline(verdict) == (
        "PASS on what was measured: mine, new against old; not measurable here: StaleRecall, HardRules"
    )
    assert [line.status for line in verdict.lines] == [PASS, SKIPPED, SKIPPED]
    assert verdict.lines[1].reason.endswith("record what replaced a memory (field `supersedes`)")
    # A rule whose lack is an error by default is accepted as well.
    strict = tuple(replace(rule, without_data="error") for rule in RULES)
    assert verdict_of(ACCEPTING, strict, pairs(0.1, 0.001)).status == PASS
    assert verdict_of(POLICY, strict, pairs(0.1, 0.001)).status == ERROR
    # What is measured decides as ever.
    assert verdict_of(ACCEPTING, RULES, pairs(-0.2, 0.001)).status == FAIL
    assert verdict_of(ACCEPTING, RULES, pairs(0.0, 0.1)).status == INCONCLUSIVE
    assert headline(verdict_of(ACCEPTING, RULES, pairs(0.0, 0.1))).startswith("INCONCLUSIVE: ")


def test_having_no_labels_at_all_is_no_way_to_pass() -> None:
    """Nothing was compared: neither a guard that is advisory nor a limit stands in for it."""
    limit = Rule("limit", "Future", at_most=0)
    advisory = replace(GUARD, critical=False)
    data = Evidence({"Future": [0.0]}, {"Success@6": pairs(0.1, 0.001)}, {}, valued=frozenset({"Future", "Success@6"}))
    lines = list(judge_compared(ACCEPTING, [limit, advisory, STALE], data))
    assert [line.status for line in lines] == [PASS, PASS, INCONCLUSIVE]
    assert overall(lines) == INCONCLUSIVE


@pytest.mark.parametrize("measure", SAFETY)
def test_safety_is_never_accepted_as_unmeasured(measure: str) -> None:
    for without_data, status in (("inconclusive", INCONCLUSIVE), ("error", ERROR)):
        limit = Rule("limit", measure, at_most=0, without_data=without_data)
        (_, line) = verdict_of(ACCEPTING, (GUARD, limit), pairs(0.1, 0.001)).lines
        assert (line.status, line.critical, line.unmeasured) == (status, True, False)


def test_labels_are_asked_for_only_once_a_memory_is_relevant() -> None:
    rule = Rule("improve", "GoldNice@6", by=0.0)
    data = Evidence({}, {}, {}, valued=frozenset({"Success@1"}))
    assert data.why_nothing(rule).why == "no relevant memory is labelled nice_to_have"
    assert replace(data, valued=frozenset()).why_nothing(rule) == NO_GOLD


def test_failure_of_an_arm_is_not_what_the_data_lacks() -> None:
    repeats = Rule("guard", "RepeatRate", margin=0.02, direction="lower")
    found = pairs(0.1, 0.001)
    base = Evidence({"Success@6": found.candidate}, {"Success@6": found}, {}, turns=2)

    def status(data: Evidence, rule: Rule = repeats) -> str:
        return list(judge_compared(ACCEPTING, [GUARD, rule], data))[1].status

    # The candidate has no value where the old policy has one.
    assert status(replace(base, valued=frozenset({"RepeatRate"}))) == ERROR
    assert status(replace(base, valued=frozenset({"RepeatRate"}), off={"baseline": "old"})) == ERROR
    # The turns recall, and no arm has a value; or the ranking is too short for the cutoff.
    assert status(base) == ERROR
    short = replace(base, depth=4, valued=frozenset({"R@1"}))
    assert status(short, replace(GUARD, measure="R@6", without_data="error")) == ERROR
    # No opportunity: no turn recalls, one does, or the host does not run what the candidate is compared with.
    for turns in (0, 1):
        assert status(replace(base, turns=turns)) == SKIPPED
    mine = replace(base, candidate={**base.candidate, "RepeatRate": [0.1]}, valued=frozenset({"RepeatRate"}))
    assert status(replace(mine, off={"baseline": "old"})) == SKIPPED
    assert status(replace(mine, off={"control": "old"})) == ERROR


def test_first_rollout_policy_stays_as_it_was() -> None:
    """Verdicts that cite it can be made again: the file, its digest, and what a lack means in it."""
    name = "rollout-2026-11"
    data = (SHIPPED / f"{name}.toml").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "d0cf392515847955d7ce885698104710effbf0c82964111ff9e702af29624745"
    policy = read_policy(name)
    assert policy.key == "82bf519640279b5583aa77927a3aa1fae93ff394abb683ce3f5ab8f647cc23d1"
    assert replace(policy, unmeasured="accept").key != policy.key
    assert {rule.without_data for rule in policy.rules if rule.measure == "RepeatRate"} == {"error"}


def test_shipped_rollout_accepts_nothing_unmeasured_and_keeps_safety_critical() -> None:
    policy = read_policy("rollout")
    assert policy.unmeasured is None
    safety = [rule for rule in policy.rules if rule.measure in SAFETY]
    assert {rule.measure for rule in safety} == {"WrongScope", "Unescaped", "Duplicates", "Future"}
    assert {(rule.critical, rule.without_data) for rule in safety} == {(True, "inconclusive")}


def test_error_without_a_remedy_names_no_command() -> None:
    """The command that gave the verdict would give it again."""
    lines = (Line("guard", "RepeatRate", ERROR, True, "RepeatRate: one of the arms has no value"),)
    verdict = Verdict("rollout", "", "run", "old", "new", ERROR, lines)
    assert action_of(verdict).command is None
    assert (
        action_of(replace(verdict, status=INCONCLUSIVE, lines=(replace(lines[0], status=INCONCLUSIVE),))).command
        is None
    )


def test_numbers_of_rules_in_sentences_are_those_of_the_lines(three: RunDirectory) -> None:
    """The page, the message and verdict.json agree on a run with several causes, and several lines for a rule."""
    verdict = judge(read_policy("rollout"), three)
    write_verdict(verdict, three.path)
    written = json.loads((three.path / "verdict.json").read_text("utf-8"))["lines"]
    critical = [line for line in written if line["critical"] and line["status"] != SKIPPED]
    open_lines = [line for line in critical if line["status"] == INCONCLUSIVE]
    assert 1 < len(open_lines) < len(critical)
    said = f"{len(open_lines)} of {len(critical)} critical rules are open"
    page = build_report(three, *three.arms[:2])[0].read_text("utf-8")
    assert said in page
    assert said in message_at(three.path).sentence
    assert len(deciding(verdict.lines, INCONCLUSIVE)) == len(open_lines)
    # No page says another number of open rules.
    assert set(re.findall(r"(\d+) of \d+ critical rules? (?:is|are) open", page)) == {str(len(open_lines))}
