"""Follow the turns of a replay: extractions, commands and tool calls become writes, touches and pins (RS-17 to RS-25).

Extractions have a cap, and may end at a later turn. Scopes are by agent and channel (RS-9).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from lab.base.formatting import folded
from lab.base.regex import regex
from lab.recordings.events import RecordedMemory, ToolEvent
from lab.recordings.model import Turn
from lab.systems.contract import NOTHING, Stored, Writes
from lab.systems.kit import Kit
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.document import (
    REMEMBER,
    Defaults,
    Document,
    abstract,
    extracted_defaults,
    importance_of_label,
    kind_of,
    put_defaults,
)
from lab.systems.rsclaw.extract import (
    MIN_CONFIDENCE,
    MOST_ITEMS,
    MOST_LESSONS,
    Candidate,
    Extractions,
    distinct,
    entities,
    failure,
    kept,
    lessons,
    main_pass,
    passes_gate,
)
from lab.systems.rsclaw.store import Documents, Draft

INTERNAL = ("heartbeat", "cron", "system")
CHAT = "chat"
_PARTS = regex(r"[:/]")


def default_scope(agent: str, channel: str) -> str:
    """Return the scope of an agent, which is separate for each internal channel."""
    return f"agent:{agent}:{channel}" if channel in INTERNAL else f"agent:{agent}"


def channel_of(session: str | None, scope: str | None) -> str:
    """Return the internal channel that a session's id or a scope names as one of its parts, else ``chat``.

    Ids look like ``agent:main:cron:backup``, scopes like ``agent:main:cron``.
    """
    parts = _PARTS.split(f"{session or ''}:{scope or ''}")
    return next((channel for channel in INTERNAL if channel in parts), CHAT)


Action = Literal["add", "search", "compact", "delete", "pin", "unpin"]
TOP_K, MOST_TOP_K = 5, 25
# The longest summary of a session, in characters.
SUMMARY = 1200
_COMMAND = regex(r"/(remember|recall)\s+(\S.*)|/(compact)", re.IGNORECASE | re.DOTALL)
_ACTIONS: dict[str, Action] = {
    "memory_add": "add",
    "memory_store": "add",
    "memory_search": "search",
    "memory_recall": "search",
    "memory_delete": "delete",
    "memory_forget": "delete",
    "memory_pin": "pin",
    "memory_unpin": "unpin",
}
_CHAT: dict[str, Action] = {"remember": "add", "recall": "search", "compact": "compact"}


class Order(NamedTuple):
    """One order. ``memory`` is what a tool stored, deleted or pinned; ``text`` is a text to store or a query.

    ``top_k`` is how many documents a search is for; ``scope`` is an explicit one.
    """

    action: Action
    text: str = ""
    memory: RecordedMemory | None = None
    scope: str | None = None
    top_k: int = TOP_K


def command_in(text: str) -> Order | None:
    """Return the chat command that a user's message consists of, if it is one."""
    match = _COMMAND.fullmatch(text.strip())
    if match is None:
        return None
    return Order(_CHAT[(match[1] or match[3]).lower()], (match[2] or "").strip())


def tool_orders(turn: Turn) -> Iterator[Order]:
    """Yield what the memory tools did at a turn, in order. Failed calls order nothing."""
    for event in turn.events:
        if not isinstance(event, ToolEvent) or event.failed or event.tool not in _ACTIONS:
            continue
        action = _ACTIONS[event.tool]
        if action == "search":
            if event.query.strip():
                yield Order(action, event.query, scope=event.scope, top_k=top_k_of(event.limit))
        else:
            yield from (Order(action, memory.text, memory, memory.scope or None) for memory in event.memories)


