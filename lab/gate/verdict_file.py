"""Read a verdict file, and check whether it is still current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.base.errors import LabError, UnusableInput
from lab.base.files import read_json
from lab.gate.control import Answer
from lab.gate.line import Line
from lab.gate.policy import read_policy, shipped_policies
from lab.gate.verdict import SCHEMA, Inputs, Verdict, key_of
from lab.runs.directory import RunDirectory, open_run


def read_verdict(path: Path) -> Verdict:
    """Read a verdict; raise :class:`UnusableInput` if the file is not a verdict of this version."""
    return verdict_of(read_json(path), str(path))


def verdict_of(data: Any, path: str) -> Verdict:
    """Return a verdict from the JSON values that it was written as; ``path`` names them in messages."""
    try:
        if data["schema"] != SCHEMA:
            raise UnusableInput(f"{path}: not a verdict of this version; run `lab gate` again")
        fields = {name: value for name, value in data.items() if name not in ("schema", "lines", "evidence", "control")}
        evidence = Inputs(**data["evidence"]) if data.get("evidence") else None
        control = Answer(**data["control"]) if data.get("control") else None
        lines = tuple(Line(**line) for line in data["lines"])
        return Verdict(**fields, lines=lines, evidence=evidence, control=control)
    except (AttributeError, KeyError, TypeError) as error:
        raise UnusableInput(
            f"{path}: not a verdict of `lab gate` ({error}); remove it, or run `lab gate` again"
        ) from None


def why_stale(verdict: Verdict, run: RunDirectory) -> str | None:
    """Return why a verdict in the folder of a run is out of date; None if it is current.

    Checks the run, the runs that it was compared with if they can be read, and the policy if it can be read.
    """
    known = verdict.evidence
    if known is None:
        return "it does not record its policy and runs"
    if known.run != run.content:
        return "the run has changed since"
    for path, content in known.others.items():
        try:
            other = open_run(Path(path)).content
        except LabError:
            continue
        if other != content:
            return f"{path}, the run that it was compared with, has changed since"
    try:
        name = known.policy_file or (verdict.policy if verdict.policy in shipped_policies() else None)
        now = key_of(read_policy(name)) if name else known.policy
    except UnusableInput:
        return None
    return None if now == known.policy else f"policy {verdict.policy} has changed since"
