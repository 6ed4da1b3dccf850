"""Explain a recall: the tier and the factors of each memory, and why a relevant one was not injected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.retrieval.contract import Filter
from lab.systems.contract import Explained, Recall, Standing
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.document import Document
from lab.systems.rsclaw.search import Ranked
from lab.systems.rsclaw.store import Documents

if TYPE_CHECKING:
    from lab.systems.rsclaw.system import Last

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
    return Explained(
        f"profile {settings.profile}",
        standings,
        {key: text for key, (_, text) in reasons.items()},
        {key: cause for key, (cause, _) in reasons.items()},
        others,
        tuple(_head(last, settings)),
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