def top_k_of(limit: object) -> int:
    """Return how many results a search is for: 5 by default, from 1 to 25."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit:
        return TOP_K
    return int(min(max(limit, 1), MOST_TOP_K))


def session_summary(messages: Sequence[str]) -> str:
    """Return what /compact stores without a language model: the first sentence of each message, cut to length."""
    return "\n".join(filter(None, map(abstract, messages)))[:SUMMARY].strip()


# Extractions that may run at the same time; another one is dropped.
IN_FLIGHT = 4


class Proposed(NamedTuple):
    """A document to store, and the pass that proposed it."""

    via: str
    kind: str
    text: str
    defaults: Defaults


class Waiting(NamedTuple):
    """An extraction that ends at ``ready_ms``, and what it will store for the turn."""

    ready_ms: int
    turn: Turn
    proposed: tuple[Proposed, ...]


class Extractor:
    """The passes over the turns of one conversation.

    ``running`` are the extractions that have not ended. With ``extraction_ms`` 0 each ends at its own turn.
    """

    def __init__(self, settings: Settings, recorded: Extractions) -> None:
        self._settings, self._recorded = settings, recorded
        self.running: list[Waiting] = []
        self._results: list[str] = []
        self._answered = False

    def turn(self, turn: Turn) -> tuple[list[Proposed], dict[str, Any]]:
        """Read a turn; return what is to be stored at once, and the receipt (empty: nothing was read).

        What the extraction of the message itself proposes is in :attr:`running`.
        """
        if turn.role == "assistant":
            self._answered = True
            return [], {}
        if turn.role != "user":
            self._results.append(turn.text)
            candidate = failure(self._results) if self._settings.extractor == "rules" else None
            return ([_proposed("failure", candidate)], {"failure": True}) if candidate else ([], {})
        self._results.clear()
        if self._settings.extractor == "none":
            return [], {}
        certain = [_proposed("entity", candidate) for candidate in kept(entities(turn.text), MOST_ITEMS)]
        receipt = self._extract(turn, {folded(item.text) for item in certain})
        if certain:
            receipt["entities"] = len(certain)
        return certain, receipt

    def ended(self, now_ms: int) -> list[Waiting]:
        """Return the extractions that have ended by now, in the order of their turns."""
        done = [waiting for waiting in self.running if waiting.ready_ms <= now_ms]
        self.running = [waiting for waiting in self.running if waiting.ready_ms > now_ms]
        return done

    def new_session(self) -> None:
        """Begin a session: the messages and results of the last one no longer count."""
        self._results.clear()
        self._answered = False

    def _extract(self, turn: Turn, taken: set[str]) -> dict[str, Any]:
        """Start the extraction of a message, unless the gate or the cap prevents it; return its receipt."""
        settings, fold = self._settings, self._settings.fold_chinese
        # A correction needs something to correct.
        corrected = lessons(turn.text, fold=fold, style=settings.profile == "seed") if self._answered else []
        gate = passes_gate(turn.text, fold=fold)
        if not (gate or corrected):
            return {}
        if sum(waiting.ready_ms > turn.time_ms for waiting in self.running) >= IN_FLIGHT:
            return {"gate": gate, "dropped": "in_flight"}
        if settings.extractor == "recorded":
            candidates: Sequence[Candidate] = self._recorded.get(turn.key, ())
        else:
            candidates = [*corrected, *(main_pass(turn.text, fold=fold) if gate else ())]
        passes = _passes(candidates)
        # A sentence that is a lesson is stored once.
        items = distinct(
            _proposed(via, candidate)
            for via, most in (("lesson", MOST_LESSONS), ("failure", 1), ("main", MOST_ITEMS))
            for candidate in kept([item for item in passes[via] if folded(item.text) not in taken], most)
        )
        self.running.append(Waiting(turn.time_ms + settings.extraction_ms, turn, tuple(items)))
        receipt = {"gate": gate, "candidates": len(candidates), "kept": len(items)}
        receipt["low_confidence"] = sum(candidate.confidence < MIN_CONFIDENCE for candidate in candidates)
        return receipt | ({"recorded": turn.key in self._recorded} if settings.extractor == "recorded" else {})


def _passes(candidates: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    """Return candidates by the pass whose limit they share."""
    passes: dict[str, list[Candidate]] = {"lesson": [], "failure": [], "main": []}
    for candidate in candidates:
        passes[candidate.kind if candidate.kind in passes else "main"].append(candidate)
    return passes


def _proposed(via: str, candidate: Candidate) -> Proposed:
    defaults = extracted_defaults(candidate.kind)
    if candidate.importance is not None:
        defaults = defaults._replace(importance=candidate.importance)
    return Proposed(via, candidate.kind, candidate.text, defaults)


RECEIPT = "rsclaw.write.receipt.v1"
Touch = Callable[[str, str | None, int, int], None]


class Observer:
    """The write side of one conversation; without ``kit.captures`` it only touches and pins."""

    def __init__(
        self, settings: Settings, extractions: Extractions, kit: Kit, documents: Documents, touch: Touch
    ) -> None:
        self._settings, self._kit, self._documents, self._touch = settings, kit, documents, touch
        self._recorded = extractions
        self._extractor = Extractor(settings, extractions)
        self._said: list[str] = []
        # What tools stored by the ids of the live engine, by which they delete and pin.
        self._live: dict[str, str] = {}
        self._turn_writes = _TurnWrites()
        self._number: dict[str, int] = {}

    def new_session(self) -> None:
        """Begin a session."""
        self._said.clear()
        self._extractor.new_session()

    def observe(self, turn: Turn) -> Writes:
        """Follow a turn; return what was written."""
        self._turn_writes = writes = _TurnWrites()
        order = command_in(turn.text) if turn.role == "user" else None
        if order is not None:
            self._follow(order, turn)
        elif self._kit.captures:
            at_once, receipt = self._extractor.turn(turn)
            writes.receipt.update(receipt)
            for proposed in at_once:
                self._put(proposed, turn, turn)
            if turn.role in ("user", "assistant") and turn.text.strip():
                self._said.append(turn.text)
        for waiting in self._extractor.ended(turn.time_ms) if self._kit.captures else ():
            for proposed in waiting.proposed:
                self._put(proposed, waiting.turn, turn)
        if self._settings.tool_calls:
            for called in tool_orders(turn):
                self._follow(called, turn)
        return writes.done(self._settings.extractor)

    def _follow(self, order: Order, turn: Turn) -> None:
        """Carry out a command or a call of a tool. Without captures nothing may be stored or deleted."""
        scope = order.scope or self._search_scope(turn)
        if order.action == "add" and order.memory is not None:
            self._live[order.memory.id] = order.text
        if order.action == "search":
            self._touch(order.text, scope, order.top_k, turn.time_ms)
        elif order.action in ("pin", "unpin"):
            document = self._named(order)
            if document is not None:
                self._documents.pin(document, turn.time_ms // 1000, pinned=order.action == "pin")
        elif not self._kit.captures:
            return
        elif order.action == "compact":
            self._compact(turn)
        elif order.action == "delete":
            document = self._named(order)
            if document is not None:
                self._documents.delete(document)
                self._turn_writes.deleted(document)
        elif order.text.strip():
            self._add(order, turn)

    def _add(self, order: Order, turn: Turn) -> None:
        memory = order.memory
        kind = REMEMBER if memory is None else kind_of(memory.category) if memory.category else self._settings.add_kind
        defaults = put_defaults(kind)
        if memory is not None:
            defaults = defaults._replace(importance=importance_of_label(memory.label, defaults.importance))
        via = "command" if memory is None else "tool"
        self._put(Proposed(via, kind, order.text, defaults), turn, turn, order.scope)

    def _compact(self, turn: Turn) -> None:
        recorded = [candidate for candidate in self._recorded.get(turn.key, ()) if candidate.kind == "summary"]
        text = recorded[0].text if recorded else session_summary(self._said)
        self._said.clear()
        if text:
            self._put(Proposed("command", "summary", text, put_defaults("summary")), turn, turn)

    def _put(self, proposed: Proposed, source: Turn, turn: Turn, scope: str | None = None) -> Document:
        number = self._number.get(source.key, 0)
        draft = Draft(
            proposed.kind,
            proposed.text,
            proposed.defaults,
            f"{source.key}#{number}",
            scope or self._write_scope(source),
            source.scope,
            (source.key,),
        )
        similar = proposed.via not in ("command", "tool")
        document, is_new = self._documents.put(draft, turn.time_ms // 1000, similar=similar)
        self._number[source.key] = number + is_new
        self._turn_writes.put(document, proposed.via, is_new=is_new)
        return document

    def _named(self, order: Order) -> Document | None:
        """Return the document that a tool names by the live engine's id, by a key of the lab, or by its text."""
        memory = order.memory
        if memory is None:
            return None
        text = self._live.get(memory.id) or memory.text
        document = self._documents.by_key.get(memory.id)
        return document or next(
            (other for other in self._documents.by_id.values() if text and other.text == text), None
        )

    def _write_scope(self, turn: Turn) -> str:
        if self._kit.scoping == "given":
            return turn.scope
        return default_scope(self._settings.agent, channel_of(turn.session, turn.scope))

    def _search_scope(self, turn: Turn) -> str | None:
        if self._kit.captures or self._kit.scoping == "given":
            return self._write_scope(turn)
        return None


