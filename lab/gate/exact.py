"""Exact rules: whether the receipts of the candidate are those of another run, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lab.gate.line import FAIL, PASS, Line, lacking, line
from lab.gate.policy import Policy, Rule
from lab.runs.directory import RunDirectory


def judge_exact(policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory) -> Iterator[Line]:
    """A line a rule. Raises what :func:`lab.compare.changes.changes` raises."""
    from lab.compare.changes import changes

    found = changes(against, run)
    own = next((one for one in found.arms if one.arm == policy.candidate), None)
    for rule in rules:
        if own is None:
            yield lacking(rule, f"{against.path} has no arm {policy.candidate!r}")
            continue
        changed = len(own.changed)
        numbers: dict[str, Any] = {"n": own.turns, "candidate": changed, "limit": "0 turns changed"}
        if not changed:
            yield line(rule, PASS, f"all {own.turns} turns are those of {against.path}", **numbers)
            continue
        columns = ", ".join(f"{name} {count}" for name, count in sorted(own.columns.items(), key=lambda one: -one[1]))
        moved = "; ".join(found.moved) or "nothing that the manifests know of"
        why = f"{changed} of {own.turns} turns changed against {against.path} (columns: {columns}); moved: {moved}"
        yield line(rule, FAIL, why, "a change that is meant is approved: make this run the baseline", **numbers)
