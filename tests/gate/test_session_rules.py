"""Rules on sessions: when they are decided, at what error, and what would decide them otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.gate.line import FAIL, INCONCLUSIVE, PASS, Line
from lab.gate.outputs import decided
from lab.gate.policy import Policy, Rule, read_policy
from lab.gate.receipts import judge_receipts
from lab.gate.sessions import MEANS, decision, is_judged
from lab.gate.verdict import judge

RULE = Rule("receipts", "errors.rate", of="errors.attempts", at_most=0.02, pass_limit=0.05)


def policy(*rules: Rule) -> Policy:
    return Policy("mine", "what it means", "old", "new", 6, rules)


def with_shares(audit: dict[str, Any], shares: list[float], measure: str = "errors.rate", each: int = 1) -> Any:
    """Return an audit of so many sessions of ten recalls, the last of which are open."""
    count = len(shares)
    sums = {measure: {"part": [10 * share for share in shares], "of": [10] * count}}
    ended = [f"2026-03-01T{at // 60:02}:{at % 60:02}:00Z" for at in range(count)]
    sessions = {"closed": count * each, "open": 2, "each": each, "ended": ended, "recalls": [10] * count, "sums": sums}
    return audit | {"sessions": audit["sessions"] | sessions}


def judged(audit: dict[str, Any], rule: Rule = RULE, *others: Rule) -> Line:
    return next(judge_receipts(policy(rule, *others), [rule], audit))


def test_clean_sessions_pass_at_a_known_one(audit: dict[str, Any]) -> None:
    line = judged(with_shares(audit, [0.0] * 80))
    assert (line.status, line.high) == (PASS, pytest.approx(0.04, abs=0.005))
    assert line.sequence is not None
    assert (line.sequence["decided"], line.sequence["time"]) == (65, "2026-03-01T01:04:00Z")
    assert "shown to be at most 0.05 at session 65 (2026-03-01T01:04:00Z), with an error of at most 5 %" in line.reason
    # One session fewer is too little; what is missing is that session.
    before = judged(with_shares(audit, [0.0] * 64))
    assert (before.status, before.more_recalls) == (INCONCLUSIVE, 10)
    assert str(before.settles).startswith("about 1 more session like these; violated if it is 1 in the next ")


def test_faults_fail_for_good_whatever_follows(audit: dict[str, Any]) -> None:
    for before in (0, 40):
        line = judged(with_shares(audit, [*[0.0] * before, 1.0, 1.0, 1.0, 1.0, *[0.0] * 100]))
        assert line.status == FAIL
        assert before < line.sequence["decided"] <= before + 4  # type: ignore[index]  # a failed rule has one


def test_more_rules_need_more_evidence_for_a_failure_and_none_for_a_pass(audit: dict[str, Any]) -> None:
    others = [Rule("receipts", name, at_most=0.5) for name in sorted(MEANS - {"errors.rate"})]
    bad, clean = with_shares(audit, [0.2] * 40), with_shares(audit, [0.0] * 80)
    alone, among = judged(bad), judged(bad, RULE, *others)
    assert alone.sequence is not None
    assert among.sequence is not None
    assert (alone.status, among.status) == (FAIL, FAIL)
    assert alone.sequence["decided"] < among.sequence["decided"]
    assert "over 14 rules" in among.reason
    assert judged(clean, RULE, *others).sequence["decided"] == 65  # type: ignore[index]  # a passed rule has one


def test_what_got_worse_is_not_shown_any_more(audit: dict[str, Any]) -> None:
    assert judged(with_shares(audit, [*[0.0] * 70, 0.6, 0.6])).status == INCONCLUSIVE


def test_high_figures_are_judged_as_low_ones(audit: dict[str, Any]) -> None:
    met = Rule("receipts", "quota.nice_floor_met", at_least=0.9)
    line = judged(with_shares(audit, [1.0] * 40, met.measure), met)
    assert (line.status, line.high) == (PASS, 1.0)
    assert 0.9 <= line.low < 1  # type: ignore[operator]  # it has bounds
    assert judged(with_shares(audit, [0.3] * 40, met.measure), met).status == FAIL


def test_no_session_yet_names_what_is_open(audit: dict[str, Any]) -> None:
    line = judged(with_shares(audit, []))
    assert line.status == INCONCLUSIVE
    assert str(line.settles).startswith("the end of 2 open sessions: a session counts once the log goes on for 30 min")


def test_joined_sessions_are_named_by_their_last(audit: dict[str, Any]) -> None:
    line = judged(with_shares(audit, [0.0] * 80, each=2))
    assert line.sequence is not None
    assert line.sequence["decided"] == 130


def test_mean_without_a_limit_between_0_and_1_is_judged_once(audit: dict[str, Any]) -> None:
    assert not is_judged(replace(RULE, at_most=0.0, pass_limit=None), audit)
    assert not is_judged(replace(RULE, at_least=0.001), audit)
    assert not is_judged(Rule("receipts", "limits.uneven_rate", at_most=0.02), audit)
    assert is_judged(RULE, audit)


def test_means_are_those_of_an_audit(audit: dict[str, Any]) -> None:
    # Profile seed, which wrote this one, counts no blocks.
    assert set(audit["sessions"]["sums"]) | {"budget.bare_rate"} == MEANS


def test_verdict_says_when_by_what_and_what_else_could_be(audit: dict[str, Any]) -> None:
    whole = policy(RULE)
    passed = judge(whole, audit=with_shares(audit, [0.0] * 80))
    assert decided(passed)[0] == (
        "Decided at session 65 (2026-03-01T01:04:00Z), with an error of at most 5 %, last by errors.rate. "
        "NO-GO if errors.rate is 1 in the next 4 sessions."
    )
    failed = judge(whole, audit=with_shares(audit, [0.5] * 80))
    said = "Decided at session 2 (2026-03-01T00:01:00Z), with an error of at most 5 %, by errors.rate."
    assert decided(failed) == [said]
    open_verdict = judge(whole, audit=with_shares(audit, [0.0] * 20))
    assert decided(open_verdict)[0] == (
        "GO after about 45 more sessions like these, the last by errors.rate. "
        "NO-GO if errors.rate is 1 in the next 3 sessions."
    )
    never = decision(judge(whole, audit=with_shares(audit, [*[0.0] * 7, 0.4])).lines, INCONCLUSIVE)
    assert str(never).startswith("GO is not in sight: errors.rate lies too near its limit.")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            "at_most = 0.1\npass_limit = 0.05",
            "pass_limit 0.05: needs either at_most or at_least, and may not be stricter",
        ),
        (
            "at_least = 0.1\npass_limit = 0.2",
            "pass_limit 0.2: needs either at_most or at_least, and may not be stricter",
        ),
        ("at_most = 0.1\npass_limit = 1", "pass_limit: expected a number between 0 and 1, found 1"),
    ],
)
def test_pass_limit_is_wider_than_the_limit(tmp_path: Path, limits: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "x"\nabout = "y"\n[[receipts]]\nmeasure = "errors.rate"\n{limits}\n')
    with pytest.raises(UnusableInput, match=said):
        read_policy(str(path))


def test_policies_without_a_pass_limit_keep_their_digest() -> None:
    plain = policy(replace(RULE, pass_limit=None))
    assert plain.key != policy(RULE).key
    assert "pass_limit" not in str(plain.key)
