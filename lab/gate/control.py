"""Answer the question of a policy's control: whether what the candidate adds is worth having at all.

The claim is shown if the candidate is better than the control in at least one worth rule, Holm-corrected over them, and
no guard against the control fails. The denial is shown if it is better in none and either a guard against the control
fails or every worth rule is shown not to hold. Anything else is not shown either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.base.formatting import number
from lab.gate.line import FAIL, INCONCLUSIVE, PASS, Line
from lab.gate.policy import Policy


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer: ``status`` is pass for the claim, fail for the denial, else inconclusive; ``sentence`` says why."""

    arm: str
    status: str
    sentence: str


def answer_of(policy: Policy, lines: Sequence[Line]) -> Answer | None:
    """Return the answer; None if the policy has no control or no rule against it was judged."""
    if policy.control is None:
        return None
    lines = [line for line in lines if line.against == policy.control.arm and line.difference is not None]
    worth = [line for line in lines if line.kind == "worth"]
    if not worth:
        return None
    better = [line for line in worth if line.status == PASS]
    worse = [line for line in lines if line.kind in ("guard", "slice") and line.critical and line.status == FAIL]
    arm = policy.control.arm
    if better and not worse:
        return Answer(arm, PASS, f"{policy.control.claim}: better than {arm} in {_shown(better)}")
    if better:
        why = f"better than {arm} in {_shown(better)}, but worse in {_shown(worse)}"
        return Answer(arm, INCONCLUSIVE, f"it is not shown that {policy.control.claim}: {why}")
    if worse:
        return Answer(arm, FAIL, f"{policy.control.denial}: worse than {arm} in {_shown(worse)}, and better in nothing")
    if all(line.status == FAIL for line in worth):
        return Answer(arm, FAIL, f"{policy.control.denial}: {arm} does as well in {_shown(worth)}")
    measured = [line for line in worth if line.low is not None]
    why = f"not shown to be better than {arm} in {_shown(measured)}"
    if not measured:
        why = f"{max(line.conversations or 0 for line in worth)} conversations are too few to compare it with {arm}"
    return Answer(arm, INCONCLUSIVE, f"it is not shown that {policy.control.claim}: {why}")


def _shown(lines: Sequence[Line]) -> str:
    return ", ".join(
        f"{line.measure}{f' [{line.slice}]' if line.slice else ''} "
        f"({number(line.candidate)} against {number(line.baseline)})"
        for line in lines
    )
