"""Wait rules: bounds of what recalls took, beside a control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import dump_json
from lab.canary.audit.waits import Receipt, Span, bounded
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.outputs import read_verdict
from lab.gate.policy import Policy, Rule, read_policy
from lab.gate.rejudge import Stale, Unchecked, rejudge
from lab.gate.verdict import Verdict, judge
from tests.commands import run_here

TOML = """
name = "mine"
about = "recalls take no longer"
[[wait]]
quantile = 0.95
at_most_ratio = 1.15
at_most_more_ms = 100
"""
Timed = Callable[..., dict[str, Any]]


@pytest.fixture
def timed(audit: dict[str, Any]) -> Timed:
    """Return an audit whose recalls took 20 to 49 ms and ``slow`` more; before ``skips`` others the host took 5 ms."""

    def make(slow: int = 0, recalls: int = 300, skips: int = 60) -> dict[str, Any]:
        receipts = [Receipt(1_000 * at + 5 + 20 + slow + at % 30, False) for at in range(recalls)]
        receipts += [Receipt(1_000 * at + 5, True) for at in range(recalls, recalls + skips)]
        turns = [Span(1_000 * at, 1_000 * at + 999) for at in range(recalls + skips)]
        return audit | {"latency": bounded(receipts, turns)}

    return make


def mine(tmp_path: Path, text: str = TOML) -> Policy:
    file = tmp_path / "mine.toml"
    file.write_text(text, "utf-8")
    return read_policy(str(file))


def judged(policy: Policy, audit: dict[str, Any], control: dict[str, Any] | None) -> Line:
    (line,) = judge(policy, audit=audit, control=control).lines
    return line


@pytest.mark.parametrize(
    ("slow", "base", "status"), [(0, 0, PASS), (60, 0, PASS), (110, 0, INCONCLUSIVE), (200, 0, FAIL), (200, 150, PASS)]
)
def test_wait_rule_is_relative_to_the_control(tmp_path: Path, timed: Timed, slow: int, base: int, status: str) -> None:
    line = judged(mine(tmp_path), timed(slow), timed(base))
    assert line.status == status
    assert "of recalls in ms: between" in line.reason
    assert line.limit == "at most 1.15 times the control's and 100 ms more"
    assert line.low is not None
    assert line.high is not None
    assert line.low <= 47 + slow + 5 + 1 <= line.high


def test_wait_rule_without_data_says_what_is_missing(tmp_path: Path, timed: Timed, audit: dict[str, Any]) -> None:
    policy = mine(tmp_path)
    assert judged(policy, timed(), None).reason == "p95 of recalls in ms: needs a control; add --control AUDIT2"
    for mine_, control, where in ((audit, timed(), "audit"), (timed(), audit, "control")):
        line = judged(policy, mine_, control)
        assert (line.status, f"the {where} has no bounds of what recalls took" in line.reason) == (ERROR, True)
    few = judged(policy, timed(recalls=60), timed())
    assert (few.status, few.settles) == (INCONCLUSIVE, "12 more recalls")
    skipping = mine(tmp_path, TOML + 'without_data = "skip"\n')
    for one, control in (
        (timed(), None),
        (audit, None),
        (timed(200, skips=18), timed()),
        (timed(200), timed(skips=18)),
    ):
        assert judged(skipping, one, control).status == SKIPPED


def test_wait_rule_without_lower_bounds_can_still_pass(tmp_path: Path, timed: Timed) -> None:
    assert judged(mine(tmp_path), timed(30, skips=0), timed(skips=0)).status == PASS
    # A ratio allows the host no more time, and its own part is unknown.
    twice = mine(tmp_path, TOML.replace("1.15", "2").replace("100", "0"))
    assert judged(twice, timed(40), timed()).status == PASS
    assert judged(twice, timed(40), timed(skips=0)).status == ERROR


def test_wait_rule_passes_unchanged_recalls_and_not_those_at_the_limit(tmp_path: Path, audit: dict[str, Any]) -> None:
    """Times are skewed, and the host needs a part of its own."""
    draw, policy = Random(3), mine(tmp_path)

    def window(ratio: float, more: float, host: float = 10) -> dict[str, Any]:
        receipts = []
        for at in range(360):
            recall = 0.0 if at % 6 == 5 else ratio * 60 * draw.lognormvariate(0, 0.6) + more
            receipts.append(Receipt(round(100_000 * at + host * draw.lognormvariate(0, 0.7) + recall), at % 6 == 5))
        return audit | {"latency": bounded(receipts, [Span(100_000 * at, 100_000 * at + 99_999) for at in range(360)])}

    found = {
        name: Counter(judged(policy, window(*slower), window(1, 0)).status for _ in range(60))
        for name, *slower in (
            ("unchanged", 1.0, 0.0),
            ("at the limit", 1.15, 100.0),
            ("slower host", 1.15, 100.0, 50.0),
            ("slow", 1.0, 300.0),
        )
    }
    assert found["unchanged"][PASS] >= 57
    assert found["at the limit"][PASS] <= 3
    assert found["at the limit"][FAIL] <= 3
    assert found["slower host"][FAIL] <= 3
    assert found["slow"][FAIL] >= 57


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("quantile = 0.95", "quantile = 0.9"), "expected 0.5, 0.95 or 0.99, found 0.9"),
        (("at_most_ratio = 1.15\nat_most_more_ms = 100\n", ""), "needs at_most_ratio or at_most_more_ms"),
        (("at_most_more_ms = 100", "at_most_more_ms = -1"), "at_most_more_ms: expected a number from 0"),
    ],
)
def test_read_policy_refuses_a_wrong_wait_rule(tmp_path: Path, changed: tuple[str, str], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        mine(tmp_path, TOML.replace(*changed))


def test_wait_rule_refuses_a_level_that_audits_do_not_have(tmp_path: Path, timed: Timed) -> None:
    policy = mine(tmp_path, TOML.replace("[[wait]]", "fail_level = 0.001\n[[wait]]"))
    with pytest.raises(UnusableInput, match="allow no level below"):
        judge(policy, audit=timed(), control=timed())


def test_policy_without_wait_rules_keeps_its_digest() -> None:
    """A policy of an earlier version has the same digest, so that its verdicts are not stale."""
    policy = Policy("mine", "what it means", "a", "b", 6, (Rule("limit", "Future", at_most=0.0),))
    assert policy.key == "89f933a186995c0c06405720b0a50690a9aaaec4118606ee51f9a455abf3a7e8"


def test_verdict_with_a_control_is_judged_again_with_it(tmp_path: Path, timed: Timed) -> None:
    policy, audit, control = mine(tmp_path), tmp_path / "audit.json", tmp_path / "before.json"
    audit.write_bytes(dump_json(timed(200)))
    control.write_bytes(dump_json(timed()))
    done = run_here("gate", audit, "--policy", policy.where, "--control", control)
    assert done.returncode == 1, done.stdout + done.stderr
    shown = " ".join(done.stdout.replace("\\\n", "").split())
    assert "p95 of recalls in ms 2" in shown
    assert f"--policy {policy.where} --control {control}" in shown
    verdict: Verdict = read_verdict(tmp_path / "verdict.json")
    assert rejudge(verdict, tmp_path).status == FAIL
    control.write_bytes(dump_json(timed(1)))
    with pytest.raises(Stale, match="its control, has changed since"):
        rejudge(verdict, tmp_path)
    control.unlink()
    with pytest.raises(Unchecked, match="not there"):
        rejudge(verdict, tmp_path)


@pytest.mark.parametrize("name", ["stage-b", "stage-c"])
def test_shipped_policy_judges_what_recalls_take(name: str, timed: Timed) -> None:
    policy = read_policy(name)
    found = {
        status: next(line for line in judge(policy, audit=timed(slow), control=timed()).lines if line.kind == "wait")
        for slow, status in ((0, PASS), (200, FAIL))
    }
    assert {status: line.status for status, line in found.items()} == {PASS: PASS, FAIL: FAIL}
    assert found[FAIL].critical
    without = next(line for line in judge(policy, audit=timed()).lines if line.kind == "wait")
    assert without.status == (SKIPPED if name == "stage-b" else INCONCLUSIVE)
