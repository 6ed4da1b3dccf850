"""Conversations of a run that say the same under several names: they are one cluster, however many copies."""

from __future__ import annotations

from lab.runs.directory import RunDirectory


def equal_in(run: RunDirectory) -> dict[str, str]:
    """Each conversation of a run that says what another one says, with the name under which both count, once."""
    return {name: group[0] for group in run.manifest.resolved.equal_conversations or () for name in group}


def equal_notes(run: RunDirectory) -> tuple[str, ...]:
    """A sentence a group of conversations that say the same."""
    groups = (", ".join(group) for group in run.manifest.resolved.equal_conversations or ())
    return tuple(f"conversations {names} say the same, turn by turn, and count as one" for names in groups)
