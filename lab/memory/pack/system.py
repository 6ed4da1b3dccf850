"""The arm ``pack``: candidates of both searches, packed into a small cited bundle within a budget (PK-12).

Its lane fuses both searches of a recording's memories by reciprocal ranks, as ``hybrid`` does (PK-10).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lab.base.token_estimate import tokens
from lab.memory.pack.candidate import Candidate, Found, Lane, Settings, describe, read_settings
from lab.memory.pack.layers import DUPLICATE, MAX_ITEMS, OVER_BUDGET, Decision
from lab.memory.pack.order import IS_SUPERSEDED, TRUST_REASONS
from lab.memory.pack.packer import Pack, extensions, gather, pack
from lab.memory.pack.sources import Sources, read_sources
from lab.recordings.model import Memory, Turn
from lab.retrieval.contract import Candidate as Hit
from lab.retrieval.contract import Filter, Lanes, Row
from lab.retrieval.faults import HARMLESS
from lab.retrieval.fusion import fuse
from lab.retrieval.retrievers import QueryContext, Retrieval
from lab.retrieval.stage_timer import StageTimer
from lab.systems.baselines.arm import LANE_DEPTH
from lab.systems.baselines.long_context import ROLES
from lab.systems.contract import (
    NOTHING,
    ArmInfo,
    Ask,
    Detail,
    Explained,
    Item,
    MemorySystem,
    Recall,
    Retriever,
    Signals,
    Status,
    Writes,
)
from lab.systems.kit import Kit
from lab.systems.openclaw.config.resolve import resolve
from lab.systems.openclaw.memory import id_of
from lab.systems.plans import PLAN, due_at_of, is_plan
from lab.systems.spec import ArmSpec

NAME = "memories"
# Where a memory's text comes from, as trust. Whatever is not named is unknown.
TRUST = {
    **dict.fromkeys(("trusted", "verified", "user", "operator"), "trusted"),
    "untrusted": "untrusted",
    "quarantined": "quarantined",
}
RECEIPT = "recall-lab.pack.recall.v1"
# The most items of an arm under a budget of tokens, so that the budget decides.
MOST_ITEMS = 100
# What `lab missed` calls the reason for which a memory was not packed.
CAUSES = {
    MAX_ITEMS: "slot",
    OVER_BUDGET: "budget",
    DUPLICATE: "merged",
    IS_SUPERSEDED: "superseded",
    **dict.fromkeys(TRUST_REASONS.values(), "trust"),
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

    name = NAME

    def __init__(self, memories: Memories, context: QueryContext, timer: StageTimer, depth: int) -> None:
        self._memories, self._context, self._timer, self._depth = memories, context, timer, depth
        self.hits: dict[str, Hit] = {}

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
                newer = [by_id[id_of(known.memory)] for known in self._memories.successors(row.key)]
                waiting += [(one, ("successor",)) for one in newer if scope in (None, one.scope)]


def _retrievers(hit: Hit) -> tuple[str, ...]:
    return ("fts",) * (hit.fts_rank is not None) + ("vector",) * (hit.vec_rank is not None)


@dataclass(frozen=True, slots=True)
class PackArm:
    """The packer with its settings, over the memories of a recording."""

    name: str
    settings: Settings
    depth: int = 50
    search: Retrieval = field(default_factory=Retrieval)
    sources: Sources = field(default_factory=Sources)

    def describe(self) -> ArmInfo:
        """Return name and configuration."""
        most = self.settings.limit
        return ArmInfo(
            self.name,
            "pack",
            most,
            max(self.depth, most),
            describe(self.settings) | ({"sources": sources} if (sources := self.sources.describe()) else {}),
            at_most=most,
            stateful=self.settings.tail.tokens > 0,
            labelled=self.settings.rank == "policy",
            inputs=self.sources.digests(),
        )

    @property
    def retrieval(self) -> Retrieval:
        """The search settings."""
        return self.search

    @property
    def shares(self) -> bool:
        """Whether other arms may share its candidates."""
        return True

    @property
    def claims(self) -> tuple[str, ...]:
        """The proofs that admission demands."""
        return ("relevant", "words", "meaning", "embedder")

    def with_tokens(self, tokens: int) -> PackArm:
        """Return the same arm with another budget, and as many items as fit."""
        return replace(self, settings=replace(self.settings, budget_tokens=tokens, limit=MOST_ITEMS))

    def open(self, kit: Kit) -> PackSystem:
        """Open a system without memories."""
        return PackSystem(self, kit)


def make(spec: ArmSpec) -> PackArm:
    """Make the arm. Raises :class:`UnusableInput` for an unknown key or a value out of range."""
    config = resolve(None, spec.profile, where=spec.where)
    settings = read_settings(spec.config, spec.where, spec.max_items)
    sources = read_sources(spec.config, spec.where)
    return PackArm(spec.name, settings, spec.depth, Retrieval(config.text, config.embedding), sources)


class PackSystem(MemorySystem):
    """The packer in one conversation, with its memories, and its last turns if the tail is protected."""

    def __init__(self, arm: PackArm, kit: Kit) -> None:
        self.retrieval_key = arm.retrieval
        self._arm, self._kit = arm, kit
        self._memories = Memories()
        # Scope and text of the last turns.
        self._tail: list[tuple[str, str]] = []
        self._last: Pack | None = None
        self._opened = ExitStack()
        self._lanes: list[Lane] = [*arm.sources.ledger_lanes(), *arm.sources.other_lanes(self._opened)]

    def open_retriever(self) -> Retriever:
        """Return a retriever over the memories that the loop provides."""
        return self._kit.retriever(self.retrieval_key)

    def remember(self, memories: Sequence[Memory]) -> None:
        """Number new memories, and note what they supersede."""
        self._memories.add(memories)

    def forget(self, keys: Sequence[str]) -> None:
        """Forget memories that the recording deletes."""
        self._memories.remove(keys)

    def observe(self, turn: Turn) -> Writes:
        """Keep the turn for the protected tail of its scope."""
        most = self._arm.settings.tail.items
        text = turn.said or turn.text
        if most and self._arm.settings.tail.tokens and turn.role in ROLES and text.strip():
            self._tail.append((turn.scope, f"{turn.role}: {text}"))
            same = [at for at, (scope, _) in enumerate(self._tail) if scope == turn.scope]
            del self._tail[same[0] : same[0] + (len(same) > most)]
        return NOTHING

    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Pack the candidates of a query."""
        timer, settings = StageTimer(), self._arm.settings
        tail = [text for scope, text in self._tail if ask.scope in (None, scope)]
        depth = max(LANE_DEPTH, settings.depth if settings.limit < MOST_ITEMS else MOST_ITEMS)
        lane = MemoriesLane(self._memories, candidates, timer, LANE_DEPTH)
        when: dict[str, Any] = {"scope": ask.scope, "now_ms": ask.now_ms}
        founds = timer.stage("retrieve", lambda: [lane.search(ask.text, depth, **when)])
        if self._lanes:
            # A file may have the turn itself, and answers to it with the same time.
            earlier = when | {"now_ms": ask.now_ms - 1}
            founds += timer.stage("sources", lambda: gather(self._lanes, ask.text, settings, **earlier))
        done = timer.stage("pack", lambda: pack(ask.text, founds, settings, tail=tail, **when))
        self._last = done
        items, injected = self._items(done, lane)
        status: Status = "degraded" if ask.faults - HARMLESS else "ok" if done.lines else "skipped"
        if ask.items_only:
            return Recall(items, injected, timings=timer.timings, status=status)
        return Recall(items, injected, done.bundle_text, receipt_of(done), timer.timings, status, evicted=0)

    def _items(self, done: Pack, lane: MemoriesLane) -> tuple[tuple[Item, ...], int]:
        """Return the packed memories in the order of the bundle, then the others by rank, and how many were packed."""
        texts = {line.candidate.ref: line.text for line in done.lines}
        decisions = {decision.candidate.ref: decision for decision in done.decisions}
        first = [ref for ref in done.refs if ref in self._memories.by_ref]
        # Turns of the tail and what other sources have are no memories.
        rest = [ref for ref in decisions if ref not in texts and ref in self._memories.by_ref]
        items = [
            self._item(decisions[ref], lane, texts.get(ref)) for ref in [*first, *rest][: self._arm.depth + len(first)]
        ]
        return tuple(items), len(first)

    def _item(self, decision: Decision, lane: MemoriesLane, text: str | None) -> Item:
        one = decision.candidate
        memory = self._memories.by_ref[one.ref].memory
        hit = lane.hits.get(one.ref)
        ranks = (hit.fts_rank, hit.vec_rank) if hit else (None, None)
        signals = Signals(one.ref, one.importance, one.scope, *ranks, decision.reasons[-1])
        return Item(
            memory.key, memory.text if text is None else text, (memory.key,), one.score, signals, decision.layer
        )

    def close(self) -> None:
        """Close the sources."""
        self._opened.close()

    def explain(
        self, ask: Ask, candidates: object, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Explain each memory by the reasons of the trace."""
        assert self._last is not None  # noqa: S101 - it explains its last recall
        # A source may have a record of the same key.
        memories = [one for one in self._last.decisions if one.candidate.ref in self._memories.by_ref]
        decisions = {one.candidate.sources[:1]: one for one in memories}
        injected = {item.id for item in recall.items[: recall.injected]}
        reasons: dict[str, str] = {}
        causes: dict[str, str] = {}
        for key in relevant:
            decision = decisions.get((key,))
            if key in injected or (decision is None and key not in self._memories.by_key):
                continue
            if decision is not None:
                causes[key] = CAUSES.get(decision.reasons[-1], "slot")
                reasons[key] = ", ".join(decision.reasons)
                continue
            scope = self._memories.by_key[key].memory.scope
            other = ask.scope not in (None, scope)
            causes[key] = "scope" if other else "depth"
            reasons[key] = (
                f"its scope is {scope}; the scope of the turn is {ask.scope}" if other else "no search found it"
            )
        settings = self._arm.settings
        about = f"{settings.limit} items, {settings.budget_tokens} tokens"
        return Explained(about, reasons=reasons, causes=causes)


def receipt_of(done: Pack) -> Mapping[str, Any]:
    """Return a short trace of a pack: every candidate with its layer and reasons, and no text."""
    counts = Counter(reason for one in done.decisions for reason in one.reasons)
    return {
        "receipt": RECEIPT,
        "tokens": tokens(done.bundle_text),
        "budget": done.settings.budget_tokens,
        "included": list(done.refs),
        "layers": dict(sorted(Counter(line.layer for line in done.lines).items())),
        "reasons": dict(sorted(counts.items())),
        "candidates": [[one.candidate.ref, one.layer if one.included else "", *one.reasons] for one in done.decisions],
        "lanes": [{"lane": found.lane, "reason": found.reason} for found in done.founds],
        **extensions(done),
    }
