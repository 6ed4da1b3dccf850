"""From a policy and a scored run to a verdict: pass, fail, inconclusive or error, each rule with its reason.

A guarded measure passes where the 90 % interval of the difference lies above minus the margin, fails where it lies
below, and is inconclusive otherwise: one-sided at 5 %, over conversations. Rules that must all pass need no correction;
a claim to be better does, and gets Holm's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lab.compare.paired import Difference, compare_arms
from lab.gate.policy import Policy, Rule
from lab.replay.run_directory import RunDirectory

PASS, FAIL, INCONCLUSIVE, ERROR = "pass", "fail", "inconclusive", "error"
# The gravest first; what the whole verdict is made of.
GRAVITY = (ERROR, FAIL, INCONCLUSIVE, PASS)
EXIT = {PASS: 0, FAIL: 1, INCONCLUSIVE: 3, ERROR: 4}
LEVEL = 0.05
SCHEMA = "lab.verdict.v1"


@dataclass(frozen=True, slots=True)
class Line:
    """One rule judged. ``low`` and ``high`` bound the 90 % interval of the difference, candidate minus baseline."""

    kind: str
    measure: str
    status: str
    critical: bool
    reason: str
    settles: str | None = None
    baseline: float | None = None
    candidate: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    conversations: int | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a policy over a run."""

    policy: str
    about: str
    run: str
    baseline: str
    candidate: str
    status: str
    lines: tuple[Line, ...]

    @property
    def exit_code(self) -> int:
        """What the verb ends with."""
        return EXIT[self.status]

    def as_json(self) -> dict[str, Any]:
        """Plain values, as verdict.json has them."""
        return {"schema": SCHEMA, **asdict(self), "lines": [asdict(line) for line in self.lines]}


def judge(policy: Policy, run: RunDirectory) -> Verdict:
    """Judge a run by a policy. Raises what :func:`lab.compare.paired.compare_arms` raises."""
    found = compare_arms(run, policy.baseline, policy.candidate)
    by_measure = {one.measure: one for one in found.differences}
    lines = tuple(_line(rule, by_measure.get(rule.measure), policy) for rule in policy.rules)
    return Verdict(policy.name, policy.about, str(run.path), policy.baseline, policy.candidate, overall(lines), lines)


def overall(lines: Sequence[Line]) -> str:
    """The gravest status among critical lines."""
    return min((line.status for line in lines if line.critical), key=GRAVITY.index, default=ERROR)


def _line(rule: Rule, found: Difference | None, policy: Policy) -> Line:
    if found is None:
        status = ERROR if rule.must_have_data else PASS
        what = "nothing of it was measured in both arms"
        return Line(rule.kind, rule.measure, status, rule.critical, f"{rule.measure}: {what}")
    if rule.kind == "limit":
        return _limit(rule, found)
    estimate, few = found.estimate, found.conversations < policy.minimum_conversations
    if few or estimate.standard_error is None:
        reason = (
            f"{rule.measure}: {found.conversations} conversations, and the policy decides over "
            f"{policy.minimum_conversations} or more"
        )
        more = f"{max(policy.minimum_conversations - found.conversations, 1)} more conversations"
        return _numbers(rule, found, INCONCLUSIVE, reason, more, None, None)
    reach = _t(1 - LEVEL, found.conversations - 1) * estimate.standard_error
    low, high = estimate.mean - reach, estimate.mean + reach
    # From here on more is better.
    sign = -1.0 if rule.direction == "lower" else 1.0
    worst, best = sorted((sign * low, sign * high))
    if rule.kind == "guard":
        need, name = -rule.margin, f"worse by more than {rule.margin:g}"
        told = {PASS: f"shown not to be {name}", FAIL: f"shown to be {name}", INCONCLUSIVE: f"may be {name}"}
    else:
        need, name = rule.by, f"better by more than {rule.by:g}"
        told = {PASS: f"shown to be {name}", FAIL: f"shown not to be {name}", INCONCLUSIVE: f"not shown to be {name}"}
    status = PASS if worst > need else FAIL if best < need else INCONCLUSIVE
    if status == PASS and rule.kind == "improve" and found.p_holm is not None and found.p_holm > LEVEL:
        status = INCONCLUSIVE
    reason = (
        f"{rule.measure}: {policy.candidate} {found.candidate:.3f}, {policy.baseline} {found.baseline:.3f}, difference "
        f"{estimate.mean:+.3f} (90 % interval {low:+.3f} to {high:+.3f} over {found.conversations} conversations): "
        f"{told[status]}"
    )
    settles = _settles(sign * estimate.mean - need, reach, found) if status == INCONCLUSIVE else None
    return _numbers(rule, found, status, reason, settles, low, high)


def _limit(rule: Rule, found: Difference) -> Line:
    value = found.candidate
    over = rule.at_most is not None and value > rule.at_most
    under = rule.at_least is not None and value < rule.at_least
    asked = (("at most", rule.at_most), ("at least", rule.at_least))
    bounds = [f"{words} {bound:g}" for words, bound in asked if bound is not None]
    reason = f"{rule.measure}: {value:.4g}, and the policy wants {' and '.join(bounds)}"
    return _numbers(rule, found, FAIL if over or under else PASS, reason, None, None, None)


def _numbers(
    rule: Rule, found: Difference, status: str, reason: str, settles: str | None, low: float | None, high: float | None
) -> Line:
    return Line(
        rule.kind,
        rule.measure,
        status,
        rule.critical,
        reason,
        settles,
        found.baseline,
        found.candidate,
        found.estimate.mean,
        low,
        high,
        found.conversations,
        found.n,
    )


def _settles(distance: float, reach: float, found: Difference) -> str:
    """What would settle it, were the difference as it seems: the interval shrinks with the root of conversations."""
    if abs(distance) < 1e-9:
        return "no number of conversations, were the difference just as it seems; choose another margin"
    need = math.ceil(found.conversations * (reach / abs(distance)) ** 2)
    more = max(need - found.conversations, 1)
    return f"about {more} more conversations like these, were the difference as it seems"


def _t(quantile: float, freedom: int) -> float:
    from scipy.stats import t as student

    return float(student.ppf(quantile, freedom))