class _TurnWrites:
    """What was written at one turn; each document is listed once."""

    def __init__(self) -> None:
        self.receipt: dict[str, Any] = {}
        self._created: dict[str, Document] = {}
        self._updated: dict[str, Document] = {}
        self._deleted: list[str] = []
        self._via: dict[str, int] = {}

    def put(self, document: Document, via: str, *, is_new: bool) -> None:
        """Note a document that was stored or refreshed."""
        self._via[via] = self._via.get(via, 0) + 1
        if is_new:
            self._created[document.keys[0]] = document
        elif document.keys[0] not in self._created:
            self._updated[document.keys[0]] = document

    def deleted(self, document: Document) -> None:
        """Note a deletion; what was created at the same turn leaves no trace."""
        key = document.keys[0]
        self._updated.pop(key, None)
        if self._created.pop(key, None) is None:
            self._deleted.append(key)

    def done(self, extractor: str) -> Writes:
        """Return the writes with their receipt."""
        if not (self.receipt or self._created or self._updated or self._deleted):
            return NOTHING
        kinds: dict[str, int] = {}
        for document in self._created.values():
            kinds[document.kind] = kinds.get(document.kind, 0) + 1
        receipt = {"receipt": RECEIPT, "extractor": extractor} | self.receipt
        receipt |= {"created": kinds, "refreshed": len(self._updated), "deleted": len(self._deleted), "via": self._via}
        created, updated = (
            tuple(Stored(key, document.text, document.sources) for key, document in part.items())
            for part in (self._created, self._updated)
        )
        return Writes(created, updated, tuple(self._deleted), receipt)
