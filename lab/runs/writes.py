"""What an arm wrote in one conversation, counted: what the measures of writes read of ``writes/``."""

from __future__ import annotations

from dataclasses import dataclass

from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of one arm in a conversation of so many ``turns``.

    ``created`` memories, of which ``echoes`` say what had been injected at their turn; ``held`` at the end.
    """

    turns: int
    created: int
    echoes: int
    held: int


def read_writes(run: RunDirectory, conversation: str) -> dict[str, Written]:
    """The counts of every arm that captures; empty where the run has no writes."""
    path = run.writes(conversation)
    if run.name_of(path) not in run.digests:
        return {}
    table = read_table(run.check(path), ("arm", "what", "echo"))
    turns = int((table.schema.metadata or {}).get(b"turns", b"0"))
    rows = list(zip(*(table[name].to_pylist() for name in ("arm", "what", "echo")), strict=True))
    found = {}
    for arm in (one.name for one in run.manifest.resolved.arms if one.writes):
        created = [echo for who, what, echo in rows if (who, what) == (arm, "created")]
        deleted = sum((who, what) == (arm, "deleted") for who, what, _ in rows)
        held = len(created) - deleted
        found[arm] = Written(turns=turns, created=len(created), echoes=sum(created), held=held)
    return found
