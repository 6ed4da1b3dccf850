"""Why a memory in a file was not injected (HB-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lab.systems.contract import Explained, Standing
from lab.systems.files.index import SNIPPET
from lab.systems.files.search import Hit

# What became of a result, as receipts say it.
INJECTED, BELOW, SLOTS, BUDGET = "injected", "below_min_score", "max_results", "max_tokens"
_CAUSES = {
    BELOW: ("silent", "the score {score:.3f} of {at} is below the minimum"),
    SLOTS: ("slot", "{at} has a score of {score:.3f}; others took the slots"),
    BUDGET: ("budget", "{at} was selected, and the budget dropped it"),
    "": ("slot", "{at} has a score of {score:.3f}, and is not among what the search returns"),
}


class Trace(NamedTuple):
    """What a recall looked at: why it was skipped or failed, all candidates, and what became of the results by row.

    ``floor`` is the minimum score.
    """

    skipped: str = ""
    failed: str = ""
    candidates: Sequence[Hit] = ()
    decisions: Mapping[int, str] = {}
    floor: float = 0.0


def explained(trace: Trace, relevant: Sequence[str], injected: Sequence[str], about: str) -> Explained:
    """Explain what happened to the ``relevant`` memories; ``injected`` are the keys of the injected items."""
    reasons: dict[str, tuple[str, str]] = {}
    standings: dict[str, Standing] = {}
    for key in relevant:
        found = next(
            ((rank, hit) for rank, hit in enumerate(trace.candidates, 1) if _holds(hit, key)),
            None,
        )
        if found:
            standings[key] = Standing(None, found[0], found[1].score, found[1].fts_rank, found[1].vec_rank)
        if key not in injected:
            reasons[key] = _reason(trace, found[1] if found else None, key)
    return Explained(
        about,
        standings,
        reasons={key: text for key, (_, text) in reasons.items()},
        causes={key: cause for key, (cause, _) in reasons.items()},
    )


def _holds(hit: Hit, key: str) -> bool:
    return any(piece.entry.id == key for piece in hit.indexed.chunk.pieces)


def _reason(trace: Trace, hit: Hit | None, key: str) -> tuple[str, str]:
    if trace.skipped:
        return "trivial", f"the prompt was skipped: {trace.skipped}"
    if trace.failed:
        return "fault", f"the search failed: {trace.failed}"
    if hit is None:
        return "depth", "no chunk with it is among the candidates of the search"
    decision = trace.decisions.get(hit.row, BELOW if hit.score < trace.floor else "")
    beyond = f"beyond the {SNIPPET} characters that a result shows"
    if decision == INJECTED:
        return "snippet", f"{hit.indexed.citation} holds it {beyond}"
    cause, text = _CAUSES[decision]
    is_shown = any(entry.id == key for entry in hit.indexed.shown)
    return cause, text.format(score=hit.score, at=hit.indexed.citation) + ("" if is_shown else f"; it is {beyond}")
