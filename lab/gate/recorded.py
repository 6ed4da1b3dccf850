"""A verdict that was written before: read back, and whether it is still one of what there is now."""

from __future__ import annotations

from pathlib import Path

from lab.errors import LabError, UnusableInput
from lab.files import read_json
from lab.gate.line import Line
from lab.gate.policy import read_policy, shipped_policies
from lab.gate.verdict import SCHEMA, Evidence, Verdict, key_of
from lab.runs.directory import RunDirectory, open_run

VERDICT = "verdict.json"


def read_verdict(path: Path) -> Verdict:
    """The verdict of a file; one that is none of ours is :class:`UnusableInput`."""
    found = read_json(path)
    try:
        if found["schema"] != SCHEMA:
            raise UnusableInput(f"{path}: is no verdict of this version; judge again with lab gate")
        own = {name: value for name, value in found.items() if name not in ("schema", "lines", "evidence")}
        evidence = Evidence(**found["evidence"]) if found.get("evidence") else None
        return Verdict(**own, lines=tuple(Line(**one) for one in found["lines"]), evidence=evidence)
    except (AttributeError, KeyError, TypeError) as error:
        raise UnusableInput(f"{path}: is no verdict of a gate ({error}); remove it, or judge again") from None


def why_stale(verdict: Verdict, run: RunDirectory) -> str | None:
    """Why a verdict in the folder of a run says nothing of what the run holds now; None where it does.

    It is held against the run, against the runs that it was compared with where they are at hand, and against its
    policy where that can be read again.
    """
    known = verdict.evidence
    if known is None:
        return "it does not say what it was made from"
    if known.run != run.content:
        return "it was made from something else than this run holds now"
    for path, content in known.others.items():
        try:
            other = open_run(Path(path)).content
        except LabError:
            continue
        if other != content:
            return f"{path}, which it was compared with, holds something else now"
    try:
        name = known.policy_file or (verdict.policy if verdict.policy in shipped_policies() else None)
        now = key_of(read_policy(name)) if name else known.policy
    except UnusableInput:
        return None
    return None if now == known.policy else f"policy {verdict.policy} asks something else now"
