"""The lab's engine over the memories of a live store: automatic recalls turn by turn, and searches at any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.base.errors import CannotMeasure
from lab.canary.agree.recorded import Recorded
from lab.embedding.embedder import QUERY
from lab.recordings.events import ToolEvent
from lab.recordings.model import Memory, Recording
from lab.replay.loop import RecallCall, replay
from lab.replay.plan import Plan
from lab.replay.sources import Sources, play_of, tools_of
from lab.retrieval.contract import Filter
from lab.retrieval.query_context import QueryContext
from lab.retrieval.retrievers import StoreRetriever, embedded_text
from lab.retrieval.row import Row
from lab.systems.contract import Detail, Explains
from lab.systems.openclaw.arms import FlowArm
from lab.systems.openclaw.listing import Listing
from lab.systems.openclaw.memory import row_of
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.recall_tool import DEFAULT_LIMIT, MAX_LIMIT, agent_recall, clamp_limit


class Given(NamedTuple):
    """A memory that the lab's engine returned: its key, tier or label, score, and squared distance (None: unknown)."""

    key: str
    tier: str
    score: float | None
    distance: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the lab's engine returned at one recall.

    ``candidates`` are the keys that any search of the recall returned (None: unknown). ``scope`` is the scope that was
    searched, and ``scopes`` are it and the fallbacks. ``fts`` and ``vec`` are the numbers of hits of each lane (None:
    not counted). ``reasons``: why the engine did not return a memory, by key, as one of the words of ``lab missed``.
    """

    memories: tuple[Given, ...]
    scope: str = ""
    scopes: tuple[str, ...] = ()
    candidates: frozenset[str] | None = None
    fts: int | None = None
    vec: int | None = None
    reasons: Mapping[str, str] | None = None

    @property
    def keys(self) -> list[str]:
        """The keys of the memories, in order."""
        return [given.key for given in self.memories]


class Automatic(NamedTuple):
    """An automatic recall at a user's turn, and what explains it while the engine is in the state of that turn."""

    conversation: str
    turn: str
    answer: Answer


def automatic(
    plan: Plan, recording: Recording, sources: Sources, relevant: Mapping[str, Sequence[str]]
) -> Iterator[Automatic]:
    """Yield the automatic recall at every recall turn of a conversation.

    ``relevant`` names the memories to explain if they were not injected, by turn. Raises :class:`CannotMeasure` if a
    recall fails.
    """
    play = play_of(plan, recording, tools_of(plan, recording, sources))
    by_key = {memory.key: memory for memory in play.memories}
    calls: list[RecallCall] = []
    for answered in replay(play, plan.arms, on_recall=calls.append, infos=plan.infos):
        call, recall = calls.pop(), answered.recall
        if answered.failure:
            raise CannotMeasure(f"{answered.point.key}: the recall fails: {answered.failure}")
        reasons: Mapping[str, str] = {}
        to_explain = [
            key for key in relevant.get(answered.point.key, ()) if by_key[key].is_visible_at(answered.point.seq)
        ]
        if to_explain and isinstance(call.system, Explains):
            reasons = call.system.explain(call.ask, call.candidates, recall, to_explain, Detail()).causes
        memories = tuple(Given(item.id, item.tier or "", item.score) for item in recall.items[: recall.injected])
        scope = recall.receipt.get("scope")
        answer = Answer(memories, scope if isinstance(scope, str) else "", reasons=reasons)
        yield Automatic(recording.conversation, answered.point.key, answer)


class Searches:
    """The store over time, for searches of the agent; :meth:`search` must be called in order of time."""

    def __init__(
        self, arm: FlowArm, sources: Sources, store: str, memories: Sequence[Memory], gone: Mapping[str, int]
    ) -> None:
        """Start with an empty store. ``memories`` are labelled; ``gone`` has the times of deletions by key."""
        self._arm = arm
        self._retriever: StoreRetriever = sources.retriever(arm.retrieval, store)
        ordered = sorted(memories, key=lambda memory: (memory.created_at, memory.key))
        self._coming = deque((memory.created_at, row_of(memory)) for memory in ordered)
        known = {row.key: row for _, row in self._coming}
        self._ends = deque(sorted((time_ms, key) for key, time_ms in gone.items() if key in known))
        self._known = known
        self._sources = sources

    def prepare(self, queries: Sequence[str]) -> None:
        """Embed and tokenise queries in bulk."""
        limits = self._arm.retrieval.clamp
        self._sources.vectors.prepare([embedded_text(query, limits) for query in queries], role=QUERY)
        for words in self._sources.words.values():
            words.prepare(queries)

    def search(self, recorded: Recorded) -> Answer:
        """Return the lab's answer to a recorded search, from the memories in the store at that time."""
        event = recorded.event
        if not isinstance(event, ToolEvent):
            raise TypeError("an injected block is no search")
        self._advance(recorded.time_ms)
        query = event.query.strip()
        context = self._retriever.retrieve(query)
        limit = DEFAULT_LIMIT if event.limit is None else clamp_limit(event.limit)
        memories = Memories.of(context, Listing())
        recalled = agent_recall(event.query, self._arm.config, memories, limit=limit, scope=event.scope)
        scope = str(recalled.receipt["scope"])
        consulted = recalled.receipt.get("fallback", {}).get("consultedScopes", ())
        scopes = tuple(dict.fromkeys((scope, *consulted)))
        return Answer(
            tuple(
                Given(row.key, pick.tier, pick.candidate.score, pick.candidate.distance or None)
                for pick, row in recalled.hits
            ),
            scope,
            scopes,
            _candidates(context, scopes, min(MAX_LIMIT, 2 * limit)),
            recalled.receipt["ftsCount"],
            recalled.receipt["vecCount"],
        )

    def close(self) -> None:
        """Close the store."""
        self._retriever.close()

    def _advance(self, time_ms: int) -> None:
        """Add the memories stored until a time, and remove those deleted until then."""
        born: list[Row] = []
        while self._coming and self._coming[0][0] <= time_ms:
            born.append(self._coming.popleft()[1])
        if born:
            self._retriever.add(born)
        ended: list[Row] = []
        while self._ends and self._ends[0][0] <= time_ms:
            row = self._known[self._ends.popleft()[1]]
            if self._retriever.known(row.id):
                ended.append(row)
        if ended:
            self._retriever.remove(ended)


def _candidates(context: QueryContext, scopes: Sequence[str], depth: int) -> frozenset[str]:
    """Return the keys that a search of any label in any of these scopes returns at a depth."""
    labels = {row.importance_label for row in context.present}
    found: set[str] = set()
    for scope in scopes:
        for label in labels:
            lanes = context.view.search(Filter(scope, (label,)), depth)
            found |= {context.rows[hit.row].key for hit in (*lanes.fts, *lanes.vec)}
    return frozenset(found)
