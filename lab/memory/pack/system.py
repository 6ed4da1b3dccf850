"""``pack``: candidates of both searches, packed into a small cited bundle within a budget (PK-12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from lab.base.token_estimate import tokens
from lab.memory.pack.candidate import Lane
from lab.memory.pack.governance import IS_SUPERSEDED, TRUST_REASONS
from lab.memory.pack.lines import DUPLICATE, MAX_ITEMS, OVER_BUDGET, Decision
from lab.memory.pack.memories_lane import Memories, MemoriesLane
from lab.memory.pack.packer import Pack, gather, pack
from lab.memory.pack.settings import Settings, describe, read_settings
from lab.memory.pack.sources import Sources, read_sources
from lab.memory.pack.trace import extensions
from lab.recordings.model import Memory, Turn
from lab.retrieval.faults import HARMLESS
from lab.retrieval.query_context import QueryContext, Retrieval
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
from lab.systems.spec import ArmSpec

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
