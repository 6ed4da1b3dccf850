"""``rsclaw``: a memory with three tiers, decay and hybrid recall, under two profiles (docs/design/rsclaw.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lab.base.files import digest, sha256_file
from lab.base.token_estimate import tokens
from lab.embedding.embedder import QUERY
from lab.recordings.model import Memory, Turn
from lab.retrieval.clamp import Clamp
from lab.retrieval.contract import Filter
from lab.retrieval.faults import HARMLESS
from lab.retrieval.retrievers import QueryContext, Retrieval, query_text
from lab.retrieval.stage_timer import StageTimer
from lab.systems.contract import (
    ArmInfo,
    Ask,
    Detail,
    Explained,
    Item,
    MemorySystem,
    Recall,
    Signals,
    Standing,
    Status,
    Writes,
)
from lab.systems.kit import Kit
from lab.systems.rsclaw.config import FINAL_K, Settings, describe, embedder_named, resolve, without_effect
from lab.systems.rsclaw.document import Document
from lab.systems.rsclaw.extract import Extractions, read_extractions
from lab.systems.rsclaw.observe import INTERNAL, Observer, channel_of, command_in, default_scope
from lab.systems.rsclaw.search import Bundle, Ranked, bundle, lanes_of, line_text, ranking, touched
from lab.systems.rsclaw.store import Documents
from lab.systems.spec import ArmSpec

RUNNERS_UP = 3


def explain_recall(
    last: Last, documents: Documents, settings: Settings, recall: Recall, relevant: Sequence[str]
) -> Explained:
    """Explain the last recall; ``relevant`` are the keys of the memories to explain if they were not injected.

    A standing has the tier at the recall, before it touched anything. Only hits are touched, so all other documents
    still have that tier.
    """
    ranks = {item.document.id: (rank, item) for rank, item in enumerate(last.ranked, 1)}
    shown = {document.id for document in last.bundle.shown}
    standings: dict[str, Standing] = {}
    named = {key: documents.by_key[key] for key in relevant if key in documents.by_key}
    for key, document in ({item.document.keys[0]: item.document for item in last.ranked} | named).items():
        rank, item = ranks.get(document.id, (None, None))
        standings[key] = Standing(item.tier, rank, item.score, item.fts, item.vec) if item else Standing(document.tier)
    injected = {item.id for item in recall.items[: recall.injected]}
    missed = {key: document for key, document in named.items() if key not in injected}
    reasons = {key: _reason(document, ranks.get(document.id), last, settings) for key, document in missed.items()}
    others = tuple(item.id for item in recall.items[recall.injected :][:RUNNERS_UP])
    lines = {item.document.keys[0]: f"       {_factors(item)}" for item in last.ranked if item.document.id in shown}
    return Explained.of(
        f"profile {settings.profile}",
        reasons,
        standings=standings,
        runners_up=others,
        head=tuple(_head(last, settings)),
        below=lines,
        value={"tiers": documents.tiers(last.scope), "skipped": last.skipped},
    )


def _head(last: Last, settings: Settings) -> list[str]:
    if last.skipped:
        return [f"the recall was skipped: {last.skipped}"]
    cut = ", the budget cut it" if last.bundle.truncated else ""
    return [f"block: {len(last.bundle.shown)} of {settings.final_k} slots, {settings.max_tokens} tokens{cut}"]


def _factors(item: Ranked) -> str:
    """Return the factors of a score; with the indent of an explanation they fit into 80 columns."""
    return (
        f"fused {item.rrf:.4f} x relevance {item.relevance:.3f} x quality {item.quality:.3f},"
        f" rank {item.fused} by fusion alone"
    )


def _reason(document: Document, ranked: tuple[int, Ranked] | None, last: Last, settings: Settings) -> tuple[str, str]:
    """Return the cause, one of ``lab.replay.explain.CAUSES``, and a sentence."""
    if last.skipped == "auto_recall_off":
        return "nothing", "auto_recall is off"
    if last.skipped:
        return "trivial", f"the recall was skipped: {last.skipped}"
    if last.scope is not None and document.scope != last.scope:
        return "scope", f"its scope is {document.scope}; the search is in {last.scope}"
    if ranked is None:
        if last.ask.faults:
            return "fault", f"no lane returned it, under the injected faults: {', '.join(sorted(last.ask.faults))}"
        words, vectors = _depths(document, last)
        return "depth", f"{document.tier}: rank {words} by words, {vectors} by vectors; the lanes end before"
    rank, item = ranked
    if any(shown.id == document.id for shown in last.bundle.shown):
        return "merged", f"its text is that of {document.keys[0]}, which was injected"
    if document.kind == "note" and rank <= settings.final_k:
        return "kind", "it is a note, which is never injected"
    if rank <= settings.final_k:
        return "budget", f"it was selected, and the budget of {settings.max_tokens} tokens dropped it"
    if item.fused <= settings.final_k:
        return "decay", f"ranked {rank}; {document.kind}, {item.tier}: {_factors(item)}"
    return "slot", (
        f"ranked {rank}; only the first {settings.final_k} are injected; {document.kind}, {item.tier}: {_factors(item)}"
    )


def _depths(document: Document, last: Last) -> tuple[str, str]:
    """Return the ranks of a document in both lanes of its scope, searched to the end."""
    if last.context is None:
        return "none", "none"
    rows = last.context.rows
    lanes = last.context.view.search(Filter(last.scope), len(rows))
    ranks = (
        next((rank for rank, hit in enumerate(lane, 1) if rows[hit.row].id == document.id), None) for lane in lanes[:2]
    )
    first, second = (str(rank or "none") for rank in ranks)
    return first, second


RECEIPT = "rsclaw.recall.receipt.v1"


@dataclass(frozen=True, slots=True)
class RsclawArm:
    """The arm: its settings, and the recorded extractions if it reads some."""

    name: str
    settings: Settings
    depth: int
    extractions: Extractions = field(default_factory=dict, repr=False)
    inputs: tuple[tuple[str, str], ...] = ()
    claims: ClassVar[tuple[str, ...]] = ("relevant", "words", "meaning")
    retrieval: ClassVar[Retrieval] = Retrieval()
    # It searches what it writes.
    shares: ClassVar[bool] = False

    def describe(self) -> ArmInfo:
        """Return name and configuration. The ranking is as deep as the vector lane."""
        settings = self.settings
        return ArmInfo(
            self.name,
            "rsclaw",
            settings.final_k,
            self.depth,
            describe(settings),
            at_most=settings.final_k,
            writes=True,
            labelled=settings.importance == "label",
            inputs=dict(self.inputs),
            embedder=embedder_named(settings),
            missing=without_effect(settings),
        )

    def with_tokens(self, tokens: int) -> RsclawArm:
        """Return the same arm with a budget of its own, and as many items as its rules allow."""
        return replace(self, settings=replace(self.settings, max_tokens=tokens, final_k=FINAL_K[1]))

    def open(self, kit: Kit) -> Rsclaw:
        """Open an empty system."""
        return Rsclaw(self, kit)


def make(spec: ArmSpec) -> RsclawArm:
    """Make the arm; read its recorded extractions. Raises :class:`UnusableInput` for an unusable configuration."""
    settings = resolve(spec)
    depth = min(spec.depth, 3 * settings.final_k)
    if not settings.extractions:
        return RsclawArm(spec.name, settings, depth)
    path = Path(settings.extractions)
    extractions = read_extractions(path)
    return RsclawArm(spec.name, settings, depth, extractions, ((path.name, sha256_file(path)),))


class Last(NamedTuple):
    """The last recall: its query, scope and view of the store, the ranking, the block, and why it was skipped."""

    ask: Ask
    scope: str | None
    context: QueryContext | None
    ranked: Sequence[Ranked]
    bundle: Bundle
    skipped: str


class Rsclaw(MemorySystem):
    """The documents of one conversation, which it searches, touches and adds to."""

    def __init__(self, arm: RsclawArm, kit: Kit) -> None:
        self.settings = arm.settings
        self.documents = Documents(kit.search(arm.retrieval), arm.settings)
        self.last: Last | None = None
        self._arm, self._kit = arm, kit
        self._session: str | None = None
        self._observer = Observer(arm.settings, arm.extractions, kit, self.documents, self._touch_hits)

    def remember(self, memories: Sequence[Memory]) -> None:
        """Store memories that the loop provides."""
        self.documents.remember(memories)

    def forget(self, keys: Sequence[str]) -> None:
        """Remove memories that the recording deletes."""
        self.documents.forget(keys)

    def recall(self, ask: Ask) -> Recall:
        """Search, build the block, and touch what was found (RS-13); a probe touches nothing."""
        if not ask.probe:
            self._enter(ask.session)
        settings, now = self.settings, ask.now_ms // 1000
        scope, reason = self._scope(ask), self._skip_reason(ask)
        if reason:
            self.last = Last(ask, scope, None, (), Bundle(), reason)
            return Recall(receipt={"receipt": RECEIPT, "skipped": reason}, status="skipped")
        timer = StageTimer()
        documents = self.documents
        context = timer.stage("retrieve", lambda: documents.search.retrieve(ask.text, ask.faults))
        lanes = lanes_of(context.view, context.rows, scope, settings.final_k, settings, timer.search)
        ranked = timer.stage("select", lambda: ranking(lanes, context.rows, documents.by_id, settings, now, ask.turn))
        final = [item.document for item in ranked[: settings.final_k]]
        block = timer.stage("wrap", lambda: bundle(final, settings))
        self.last = Last(ask, scope, context, ranked, block, "")
        items = self._items(ranked, block)
        receipt: dict[str, Any] = {}
        if not ask.items_only:
            receipt = self._receipt(self.last, bool(lanes.fts), bool(lanes.vec))
        # After the receipt, which reports the tiers that the ranking used.
        if not ask.probe:
            hits = touched(ranked, final, settings)
            documents.touch(hits, now)
            receipt = receipt and receipt | {"touched": len(hits)}
        status: Status = "degraded" if ask.faults - HARMLESS else "ok"
        return Recall(items, len(block.shown), block.context, receipt, timer.timings, status)

    def observe(self, turn: Turn) -> Writes:
        """Extract from a turn, and follow its commands and tool calls (RS-24, RS-25)."""
        self._enter(turn.session)
        return self._observer.observe(turn)

    def explain(
        self, ask: Ask, candidates: object, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Explain each memory by its lanes, its decay and the slots."""
        del ask, candidates, detail
        assert self.last is not None  # noqa: S101 - it explains its last recall
        return explain_recall(self.last, self.documents, self.settings, recall, relevant)

    def close(self) -> None:
        """Close the search."""
        self.documents.search.close()

    def _enter(self, session: str | None) -> None:
        """Begin a session: a restart loses the touches that were not persisted."""
        if session is None or session == self._session:
            return
        if self._session is not None and self.settings.restart == "session":
            self.documents.restart()
        self._session = session
        self._observer.new_session()

    def _scope(self, ask: Ask) -> str | None:
        """Return the scope that is searched (RS-9); None: all."""
        if self._kit.scoping == "given" or not self._kit.captures:
            return ask.scope
        return default_scope(self.settings.agent, channel_of(ask.session, ask.scope))

    def _skip_reason(self, ask: Ask) -> str:
        if not self.settings.auto_recall:
            return "auto_recall_off"
        channel = channel_of(ask.session, ask.scope)
        if channel in INTERNAL:
            return f"channel_{channel}"
        if not ask.text.strip():
            return "blank"
        return "command" if command_in(ask.text) else ""

    def _touch_hits(self, text: str, scope: str | None, top_k: int, now_ms: int) -> None:
        """Search for a command or a tool, whose result the lab does not use, and touch what it finds."""
        search, settings = self.documents.search, self.settings
        search.tokens.prepare([text])
        search.vectors.prepare([query_text(text, Clamp())], role=QUERY)
        context = search.retrieve(text)
        timer = StageTimer()
        lanes = lanes_of(context.view, context.rows, scope, top_k, settings, timer.search)
        ranked = ranking(lanes, context.rows, self.documents.by_id, settings, now_ms // 1000, text)
        final = [item.document for item in ranked[:top_k]]
        self.documents.touch(touched(ranked, final, settings), now_ms // 1000)

    def _items(self, ranked: Sequence[Ranked], block: Bundle) -> tuple[Item, ...]:
        """Return the documents of the block with their lines as texts, then the others by rank; never a note."""
        shown = {document.id for document in block.shown}
        first = [item for item in ranked if item.document.id in shown]
        rest = [item for item in ranked if item.document.id not in shown and item.document.kind != "note"]
        most = max(self._arm.depth, len(first))
        return tuple(_item(item, line_text(item.document, self.settings)) for item in [*first, *rest][:most])

    def _receipt(self, last: Last, fts: bool, vec: bool) -> dict[str, Any]:
        """Return what the program notes of the block, and what led to it. Ids of documents, no texts."""
        settings, block, ask = self.settings, last.bundle, last.ask
        no_vector = last.context.no_vector if last.context else None
        return {
            "receipt": RECEIPT,
            "source": "server",
            "trace_id": digest([self._kit.conversation, ask.turn])[:32],
            "doc_ids": [document.id for document in block.shown],
            "hash": hashlib.sha256(block.context.encode("utf-8", "surrogatepass")).hexdigest(),
            "truncated": block.truncated,
            "mode": "hybrid" if fts and vec else "bm25" if fts else "vector" if vec else "none",
            "format": "lines",
            "profile": settings.profile,
            "extractor": settings.extractor if self._kit.captures else "given",
            "scope": last.scope,
            "tokens": tokens(block.context),
            "budget": settings.max_tokens,
            "shortened": block.shortened,
            "candidates": len(last.ranked),
            "factors": [
                [round(item.rrf, 6), round(item.relevance, 6), round(item.quality, 6)]
                for item in last.ranked[: settings.final_k]
            ],
            "tiers": self.documents.tiers(last.scope),
        } | ({"rejected": [no_vector]} if no_vector else {})


def _item(ranked: Ranked, text: str) -> Item:
    document = ranked.document
    signals = Signals(document.id, None, document.home, ranked.fts, ranked.vec, document.kind)
    return Item(document.keys[0], text, document.sources, ranked.score, signals, ranked.tier)
