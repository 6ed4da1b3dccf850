"""Count what an arm wrote in one conversation, for the measures of writes."""

from __future__ import annotations

from dataclasses import dataclass

from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table

COLUMNS = ("arm", "what", "memory", "keep", "gold", "echo", "again", "leak", "derived")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of one arm in a conversation of ``turns`` turns, without what its recalls derived.

    Of the ``created`` memories, ``echoes`` repeat what was injected at their turn, ``repeats`` what was stored before,
    and ``leaks`` hold a secret; ``judged`` are aligned to a judged candidate, and ``kept`` to one that should be kept.
    ``held`` are left at the end. ``candidates`` should be kept, and ``found`` of them were. Probes need ``gold``
    memories, of which ``gold_found`` have an item.
    """

    turns: int
    created: int
    echoes: int
    held: int
    repeats: int
    leaks: int
    judged: int
    kept: int
    candidates: int
    found: int
    gold: int
    gold_found: int


def read_writes(run: RunDirectory, conversation: str) -> dict[str, Written]:
    """Return the counts of every arm that captures; empty if the run has no writes."""
    path = run.writes(conversation)
    if run.name_of(path) not in run.digests:
        return {}
    table = read_table(run.check(path), COLUMNS)
    metadata = table.schema.metadata or {}
    turns, candidates, gold = (int(metadata.get(name, b"0")) for name in (b"turns", b"candidates", b"gold"))
    rows = [row for row in table.to_pylist() if not row["derived"]]
    counts = {}
    for arm in (info.name for info in run.manifest.resolved.arms if info.writes):
        created = [row for row in rows if (row["arm"], row["what"]) == (arm, "created")]
        stored = [row for row in rows if row["arm"] == arm and row["what"] in ("created", "updated")]
        deleted = sum((row["arm"], row["what"]) == (arm, "deleted") for row in rows)
        counts[arm] = Written(
            turns=turns,
            created=len(created),
            echoes=sum(row["echo"] for row in created),
            held=len(created) - deleted,
            repeats=sum(row["again"] for row in created),
            leaks=sum(row["leak"] for row in stored),
            judged=sum(row["keep"] is not None for row in created),
            kept=sum((row["keep"] or 0) > 0 for row in created),
            candidates=candidates,
            found=len({row["memory"] for row in stored if (row["keep"] or 0) > 0}),
            gold=gold,
            gold_found=len({row["memory"] for row in stored if row["gold"]}),
        )
    return counts
