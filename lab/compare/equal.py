"""Conversations of a run with identical content under several names; together they form one cluster."""

from __future__ import annotations

from lab.runs.directory import RunDirectory


def equal_in(run: RunDirectory) -> dict[str, str]:
    """Map each conversation that has an identical copy in the run to the first name of its group."""
    return {name: group[0] for group in run.manifest.resolved.equal_conversations or () for name in group}


def equal_notes(run: RunDirectory) -> tuple[str, ...]:
    """Return one sentence for each group of identical conversations."""
    groups = (", ".join(group) for group in run.manifest.resolved.equal_conversations or ())
    return tuple(f"conversations {names} are identical turn by turn and count as one" for names in groups)
