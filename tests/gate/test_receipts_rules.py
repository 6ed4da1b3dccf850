"""Receipts rules: shares are judged by exact bounds, other figures directly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.shape import deep_merge
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.outputs import by_reason, gravest_first, rollback
from lab.gate.policy import Policy, Rule, read_policy
from lab.gate.receipts import judge_receipts, read_audit, share_bounds
from lab.gate.verdict import judge
from tests.gate.shares import with_share

POLICY = Policy("mine", "what it means", "old", "new", 6, ())
ERRORS = Rule("receipts", "errors.rate", of="errors.attempts", at_most=0.01)


def with_errors(audit: Mapping[str, Any], failed: int, attempts: int) -> dict[str, Any]:
    errors = {"failed": failed, "attempts": attempts, "rate": failed / attempts if attempts else None}
    return deep_merge(audit, {"errors": errors})


@pytest.fixture
def single(audit: dict[str, Any]) -> dict[str, Any]:
    """The audit without sessions: every figure is judged once, by exact bounds."""
    return {key: value for key, value in audit.items() if key != "sessions"}


def judged(rule: Rule, audit: Mapping[str, Any], policy: Policy = POLICY) -> Line:
    (line,) = judge_receipts(policy, [rule], audit)
    return line


@pytest.mark.parametrize(("part", "whole"), [(0, 1), (0, 300), (1, 300), (5, 40), (40, 40), (39, 40)])
def test_share_bounds_match_the_binomial(part: int, whole: int) -> None:
    from scipy.stats import binom

    low, high = share_bounds(part, whole, 0.05)
    assert 0 <= low <= part / whole <= high <= 1
    # At the bound, the observed or a more extreme count has probability 5 %.
    if part:
        assert binom.sf(part - 1, whole, low) == pytest.approx(0.05)
    if part < whole:
        assert binom.cdf(part, whole, high) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("failed", "attempts", "status"),
    [
        (0, 298, INCONCLUSIVE),
        (0, 299, PASS),
        (1, 300, INCONCLUSIVE),
        (8, 300, FAIL),
        (5, 300, INCONCLUSIVE),
        (9, 1800, PASS),
    ],
)
def test_receipts_share_is_judged_by_its_bound(single: dict[str, Any], failed: int, attempts: int, status: str) -> None:
    line = judged(ERRORS, with_errors(single, failed, attempts))
    assert line.status == status, line.reason
    assert f"{failed} of {attempts} recalls" in line.reason
    assert (line.n, line.limit) == (attempts, "at most 0.01")
    assert bool(line.settles) == (status == INCONCLUSIVE)


@pytest.mark.parametrize(("failed", "attempts"), [(0, 40), (1, 400), (3, 100)])
def test_settles_states_the_recalls_needed(single: dict[str, Any], failed: int, attempts: int) -> None:
    """The stated number of recalls decides the rule if the share holds; a tenth fewer does not."""
    line = judged(ERRORS, with_errors(single, failed, attempts))
    assert line.status == INCONCLUSIVE
    assert str(line.settles).endswith(" more recalls, if the observed share holds")
    enough = attempts + int(str(line.settles).split()[1])
    share = failed / attempts
    for whole, settled in ((enough, True), (int(0.9 * enough), False)):
        low, high = share_bounds(share * whole, whole, 0.05)
        assert (high <= 0.01 or low > 0.01) == settled


def test_rollback_names_the_most_recalls_needed(single: dict[str, Any]) -> None:
    answered = single["recalls"]["answered"]
    policy = replace(POLICY, minimum_receipts=answered + 40, rollback="switch it back")
    some = Rule("receipts", "must.share", at_most=1.0)
    items = Rule("receipts", "lanes.neither_share", of="lanes.items", at_most=0.02)
    few = deep_merge(single, {"lanes": {"items": 2 * answered, "neither_share": 0.0}})
    advisory = replace(ERRORS, at_most=1e-5, critical=False)
    verdict = judge(replace(policy, rules=(some, items, advisory)), audit=few)
    assert (verdict.status, verdict.lines[0].more_recalls, verdict.lines[1].more_recalls) == (INCONCLUSIVE, 40, 40)
    assert (
        rollback(verdict) == "Keep the window open: about 40 more answered recalls. To roll back anyway: switch it back"
    )
    # With two items per recall, half as many recalls are needed as items.
    need = replace(items, at_most=0.001)
    verdict = judge(replace(policy, rules=(some, need, advisory)), audit=few)
    (alone,) = judge_receipts(POLICY, [need], few)
    more = int(str(alone.settles).split()[1])
    assert verdict.lines[1].more_recalls == alone.more_recalls == math.ceil(more / 2) > 40
    assert str(rollback(verdict)).startswith(
        f"Keep the window open: about {math.ceil(more / 2):,} more answered recalls. "
    )
    # Equal reasons are merged; advisory rules are in brackets.
    (said,) = by_reason(gravest_first(verdict.lines))
    why = f"{answered} answered recalls; the policy requires at least {answered + 40}. What would settle it: "
    assert said == (
        "inconclusive",
        f"must.share, lanes.neither_share, (errors.rate): {why}40 more answered recalls.",
    )


def test_receipts_share_at_its_limit_cannot_be_settled(single: dict[str, Any]) -> None:
    line = judged(replace(ERRORS, at_most=0.5), with_errors(single, 50, 100))
    assert line.settles == "no number of recalls if the observed share holds; choose another limit"


def test_receipts_plain_figures_are_compared_with_limits(single: dict[str, Any]) -> None:
    share = single["must"]["share"]
    plain = Rule("receipts", "must.share", at_most=share)
    assert judged(plain, single).status == PASS
    assert judged(replace(plain, at_most=share - 1e-9), single).status == FAIL
    assert judged(replace(plain, at_most=None, at_least=share + 1e-9), single).status == FAIL
    nothing = deep_merge(single, {"must": {"share": None}})
    assert judged(plain, nothing).status == ERROR
    assert judged(replace(plain, without_data="skip"), nothing).status == SKIPPED
    assert judged(replace(ERRORS, without_data="skip"), with_errors(single, 0, 0)).status == SKIPPED


def test_few_receipts_show_only_forbidden_cases(single: dict[str, Any]) -> None:
    answered = single["recalls"]["answered"]
    policy = replace(POLICY, minimum_receipts=answered + 40)
    line = judged(Rule("receipts", "must.share", at_most=0.0001), single, policy)
    assert (line.status, line.settles) == (INCONCLUSIVE, "40 more answered recalls")
    assert judged(replace(ERRORS, at_most=0.5), with_errors(single, 0, 1000), policy).status == INCONCLUSIVE
    assert judged(ERRORS, with_errors(single, 300, 1000), policy).status == FAIL
    never = Rule("receipts", "scope.unexplained", at_most=0.0)
    assert judged(never, single, policy).status == INCONCLUSIVE
    assert judged(never, deep_merge(single, {"scope": {"unexplained": 1}}), policy).status == FAIL
    assert judged(never, single).status == PASS


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule("receipts", "error.rate", at_most=1.0), "has no figure 'error.rate'; similar ones: errors.rate"),
        (Rule("receipts", "nowhere.errors.rate", at_most=1.0), "has no figure 'nowhere.errors.rate'; similar ones: "),
        (Rule("receipts", "errors", at_most=1.0), "has no figure 'errors'; similar ones: "),
        (Rule("receipts", "schema", at_most=1.0), "has no figure 'schema'; similar ones: "),
        (replace(ERRORS, of="errors.atempts"), "receipts errors.rate: of: the audit has no figure 'errors.atempts'"),
        (
            Rule("receipts", "repeat.rate", of="repeat.turns", at_most=0.5),
            "is not a share of 267 repeat.turns; remove `of`",
        ),
    ],
)
def test_receipts_rule_unknown_path_names_similar_ones(single: dict[str, Any], rule: Rule, said: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        judged(rule, single)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("value", "found"),
    [([], "a list"), ({}, "schema None"), ({"schema": "lab.receipts.audit.v9"}, "schema 'lab.receipts.audit.v9'")],
)
def test_read_audit_of_another_file_says_how_to_create_one(tmp_path: Path, value: Any, found: str) -> None:
    (tmp_path / "audit.json").write_text(json.dumps(value))
    with pytest.raises(UnusableInput) as caught:
        read_audit(tmp_path / "audit.json")
    assert str(caught.value) == (
        f"{tmp_path / 'audit.json'}: not an audit of receipts ({found}, not lab.receipts.audit.v1); "
        "create one with `lab canary audit LOG --out FILE`"
    )


def test_read_audit_of_a_log_says_how_to_create_one(tmp_path: Path) -> None:
    log = tmp_path / "good.log"
    log.write_text("2026-03-01T09:00:00Z openclaw-mem-engine:autoRecall.receipt {}\n")
    with pytest.raises(
        UnusableInput, match=rf"good\.log:1: not JSON.*create one with `lab canary audit {log} --out FILE`$"
    ):
        read_audit(log)
    with pytest.raises(UnusableInput, match=r"nowhere\.json: no such file$"):
        read_audit(tmp_path / "nowhere.json")


def test_receipts_rule_unknown_figure_names_the_policy_file(tmp_path: Path, audit: dict[str, Any]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "x"\nabout = "y"\n[[receipts]]\nmeasure = "error.rate"\nat_most = 1\n')
    with pytest.raises(UnusableInput, match=f"^{path}: receipts error.rate: the audit has no figure"):
        judge(read_policy(str(path)), audit=audit)


def test_read_audit_of_an_earlier_version_is_refused(tmp_path: Path, audit: dict[str, Any]) -> None:
    (tmp_path / "audit.json").write_text(json.dumps(audit | {"damage": {"lines": 0, "rate": 0.0}}))
    with pytest.raises(UnusableInput, match=r"no count of lines \(`of`\); audit the logs again with this version"):
        read_audit(tmp_path / "audit.json")


def test_read_audit_without_health_figures_is_refused(tmp_path: Path, audit: dict[str, Any]) -> None:
    (tmp_path / "audit.json").write_text(json.dumps({key: audit[key] for key in audit if key != "stale"}))
    with pytest.raises(UnusableInput, match="written by an earlier version; audit the logs again with this version"):
        read_audit(tmp_path / "audit.json")


def test_read_audit_without_sessions_is_refused(tmp_path: Path, single: dict[str, Any]) -> None:
    (tmp_path / "audit.json").write_text(json.dumps(single))
    with pytest.raises(UnusableInput, match="written by an earlier version; audit the logs again with this version"):
        read_audit(tmp_path / "audit.json")


def test_damage_rule_names_the_most_frequent_kind(single: dict[str, Any]) -> None:
    damage = {"rate": 20 / 400, "of": 400, "by_kind": {"cut_off": 2, "quota": 18}}
    line = judged(Rule("receipts", "damage.rate", of="damage.of", at_most=0.02), deep_merge(single, {"damage": damage}))
    assert line.reason.endswith("(most frequent: the quotas do not match the selection)")


def test_judge_names_only_required_input() -> None:
    with pytest.raises(UnusableInput, match=r"every rule is missing; it needs AUDIT, and can use DIR$"):
        judge(read_policy("stage-b"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recalls": {"answered": "many"}}, "recalls: field 'answered': expected a number, found a string"),
        ({"files": [{}]}, "files: has no field 'file'"),
        ({"recalls": None}, "field 'recalls': expected an object, found null"),
        ({"errors": {"attempts": None}}, "errors: field 'attempts': expected a number, found null"),
        ({"damage": {"lines": "7"}}, "damage: field 'lines': expected a number, found a string"),
        ({"lines": None}, "field 'lines': expected a number, found null"),
        (
            {"sessions": {"recalls": [1]}},
            "sessions: recalls: not a number for each of 77 sessions; audit the logs again",
        ),
        (
            {"errors": {"failed": 90, "attempts": 300, "rate": 0.0}},
            "errors.rate is 0, and errors.failed of errors.attempts is 90 of 300; audit the logs again",
        ),
    ],
)
def test_read_audit_edited_file_is_refused(
    tmp_path: Path, audit: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    (tmp_path / "audit.json").write_text(json.dumps(deep_merge(audit, change)))
    with pytest.raises(UnusableInput) as caught:
        read_audit(tmp_path / "audit.json")
    assert str(caught.value) == f"{tmp_path / 'audit.json'}: {said}"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_receipts_rule_of_nan_is_refused(audit: dict[str, Any], value: float) -> None:
    for path, of in (("errors.rate", None), ("errors.rate", "errors.attempts"), ("must.share", None)):
        first, _, last = path.partition(".")
        with pytest.raises(
            UnusableInput, match=rf"receipts {path}: the audit has {value} there, outside the range of an audit"
        ):
            judged(Rule("receipts", path, of=of, at_most=0.5), deep_merge(audit, {first: {last: value}}))


def test_receipts_share_must_be_a_share_of_its_count(single: dict[str, Any]) -> None:
    for rate, attempts in ((-0.1, 300), (1.1, 300), (0.5, -300)):
        errors = {"failed": 0, "attempts": attempts, "rate": rate}
        with pytest.raises(UnusableInput, match=r"is not a share of -?\d+ errors.attempts"):
            judged(ERRORS, deep_merge(single, {"errors": errors}))


# Faults in a canary, and the rule of stage-b that detects each.
WRONG = [
    ({"policy_tier": {"other": {"count": 1}}}, "policy_tier.other.count"),
    ({"lanes": {"worst_window_without_fts": 0.99}}, "lanes.worst_window_without_fts"),
    ({"limits": {"items_most": 12}}, "limits.items_most"),
    ({"limits": {"uneven_rate": 30 / 303}}, "limits.uneven_rate"),
    ({"limits": {"listed_over": 1}}, "limits.listed_over"),
    ({"budget": {"over": 1}}, "budget.over"),
    ({"scope": {"unexplained": 1}}, "scope.unexplained"),
]
# The same by the share that each session has.
WRONG_SHARES = {
    **dict.fromkeys(("errors.rate", "damage.rate", "lanes.neither_share", "lanes.without_vec_share"), 0.1),
    **dict.fromkeys(("provider.rate", "quota.overrun_rate", "budget.bare_rate"), 0.1),
    "lanes.without_fts_share": 1.0,
    "quota.nice_floor_met": 0.5,
    **dict.fromkeys(("recalls.empty_rate", "must.share"), 0.8),
    **dict.fromkeys(("stale.rate", "stale.vec_rate", "repeat.rate"), 0.95),
}


def assert_fails(audit: dict[str, Any], measure: str) -> None:
    policy = read_policy("stage-b")
    verdict = judge(policy, audit=audit)
    assert verdict.status == FAIL
    assert [one.measure for one in verdict.lines if one.critical and one.status == FAIL] == [measure]
    assert str(verdict.rollback).startswith("set plugins.slots.memory back to memory-lancedb (or memory-core)")


def test_stage_b_passes_sound_receipts(audit: dict[str, Any]) -> None:
    verdict = judge(read_policy("stage-b"), audit=audit)
    assert verdict.status == PASS, [line.reason for line in verdict.lines if line.critical and line.status != PASS]


@pytest.mark.parametrize(("change", "measure"), WRONG, ids=[measure for _, measure in WRONG])
def test_stage_b_says_which_figure_is_not_sound(audit: dict[str, Any], change: dict[str, Any], measure: str) -> None:
    assert_fails(deep_merge(audit, change), measure)


@pytest.mark.parametrize("measure", WRONG_SHARES)
def test_stage_b_says_which_mean_is_not_sound(audit: dict[str, Any], measure: str) -> None:
    assert_fails(with_share(audit, measure, WRONG_SHARES[measure]), measure)
