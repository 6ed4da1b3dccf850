"""Exact rules: whether the candidate's receipts equal those of another run, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lab.gate.line import FAIL, INCONCLUSIVE, PASS, Line, lacking, line
from lab.gate.policy import Policy, Rule
from lab.runs.directory import RunDirectory


def judge_exact(policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory) -> Iterator[Line]:
    """Yield one line per rule. Raises what :func:`lab.compare.changes.changes` raises."""
    from lab.compare.changes import changes

    difference = changes(against, run)
    candidate = next((arm for arm in difference.arms if arm.arm == policy.candidate), None)
    for rule in rules:
        if candidate is None:
            yield lacking(rule, f"{against.path} has no arm {policy.candidate!r}")
            continue
        changed = len(candidate.changed)
        numbers: dict[str, Any] = {"n": candidate.turns, "candidate": changed, "limit": "0 turns changed"}
        if not changed and difference.common.others:
            yield line(rule, INCONCLUSIVE, f"cannot be compared: {difference.common}", **numbers)
            continue
        if not changed:
            yield line(rule, PASS, f"all {candidate.turns:,} turns equal those of {against.path}", **numbers)
            continue
        columns = ", ".join(
            f"{name} {count}" for name, count in sorted(candidate.columns.items(), key=lambda entry: -entry[1])
        )
        moved = "; ".join(difference.moved) or "none"
        why = (
            f"{changed:,} of {candidate.turns:,} turns changed against {against.path} (columns: {columns}); "
            f"manifest differences: {moved}"
        )
        yield line(rule, FAIL, why, "if the change is intended, approve this run as the baseline", **numbers)
