"""Conversations of a run that say the same under several names: they are one cluster, however many copies."""

from __future__ import annotations

from lab.errors import UnusableInput
from lab.recordings.equal import EQUAL
from lab.runs.directory import RunDirectory


def _groups(run: RunDirectory) -> list[list[str]]:
    groups = run.manifest["resolved"].get(EQUAL, [])
    if not isinstance(groups, list) or not all(isinstance(group, list) and group for group in groups):
        raise UnusableInput(
            f"{run.path / 'manifest.json'}: resolved.{EQUAL}: expected lists of conversations; run the replay again "
            "into another --out"
        )
    return [[str(name) for name in group] for group in groups]


def equal_in(run: RunDirectory) -> dict[str, str]:
    """Each conversation of a run that says what another one says, with the name under which both count, once."""
    return {name: group[0] for group in _groups(run) for name in group}


def equal_notes(run: RunDirectory) -> tuple[str, ...]:
    """A sentence a group of conversations that say the same."""
    groups = (", ".join(group) for group in _groups(run))
    return tuple(f"conversations {names} say the same, turn by turn, and count as one" for names in groups)
