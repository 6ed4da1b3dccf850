"""An external system as an arm, and in one conversation as the loop sees it (EX-11 to EX-21).

The arm is ``--arm NAME=exec:COMMAND``, ``--arm NAME=http:URL``, or a file. Its answers are live or recorded.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.base.code import __version__
from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import digest
from lab.base.regex import regex
from lab.base.shape import expect
from lab.embedding.server import EmbeddingServer
from lab.recordings.model import Memory, Turn
from lab.retrieval.faults import NO_FAULTS, Faults
from lab.systems.contract import (
    NOTHING,
    ArmInfo,
    Ask,
    Detail,
    Explained,
    Item,
    MemorySystem,
    Recall,
    Signals,
    Stored,
    Writes,
)
from lab.systems.external.answers import (
    DIGITS,
    Chain,
    Exchange,
    Player,
    Recorder,
    folder_of,
    read_identity,
    save_identity,
)
from lab.systems.external.protocol import (
    VERSION,
    HostFailed,
    checked,
    identity_in,
    remedy,
    shown_name,
    text_if_free,
    without_texts,
    word,
)
from lab.systems.external.session import (
    FIXED,
    PASSED,
    EndpointChannel,
    HostIds,
    ProbeInstance,
    ProcessChannel,
    Request,
    Session,
    environment,
)
from lab.systems.external.settings import HostSettings, read_settings
from lab.systems.kit import Kit
from lab.systems.openclaw.capture.secrets import holds_secret, redact_all
from lab.systems.spec import RECORDED, ArmSpec

# How much of a host's stderr a message shows, if it does not start.
_SHOWN = 300


@dataclass(frozen=True)
class ExternalArm:
    """A host with its settings, and who answered when the run was planned."""

    name: str
    settings: HostSettings
    identity: Mapping[str, Any]
    max_items: int | None = None
    depth: int = 50
    is_recorded: bool = False
    # Its answers are checked like those of systems from other packages (EX-17).
    foreign: bool = field(default=True, init=False)

    def describe(self) -> ArmInfo:
        """Describe the arm by the identity that the host gave."""
        who = self.identity
        config = {**self.settings.as_json(), "hello": dict(who), "could_see": could_see(self.settings, who)}
        sources = f" {digest(who['sources'])[:16]}" if who["sources"] else ""
        return ArmInfo(
            self.name,
            "external",
            who["cutoff"],
            who["depth"],
            config,
            f"{who['name']} {who['version']}{sources}",
            who["at_most"],
            who["writes"],
            needs=tuple(who["needs"]) or None,
        )

    @property
    def claims(self) -> tuple[str, ...]:
        """What it must prove before it is scored (EX-22): what it claims, or that it recalls what it was given."""
        embeds = ("embedder",) if "embedder" in self.identity["needs"] else ()
        return tuple(dict.fromkeys((*(self.identity["claims"] or ("relevant",)), *embeds)))

    def open(self, kit: Kit) -> ExternalSystem:
        """Return the system of one conversation; the host is started at its first request."""
        return ExternalSystem(self, kit)

    def session(self, home: Path) -> Session:
        """Start a process with this home, or address the endpoint."""
        settings = self.settings
        if settings.command:
            env = environment(home, settings.env, os.environ)
            return Session(ProcessChannel(settings.command, env), settings.timeouts)
        return Session(EndpointChannel(settings.url, settings.key_env), settings.timeouts)

    @property
    def folder(self) -> Path:
        """Where its answers are recorded; time-outs and the permission to leave this machine change no answer."""
        given = self.settings.as_json()
        deciding = {name: value for name, value in given.items() if name not in ("timeouts", "allow_remote")}
        return folder_of({**deciding, "max_items": self.max_items, "depth": self.depth})


def make(spec: ArmSpec) -> ExternalArm:
    """Make the arm; request the host's identity, unless that is recorded.

    Raises :class:`UnusableInput` for unusable settings or a command that does not exist, and :class:`CannotMeasure` if
    the host does not answer.
    """
    settings = read_settings(spec.config, spec.where, allow_remote=spec.allow_remote)
    arm = ExternalArm(spec.name, settings, {}, spec.max_items, spec.depth, spec.answers == RECORDED)
    # A manifest holds the identity, so that its arms are made again without a request.
    known = spec.config.get("hello") if isinstance(spec.config, Mapping) else None
    if arm.is_recorded:
        return replace(arm, identity=_checked(known or read_identity(arm.folder, arm.name), spec.where))
    settings.require_present(spec.where)
    identity = _asked(arm, spec)
    if known is not None and identity != _checked(known, spec.where):
        raise CannotMeasure(f"{spec.where}: another system or version answers now; give the run another --out")
    save_identity(arm.folder, arm.name, identity)
    return replace(arm, identity=identity)


def could_see(settings: HostSettings, identity: Mapping[str, Any]) -> dict[str, object]:
    """Return what a host could know beyond its requests, for the manifest (EX-9, EX-15).

    No path of the recordings or of the golden set is given to it. A process has the rights of its user all the same.
    """
    probes = "informed which recalls are probes" if identity["stateful"] else "asked like turns"
    if not settings.command:
        return {"files": "the files of its own machine", "probes": probes}
    return {
        "files": "all files of its user, the golden set too if it finds it",
        "working_directory": "the folder where the lab was started",
        "environment": sorted({*PASSED, *FIXED, *settings.env}),
        "probes": probes,
    }


def _asked(arm: ExternalArm, spec: ArmSpec) -> dict[str, Any]:
    """Start the host once and return who it is."""
    settings = arm.settings
    hello = {
        "protocol": VERSION,
        "lab": __version__,
        "conversation": None,
        "seed": spec.seed,
        "scoping": "open",
        "captures": False,
        "replies": True,
        "embedder": None,
        "now_ms": 0,
        "max_items": spec.max_items,
        "depth": spec.depth,
        "settings": dict(settings.settings),
    }
    with tempfile.TemporaryDirectory(prefix="recall-lab-", ignore_cleanup_errors=True) as home:
        session: Session | None = None
        try:
            session = arm.session(Path(home))
            result, _ = session.ask(Request.of("hello", {**hello, "home": home if settings.command else None}))
            identity = identity_in(result)
            session.close()
        except HostFailed as error:
            if session is not None:
                session.close(politely=False)
            raise _not_answering(error, settings, spec, session.channel.errors() if session else "") from None
        except BaseException:
            if session is not None:
                session.close(politely=False)
            raise
    _require_no_secrets(identity, spec)
    return identity


def _not_answering(error: HostFailed, settings: HostSettings, spec: ArmSpec, errors: str) -> Exception:
    """Return the exception for a host that does not say who it is. It has received no text, so stderr is shown."""
    if error.kind == "died" and error.place == "exit 127":
        return UnusableInput(f"{spec.where}: {settings.command[0]!r} cannot be started; give an executable file")
    last = next((line.strip() for line in reversed(errors.splitlines()) if line.strip()), "")
    # A host that was stopped writes nothing else to stderr.
    stderr = f"; its stderr ends: {redact_all(last)[:_SHOWN]}" if error.kind == "died" and last.isprintable() else ""
    # Requests before the run are not recorded, and a host that does not start may not run at all.
    remedies = {
        "died": "",
        "timed_out": "start it, or raise timeouts.hello in the arm's file",
        "no_answer": "start it, or correct the address",
        "not_json": "only answers may be on stdout, everything else belongs on stderr",
    }
    mended = remedies.get(error.kind, remedy(str(error), spec.name))
    mended = f"; {mended}" if mended else ""
    return CannotMeasure(f"{spec.where}: the host does not answer hello: {error}{stderr}{mended} (docs/external.md)")


def _checked(value: object, where: str) -> dict[str, Any]:
    """Return an identity from a manifest or the cache."""
    with suppress(HostFailed):
        return identity_in(checked(expect(value, dict, f"{where}: hello"), "hello"))
    raise UnusableInput(f"{where}: hello: is no answer to hello of this version of the protocol")


def _require_no_secrets(identity: Mapping[str, Any], spec: ArmSpec) -> None:
    """Raise :class:`UnusableInput` if what would come into the manifest looks like a password or a key (EX-19)."""
    if any(holds_secret(text) for text in _texts(identity)):
        raise UnusableInput(
            f"{spec.where}: the host's answer to hello holds what looks like a password or a key, and the run would "
            "record it; leave it out of config"
        )


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for name, content in value.items() for text in (*_texts(name), *_texts(content))]
    return [text for element in value for text in _texts(element)] if isinstance(value, list | tuple) else []


# The last number of a key, and what follows it.
_NUMBER = regex(r"(\d+)(\D*)$", re.ASCII)
# What a host is given of a memory and of a turn.
_MEMORY = ("key", "text", "index_text", "created_at", "category", "label", "scope", "trust", "hard_rule")
_TURN = ("key", "seq", "session", "role", "text", "speaker", "scope", "time_ms")


class Live:
    """A running host. Every answer is recorded; after a failure no more requests are sent."""

    def __init__(self, arm: ExternalArm, kit: Kit, recorder: Recorder, hello: Mapping[str, Any]) -> None:
        self._arm, self._kit, self._recorder = arm, kit, recorder
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
        fresh = probe and self._arm.identity["probes"] == "fresh"
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
        session = self._arm.session(home)
        server = self._embedder
        endpoint = {"url": server.url, "model": server.model, "dimension": server.dimension} if server else None
        hello = {**self._hello, "home": str(home) if self._arm.settings.command else None, "embedder": endpoint}
        try:
            self._greet(session, hello)
        except BaseException:
            session.close(politely=False)
            raise
        return session

    def _greet(self, session: Session, hello: Mapping[str, Any]) -> None:
        result, _ = session.ask(Request.of("hello", hello))
        if identity_in(result) != self._arm.identity:
            raise HostFailed("other_identity", "", "hello")

    def _served(self) -> EmbeddingServer | None:
        """Serve the lab's embedder to a host that needs one (EX-21)."""
        if "embedder" not in self._arm.identity["needs"]:
            return None
        offered = self._arm.settings.embedder
        model = offered.get("model") or str(self._kit.embedder.identity()["model"])
        try:
            return EmbeddingServer(self._kit.vectors, model, offered.get("dimension"))
        except UnusableInput as error:
            raise UnusableInput(f"arm {self._arm.name}: embedder in its file: {error}") from None


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

    def __init__(self, arm: ExternalArm, kit: Kit) -> None:
        self._arm, self._kit = arm, kit
        self._source: Live | Recorded | None = None
        self._failed: HostFailed | None = None
        self._ids = HostIds()
        self._texts: dict[str, str] = {}
        self._stored: dict[str, Stored] = {}
        # Turn and session of the last turn, and the number of probes since.
        self._last: tuple[str, str | None] = ("", None)
        self._probes = 0

    def remember(self, memories: Sequence[Memory]) -> None:
        """Give memories to the host, and keep the ids that it gives them."""
        given = [{name: getattr(memory, name) for name in _MEMORY} for memory in memories]
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
        if not ask.probe or self._arm.identity["stateful"]:
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
        if not self._arm.identity["observes"]:
            return NOTHING
        shown = {name: getattr(turn, name) for name in _TURN}
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
        lost: dict[str, tuple[str, str]] = {}
        for key in relevant:
            rank = ranks.get(key)
            if rank is not None and rank <= recall.injected:
                continue
            if rank is not None:
                lost[key] = "slot", f"ranked {rank}; only the first {recall.injected} are injected"
            elif recall.status == "skipped":
                lost[key] = "silent", "the host kept silent"
            else:
                lost[key] = "depth", f"the host did not {'keep' if key in self._ids.unkept else 'return'} it"
        reason = recall.receipt.get("reason")
        head = (f"reason: {reason}",) if reason else ()
        about = shown_name(f"{self._arm.identity['name']}:{self._arm.identity['version']}")
        beyond = tuple(item.id for item in recall.items[recall.injected : recall.injected + 3])
        return Explained.of(about, lost, runners_up=beyond, head=head)

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
            is_final = error.kind != "host_error" and not (probe and self._arm.identity["probes"] == "fresh")
            if is_final:
                self._failed = error
            raise

    def _opened(self) -> Live | Recorded:
        arm, kit = self._arm, self._kit
        hello = {
            "protocol": VERSION,
            "lab": __version__,
            "conversation": kit.conversation,
            "seed": kit.seed,
            "scoping": kit.scoping,
            "captures": kit.captures,
            "replies": kit.replies,
            "now_ms": kit.clock.now_ms,
            "max_items": arm.max_items,
            "depth": arm.depth,
            "settings": dict(arm.settings.settings),
        }
        embedder = [kit.embedder.identity(), dict(arm.settings.embedder)] if "embedder" in arm.identity["needs"] else []
        without_version = {name: value for name, value in hello.items() if name != "lab"}
        name = digest([dict(arm.identity), without_version, embedder])[:DIGITS]
        if arm.is_recorded:
            return Recorded(Player(arm.folder, name, arm.name))
        return Live(arm, kit, Recorder(arm.folder, name), hello)

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
