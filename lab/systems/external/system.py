"""An external system in one conversation, as the loop sees it: live, or from recorded answers (EX-12 to EX-21).

A host may quote memories in its receipts, and a run holds no texts, so they are left out here (EX-18).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lab.base.code import __version__
from lab.base.errors import UnusableInput
from lab.base.files import digest, sha256_bytes
from lab.embedding.server import EmbeddingServer
from lab.recordings.model import Memory, Turn
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.systems.contract import NOTHING, Ask, Detail, Explained, Item, MemorySystem, Recall, Signals, Stored, Writes
from lab.systems.external.answers import DIGITS, Chain, Exchange, Player, Recorder
from lab.systems.external.protocol import VERSION, HostFailed, shown_name
from lab.systems.external.session import HostIds, ProbeInstance, Request, Session
from lab.systems.kit import Kit
from lab.systems.openclaw.capture.secrets import holds_secret

# Ids, reasons, labels, versions and times: without spaces, and short.
_WORD = re.compile(r"[A-Za-z0-9_.:@/+#=-]{0,100}", re.ASCII)

# The last number of a key, and what follows it.
_NUMBER = re.compile(r"(\d+)(\D*)$", re.ASCII)


def word(text: str) -> str:
    """Return a text if it is a word that quotes nothing, else the beginning of its digest."""
    if _WORD.fullmatch(text) and not holds_secret(text):
        return text
    return f"sha256:{sha256_bytes(text.encode('utf-8', 'surrogatepass'))[:16]}"


def without_texts(value: Any) -> Any:
    """Return a JSON value with every string, names included, as by :func:`word`, and no number that is not finite."""
    if isinstance(value, str):
        return word(value)
    if isinstance(value, dict):
        return {word(name): without_texts(content) for name, content in value.items()}
    if isinstance(value, list | tuple):
        return [without_texts(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    # Integers beyond 64 bits cannot be written into a receipt.
    return float(value) if type(value) is int and not -(1 << 63) <= value < 1 << 64 else value


def text_if_free(receipt: str | None) -> str | None:
    """Return a receipt as its system wrote it if it is JSON without texts, else None."""
    if receipt is None:
        return None
    try:
        value = json.loads(receipt)
        return receipt if isinstance(value, dict) and without_texts(value) == value else None
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Opening:
    """What an arm gives its systems: how to open a session in a home, the identity of the host, and its limits."""

    arm: str
    identity: Mapping[str, Any]
    open: Callable[[Path], Session]
    settings: Mapping[str, Any]
    embedder: Mapping[str, Any]
    max_items: int | None
    depth: int
    folder: Path
    is_recorded: bool
    has_home: bool


class Source(Protocol):
    """Where answers come from."""

    def ask(self, request: Request, *, probe: bool, faults: Faults) -> Exchange:
        """Return the answer to the next request, a failure included; the lab's embedder obeys the faults."""
        ...

    def close(self) -> None:
        """Release resources."""
        ...


