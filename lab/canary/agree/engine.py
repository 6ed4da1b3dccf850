"""Run the lab's engine over the memories of a live store: automatic recalls turn by turn, and searches at any time.

The recalls that transcripts record are on the same clock: results of ``memory_recall``, and injected blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from lab.base.errors import CannotMeasure
from lab.embedding.embedder import QUERY
from lab.recordings.events import InjectedBlock, RecordedMemory, ToolEvent
from lab.recordings.model import GLOBAL, UNKNOWN, Memory, Recording, Turn
from lab.recordings.openclaw.tools import FORGET, RECALL, STORE
from lab.replay.loop import RecallCall, replay
from lab.replay.plan import Plan
from lab.replay.sources import Sources, play_of, tools_of
from lab.retrieval.contract import Filter, Row
from lab.retrieval.retrievers import QueryContext, StoreRetriever, query_text
from lab.systems.contract import Detail, Explains
from lab.systems.openclaw.arms import FlowArm
from lab.systems.openclaw.memory import Listing, row_of
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.recall_tool import DEFAULT_LIMIT, MAX_LIMIT, agent_recall, clamp_limit

Kind = Literal["tool", "injected"]


class Recorded(NamedTuple):
    """One recall of the live engine: at the user's turn ``turn`` of a conversation, at epoch ms ``time_ms``."""

    conversation: str
    turn: str
    seq: int
    time_ms: int
    event: ToolEvent | InjectedBlock

    @property
    def kind(self) -> Kind:
        """Whether the agent searched or the engine injected."""
        return "tool" if isinstance(self.event, ToolEvent) else "injected"


@dataclass(frozen=True, slots=True)
class History:
    """What the transcripts record: recalls in order of time, and how often the agent searched.

    ``failed`` counts calls of ``memory_recall`` without a usable result, ``by_host`` those that answered a message of
    the host. ``searching`` are the keys of the user's turns at which the agent searched.
    """

    recalls: tuple[Recorded, ...]
    failed: int
    by_host: int
    user_turns: int
    searching: frozenset[str]


def history(recordings: Sequence[Recording]) -> History:
    """Collect the recorded recalls of conversations."""
    recalls, failed, by_host, searching = [], 0, 0, set()
    for recording, turn, event in _events(recordings):
        if isinstance(event, ToolEvent):
            if event.tool != RECALL:
                continue
            failed += event.failed
            by_host += event.for_host
            if turn.role == "user" and not event.for_host:
                searching.add(turn.key)
            if event.failed:
                continue
        time_ms = event.time_ms if isinstance(event, ToolEvent) else turn.time_ms
        recalls.append(Recorded(recording.conversation, turn.key, turn.seq, time_ms, event))
    recalls.sort(key=lambda recorded: (recorded.time_ms, recorded.conversation, recorded.seq))
    users = sum(turn.role == "user" for recording in recordings for turn in recording.turns)
    return History(tuple(recalls), failed, by_host, users, frozenset(searching))


@dataclass(frozen=True, slots=True)
class Deletions:
    """The memories that the agent deleted: the time of the deletion, epoch ms, by id and by text."""

    ids: Mapping[str, int]
    texts: Mapping[str, int]

    def of(self, memory: RecordedMemory) -> int | None:
        """Return when a memory was deleted; None if no transcript shows it."""
        return self.ids.get(memory.id) if memory.id else self.texts.get(memory.text)


def deletions(recordings: Sequence[Recording]) -> Deletions:
    """Collect what ``memory_forget`` deleted in any conversation, because they share one store."""
    ids: dict[str, int] = {}
    texts: dict[str, int] = {}
    for _, _, event in _events(recordings):
        if isinstance(event, ToolEvent) and event.tool == FORGET:
            for memory in event.memories:
                ids[memory.id] = event.time_ms
                if memory.text:
                    texts[memory.text] = event.time_ms
    return Deletions(ids, texts)


def stored_by_tools(recordings: Sequence[Recording], *, seen: bool = False) -> tuple[Memory, ...]:
    """Return what ``memory_store`` stored in any conversation, in order of time, under the ids of the live engine.

    With ``seen``, also the memories that searches returned, from the time of creation that their results name: the
    engine's own captures, for example.
    """
    stored: list[tuple[int, RecordedMemory]] = []
    for _, _, event in _events(recordings):
        if isinstance(event, ToolEvent) and event.tool == STORE:
            stored += [(event.time_ms, memory) for memory in event.memories]
    known = {memory.id for _, memory in stored}
    for _, _, event in _events(recordings) if seen else ():
        if isinstance(event, ToolEvent) and event.tool == RECALL:
            for shown in event.memories:
                if shown.created_at is not None and shown.id and shown.text.strip() and shown.id not in known:
                    known.add(shown.id)
                    stored.append((shown.created_at, shown))
    stored.sort(key=lambda pair: pair[0])
    by_id: dict[str, Memory] = {}
    for place, (time_ms, shown) in enumerate(stored):
        memory = Memory(
            shown.id,
            shown.text,
            shown.text,
            visible_from=0,
            created_at=time_ms,
            category=shown.category or "other",
            scope=shown.scope or GLOBAL,
            label=shown.label or UNKNOWN,
            trust=shown.trust or "user",
            place=place,
        )
        by_id.setdefault(shown.id, memory)
    return tuple(by_id.values())


def over_time(recording: Recording, memories: Iterable[Memory], gone: Mapping[str, int]) -> Recording:
    """Return a conversation with the memories of a store; ``gone`` has the times at which some were deleted, by key."""
    times = [turn.time_ms for turn in recording.turns]
    placed = [
        replace(
            memory,
            visible_from=bisect_left(times, memory.created_at),
            visible_until=bisect_left(times, gone[memory.key]) if memory.key in gone else None,
        )
        for memory in memories
    ]
    return replace(recording, memories=tuple(placed))


def _events(recordings: Sequence[Recording]) -> Iterator[tuple[Recording, Turn, ToolEvent | InjectedBlock]]:
    for recording in recordings:
        for turn in recording.turns:
            for event in turn.events:
                yield recording, turn, event


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
        self._sources.vectors.prepare([query_text(query, limits) for query in queries], role=QUERY)
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
