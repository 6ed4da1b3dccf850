"""The lane of a recording's memories: both searches fused by reciprocal ranks, as in ``hybrid`` (PK-10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lab.memory.pack.candidate import Candidate, Found
from lab.recordings.model import Memory
from lab.retrieval.contract import Filter, Lanes
from lab.retrieval.fusion import fuse
from lab.retrieval.query_context import QueryContext
from lab.retrieval.row import Candidate as Hit
from lab.retrieval.row import Row
from lab.retrieval.stage_timer import StageTimer
from lab.systems.openclaw.memory import engine_id
from lab.systems.plans import PLAN, due_at_of, is_plan

NAME = "memories"
# Where a memory's text comes from, as trust. Whatever is not named is unknown.
TRUST = {
    **dict.fromkeys(("trusted", "verified", "user", "operator"), "trusted"),
    "untrusted": "untrusted",
    "quarantined": "quarantined",
}


class Known(NamedTuple):
    """A memory and its number, which is its citation because keys of recordings are long."""

    number: int
    memory: Memory

    @property
    def ref(self) -> str:
        """The citation."""
        return f"mem:{self.number}"

    @property
    def is_plan(self) -> bool:
        """Whether the recording marks it as a plan, by a due time or its category; its text alone does not count."""
        return self.memory.due_at is not None or is_plan(self.memory.category)


class Memories:
    """The memories of one conversation, numbered in the order in which they came, and their successors."""

    def __init__(self) -> None:
        self.by_key: dict[str, Known] = {}
        self.by_ref: dict[str, Known] = {}
        self._successors: dict[str, list[str]] = {}

    def add(self, memories: Sequence[Memory]) -> None:
        """Add new memories."""
        for memory in memories:
            known = Known(len(self.by_ref) + 1, memory)
            self.by_key[memory.key] = self.by_ref[known.ref] = known
            for old in memory.supersedes:
                self._successors.setdefault(old, []).append(memory.key)

    def remove(self, keys: Sequence[str]) -> None:
        """Forget memories; their numbers are not used again."""
        for key in keys:
            del self.by_key[key]

    def successors(self, key: str) -> list[Known]:
        """Return the memories that supersede one, if they still exist."""
        return [self.by_key[newer] for newer in self._successors.get(key, ()) if newer in self.by_key]

    def candidate(self, row: Row, score: float, retrievers: tuple[str, ...]) -> Candidate:
        """Return the row of a memory as a candidate."""
        known = self.by_key[row.key]
        older = (self.by_key[key].ref for key in known.memory.supersedes if key in self.by_key)
        return Candidate(
            known.ref,
            row.text,
            NAME,
            score,
            PLAN if known.is_plan else row.category,
            importance=row.importance_label,
            trust=TRUST.get(row.trust_tier, "unknown"),
            scope=row.scope,
            ts_ms=row.created_at,
            due_ms=due_at_of(known.memory) if known.is_plan else None,
            retrievers=retrievers,
            supersedes=tuple(older),
            sources=(row.key,),
        )


class MemoriesLane:
    """The memories that one query reaches."""

    def __init__(self, memories: Memories, context: QueryContext, timer: StageTimer, depth: int) -> None:
        self._memories, self._context, self._timer, self._depth = memories, context, timer, depth
        self.hits: dict[str, Hit] = {}

    @property
    def name(self) -> str:
        """The name of the lane in a trace."""
        return NAME

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return the fused hits of both searches, each followed by the memories that supersede it.

        The query is that of the context. A successor has the score of the memory that it supersedes, because it answers
        the same question.
        """
        context = self._context
        lanes = self._timer.search(context.view, Filter(scope), self._depth)
        both = Lanes(lanes.fts[: self._depth], lanes.vec[: self._depth])
        hits = fuse(both, context.rows, limit)
        self.hits = {self._memories.by_key[context.by_id[hit.id].key].ref: hit for hit in hits}
        return Found(NAME, tuple(self._candidates(hits, scope)), reason=context.no_vector)

    def _candidates(self, hits: Sequence[Hit], scope: str | None) -> Iterator[Candidate]:
        by_id = self._context.by_id
        seen: set[str] = set()
        for hit in hits:
            row = by_id[hit.id]
            waiting = [(row, _retrievers(hit))]
            while waiting:
                row, retrievers = waiting.pop()
                if row.key in seen:
                    continue
                seen.add(row.key)
                yield self._memories.candidate(row, hit.score, retrievers)
                newer = [by_id[engine_id(known.memory.key)] for known in self._memories.successors(row.key)]
                waiting += [(one, ("successor",)) for one in newer if scope in (None, one.scope)]


def _retrievers(hit: Hit) -> tuple[str, ...]:
    return ("fts",) * (hit.fts_rank is not None) + ("vector",) * (hit.vec_rank is not None)