class Live:
    """A running host. Every answer is recorded; after a failure no more requests are sent."""

    def __init__(self, opening: Opening, kit: Kit, recorder: Recorder, hello: Mapping[str, Any]) -> None:
        self._opening, self._kit, self._recorder = opening, kit, recorder
        self._hello = hello
        self._chain = Chain()
        self._session: Session | None = None
        self._has_failed = False
        # For instances that answer a probe: all requests that are no probes, with the results.
        self._requests: list[tuple[Request, Mapping[str, Any] | None]] = []
        self._homes = 0
        self._embedder = self._served()

    def ask(self, request: Request, *, probe: bool, faults: Faults) -> Exchange:
        """Query the host, or a fresh instance of it if a probe leaves a trace in the host."""
        chain = self._chain.add(request.op, request.body, faults)
        if self._embedder is not None:
            self._embedder.faults = faults
            # In bulk, so that a time-out is the host's own, and no latency holds the time of the lab's model.
            self._kit.vectors.prepare(_texts_of(request))
        fresh = probe and self._opening.identity["probes"] == "fresh"
        try:
            result, spent = self._ask_fresh(request) if fresh else self._ask_first(request)
            exchange = Exchange(chain, spent, result)
        except HostFailed as error:
            exchange = Exchange(chain, 0, None, (error.kind, error.place, error.op or request.op))
            # A fresh instance does not affect the first one, and an error that a host reports is an answer.
            self._has_failed |= not fresh and error.kind != "host_error"
        if self._embedder is not None and self._embedder.error is not None:
            # What the host made of an error of the lab is no measurement.
            raise self._embedder.error
        if request.op == "prove" and exchange.result is not None and self._embedder is not None:
            exchange = exchange._replace(result={**exchange.result, "embedder_asked": self._embedder.texts})
        if not probe and request.op != "prove":
            self._requests.append((request, exchange.result))
        self._recorder.add(exchange)
        return exchange

    def close(self) -> None:
        """End the host, and write what it answered."""
        errors = ""
        if self._session is not None:
            self._session.close(politely=not self._has_failed)
            errors = self._session.channel.errors()
        if self._embedder is not None:
            self._embedder.close()
        self._recorder.save(errors)

    def _ask_first(self, request: Request) -> tuple[dict[str, Any], int]:
        if self._session is None:
            self._session = self._opened()
        return self._session.ask(request)

    def _ask_fresh(self, request: Request) -> tuple[dict[str, Any], int]:
        session = self._opened()
        has_failed = True
        try:
            instance = ProbeInstance(session)
            for earlier, expected in self._requests:
                instance.follow(earlier, expected)
            answer = instance.recall(request)
            has_failed = False
            return answer
        finally:
            session.close(politely=not has_failed)

    def _opened(self) -> Session:
        """Start an instance and greet it. Raises :class:`HostFailed` if it is not the one of the manifest."""
        self._homes += 1
        home = self._kit.scratch / f"home-{self._homes}"
        home.mkdir()
        session = self._opening.open(home)
        server = self._embedder
        endpoint = {"url": server.url, "model": server.model, "dimension": server.dimension} if server else None
        hello = {**self._hello, "home": str(home) if self._opening.has_home else None, "embedder": endpoint}
        try:
            self._greet(session, hello)
        except BaseException:
            session.close(politely=False)
            raise
        return session

    def _greet(self, session: Session, hello: Mapping[str, Any]) -> None:
        result, _ = session.ask(Request.of("hello", hello))
        if identity_in(result) != self._opening.identity:
            raise HostFailed("other_identity", "", "hello")

    def _served(self) -> EmbeddingServer | None:
        """Serve the lab's embedder to a host that needs one (EX-21)."""
        if "embedder" not in self._opening.identity["needs"]:
            return None
        offered = self._opening.embedder
        model = offered.get("model") or str(self._kit.embedder.identity()["model"])
        try:
            return EmbeddingServer(self._kit.vectors, model, offered.get("dimension"))
        except UnusableInput as error:
            raise UnusableInput(f"arm {self._opening.arm}: embedder in its file: {error}") from None


def _texts_of(request: Request) -> list[str]:
    """Return the texts of a request that a host is likely to embed."""
    if request.op == "remember":
        return [memory["text"] for memory in request.fields["memories"]]
    return [request.fields["text"]] if request.op == "recall" else []


class Recorded:
    """Recorded answers in place of a host (EX-20)."""

    def __init__(self, player: Player) -> None:
        self._player, self._chain = player, Chain()

    def ask(self, request: Request, *, probe: bool, faults: Faults) -> Exchange:
        """Return the recorded answer."""
        return self._player.next(self._chain.add(request.op, request.body, faults), request.op)

    def close(self) -> None:
        """Do nothing."""


