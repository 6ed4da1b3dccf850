"""Count what an arm wrote in one conversation, for the measures of writes."""

from __future__ import annotations

from dataclasses import dataclass

from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of one arm in a conversation of ``turns`` turns.

    ``created`` counts memories, ``echoes`` those of them that repeat what was injected at their turn, ``held`` those
    left at the end.
    """

    turns: int
    created: int
    echoes: int
    held: int


def read_writes(run: RunDirectory, conversation: str) -> dict[str, Written]:
    """Return the counts of every arm that captures; empty if the run has no writes."""
    path = run.writes(conversation)
    if run.name_of(path) not in run.digests:
        return {}
    table = read_table(run.check(path), ("arm", "what", "echo"))
    turns = int((table.schema.metadata or {}).get(b"turns", b"0"))
    rows = list(zip(*(table[name].to_pylist() for name in ("arm", "what", "echo")), strict=True))
    counts = {}
    for arm in (info.name for info in run.manifest.resolved.arms if info.writes):
        created = [echo for writer, what, echo in rows if (writer, what) == (arm, "created")]
        deleted = sum((writer, what) == (arm, "deleted") for writer, what, _ in rows)
        held = len(created) - deleted
        counts[arm] = Written(turns=turns, created=len(created), echoes=sum(created), held=held)
    return counts
