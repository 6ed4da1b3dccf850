"""Follow the turns of a replay: extractions, commands and tool calls become writes, touches and pins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.recordings.model import Turn
from lab.systems.contract import NOTHING, Stored, Writes
from lab.systems.kit import Kit
from lab.systems.rsclaw.commands import Order, command_in, session_summary, tool_orders
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.document import REMEMBER, Document, importance_of_label, kind_of, put_defaults
from lab.systems.rsclaw.recorded import Extractions
from lab.systems.rsclaw.scopes import channel_of, default_scope
from lab.systems.rsclaw.store import Documents, Draft
from lab.systems.rsclaw.writing import Extractor, Proposed

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