class ExternalSystem(MemorySystem):
    """The system. The host is started at the first request, so that it receives the time of the recording."""

    def __init__(self, opening: Opening, kit: Kit) -> None:
        self._opening, self._kit = opening, kit
        self._source: Source | None = None
        self._failed: HostFailed | None = None
        self._ids = HostIds()
        self._texts: dict[str, str] = {}
        self._stored: dict[str, Stored] = {}
        # Turn and session of the last turn, and the number of probes since.
        self._last: tuple[str, str | None] = ("", None)
        self._probes = 0

    def remember(self, memories: Sequence[Memory]) -> None:
        """Give memories to the host, and keep the ids that it gives them."""
        given = [
            {
                "key": memory.key,
                "text": memory.text,
                "index_text": memory.index_text,
                "created_at": memory.created_at,
                "category": memory.category,
                "label": memory.label,
                "scope": memory.scope,
                "trust": memory.trust,
                "hard_rule": memory.hard_rule,
            }
            for memory in memories
        ]
        result, _ = self._ask("remember", {"memories": given})
        self._texts.update((memory.key, memory.text) for memory in memories)
        self._ids.remember({memory.key: memory.text for memory in memories}, result["ids"])

    def forget(self, keys: Sequence[str]) -> None:
        """Have the host forget memories."""
        self._ask("forget", {"keys": list(keys)})
        self._ids.forget(keys)

    def recall(self, ask: Ask) -> Recall:
        """Return the host's answer in terms of the contract."""
        turn, session, is_told = self._shown(ask)
        result, spent = self._ask(
            "recall",
            {
                "turn": turn,
                "text": ask.text,
                "scope": ask.scope,
                "scoping": ask.scoping,
                "session": session,
                "probe": is_told,
            },
            probe=ask.probe,
            faults=ask.faults,
        )
        writes = self._writes(result["writes"], {}) if result.get("writes") else NOTHING
        items = tuple(self._item(item) for item in result["items"])
        injected = result["injected"]
        if injected is None:
            injected = 0 if result["status"] == "skipped" else len(items)
        reason = {"reason": word(result["reason"])} if result["reason"] is not None else {}
        return Recall(
            items,
            injected,
            result["context"],
            {**reason, **without_texts(result["receipt"] or {})},
            {"recall": spent},
            result["status"],
            tuple(self._ids.key_of(identity) for identity in result["pinned"]),
            writes=writes,
            receipt_text=text_if_free(result["receipt_text"]),
            evicted=result["evicted"],
        )

    def _shown(self, ask: Ask) -> tuple[str, str | None, bool]:
        """Return the turn and session of a query as the host receives them, and whether it knows of a probe (EX-15).

        Nothing that a stateless host could do at a probe would last, so it needs not know which recalls are probes: a
        question after the last turn has the key of a next turn, in the same session.
        """
        if not ask.probe:
            self._last, self._probes = (ask.turn, ask.session), 0
        if not ask.probe or self._opening.identity["stateful"]:
            return ask.turn, ask.session, ask.probe
        if ask.session is not None:
            return ask.turn, ask.session, False
        self._probes += 1
        key, session = self._last
        number = _NUMBER.search(key)
        if number is None:
            return f"{key}/{self._probes}", session, False
        return f"{key[: number.start()]}{int(number[1]) + self._probes:0{len(number[1])}}{number[2]}", session, False

    def observe(self, turn: Turn) -> Writes:
        """Show a turn to a host that wants to see them."""
        self._last, self._probes = (turn.key, turn.session), 0
        if not self._opening.identity["observes"]:
            return NOTHING
        shown = {
            "key": turn.key,
            "seq": turn.seq,
            "session": turn.session,
            "role": turn.role,
            "text": turn.text,
            "speaker": turn.speaker,
            "scope": turn.scope,
            "time_ms": turn.time_ms,
        }
        result, _ = self._ask("observe", {"turn": shown})
        return self._writes(result, result["receipt"] or {})

    def prove(self) -> dict[str, Any]:
        """Return the host's counters of what took place since it was opened, for admission (EX-22)."""
        result, _ = self._ask("prove", {})
        return {name: without_texts(value) for name, value in result.items() if value is not None}

    def close(self) -> None:
        """End the host."""
        if self._source is not None:
            self._source.close()

    def explain(
        self, ask: Ask, candidates: object, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Explain each memory by its rank in the host's answer, which is all that is known of it (EX-23)."""
        ranks = {item.id: rank for rank, item in enumerate(recall.items, 1)}
        reasons: dict[str, str] = {}
        causes: dict[str, str] = {}
        for key in relevant:
            rank = ranks.get(key)
            if rank is not None and rank <= recall.injected:
                continue
            if rank is not None:
                reasons[key], causes[key] = f"ranked {rank}; only the first {recall.injected} are injected", "slot"
            elif recall.status == "skipped":
                reasons[key], causes[key] = "the host kept silent", "silent"
            elif key in self._ids.unkept:
                reasons[key], causes[key] = "the host did not keep it", "depth"
            else:
                reasons[key], causes[key] = "the host did not return it", "depth"
        reason = recall.receipt.get("reason")
        head = (f"reason: {reason}",) if reason else ()
        about = shown_name(f"{self._opening.identity['name']}:{self._opening.identity['version']}")
        beyond = tuple(item.id for item in recall.items[recall.injected : recall.injected + 3])
        return Explained(about, reasons=reasons, causes=causes, runners_up=beyond, head=head)

    def _ask(
        self, op: str, fields: Mapping[str, Any], *, probe: bool = False, faults: Faults = NO_FAULTS
    ) -> tuple[dict[str, Any], int]:
        """Return a result and its time. Raises :class:`HostFailed`, and again for every request after a failure."""
        if self._failed is not None:
            raise self._failed
        if self._source is None:
            self._source = self._opened()
        timed = {"now_ms": self._kit.clock.now_ms, **fields} if op not in ("prove", "close") else fields
        exchange = self._source.ask(Request.of(op, timed), probe=probe, faults=faults)
        try:
            return exchange.outcome(), exchange.ns
        except HostFailed as error:
            is_final = error.kind != "host_error" and not (probe and self._opening.identity["probes"] == "fresh")
            if is_final:
                self._failed = error
            raise

    def _opened(self) -> Source:
        opening, kit = self._opening, self._kit
        hello = {
            "protocol": VERSION,
            "lab": __version__,
            "conversation": kit.conversation,
            "seed": kit.seed,
            "scoping": kit.scoping,
            "captures": kit.captures,
            "replies": kit.replies,
            "now_ms": kit.clock.now_ms,
            "max_items": opening.max_items,
            "depth": opening.depth,
            "settings": dict(opening.settings),
        }
        embedder = [kit.embedder.identity(), dict(opening.embedder)] if "embedder" in opening.identity["needs"] else []
        without_version = {name: value for name, value in hello.items() if name != "lab"}
        name = digest([dict(opening.identity), without_version, embedder])[:DIGITS]
        if opening.is_recorded:
            return Recorded(Player(opening.folder, name, opening.arm))
        return Live(opening, kit, Recorder(opening.folder, name), hello)

    def _item(self, item: Mapping[str, Any]) -> Item:
        identity = item["id"]
        text = item.get("text")
        key = self._ids.key_of(identity, text)
        stored = self._stored.get(key)
        if text is None:
            text = stored.text if stored else self._texts.get(key, "")
        sources = item.get("sources")
        if sources is None:
            sources = stored.sources if stored else ()
        optional = {name: item.get(name) for name in ("label", "scope", "decision")}
        signals = Signals(
            id=word(identity),
            fts_rank=item.get("fts_rank"),
            vec_rank=item.get("vec_rank"),
            **{name: None if value is None else word(value) for name, value in optional.items()},
        )
        tier = item.get("tier")
        return Item(key, text, tuple(sources), float(item.get("score") or 0.0), signals, tier and word(tier))

    def _writes(self, result: Mapping[str, Any], receipt: Mapping[str, Any]) -> Writes:
        created, updated = (
            tuple(Stored(row["id"], row["text"], tuple(row.get("sources") or ())) for row in result.get(name) or ())
            for name in ("created", "updated")
        )
        deleted = tuple(result.get("deleted") or ())
        self._stored.update((row.id, row) for row in (*created, *updated))
        for identity in deleted:
            self._stored.pop(identity, None)
        return Writes(created, updated, deleted, without_texts(dict(receipt)))


def identity_in(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return who answers, from the checked result of hello (EX-16): its fields, with defaults resolved."""
    identity = {name: list(value) if isinstance(value, tuple) else value for name, value in result.items()}
    if identity["depth"] is None:
        identity["depth"] = identity["cutoff"]
    if identity["observes"] is None:
        identity["observes"] = identity["writes"]
    if not identity["stateful"]:
        identity["probes"] = "same"
    return identity
