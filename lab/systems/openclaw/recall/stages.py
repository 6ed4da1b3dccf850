"""The stages that both profiles share, and the function that runs a profile's stages (E-18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from lab.base.utf16 import WHITESPACE
from lab.recordings.model import GLOBAL, UNKNOWN
from lab.retrieval.stage_timer import SEARCH
from lab.systems.openclaw.config.settings import AutoRecall
from lab.systems.openclaw.recall.budget import Slot
from lab.systems.openclaw.recall.markers import NAME, fallback_markers, marker
from lab.systems.openclaw.recall.receipt import lifecycle_receipt
from lab.systems.openclaw.recall.scope import resolve_scope
from lab.systems.openclaw.recall.scoped import ScopedSelection
from lab.systems.openclaw.recall.trivial import is_trivial
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.select.outcome import Selection
from lab.systems.openclaw.select.policies import Search, policy_named
from lab.systems.openclaw.select.tiers import recall_plans
from lab.systems.openclaw.upstream.js import Json

# The reason of a receipt for a turn at which the search found nothing relevant enough.
SILENT = "low_relevance"
_Turn = TypeVar("_Turn", bound=Turn)


def run(
    turn: _Turn,
    stages: Sequence[tuple[str, Callable[[_Turn], None]]],
    failed: Callable[[_Turn, str, str], None] | None = None,
) -> _Turn:
    """Run a profile's stages in order until one of them ends the turn, and time each.

    If a stage raises, the turn ends with nothing injected and one warning. The warning contains the type of the error,
    not its message, which may quote a text. ``failed(turn, stage, kind)`` is then called, if given.
    """
    for name, stage in stages:
        try:
            turn.tiers.timer.stage(name, partial(stage, turn))
        except Exception as error:
            # On any error, the agent's turn continues without memories (E-24).
            turn.done, turn.slots, turn.packed, turn.receipt = True, [], None, None
            turn.final, turn.hits, turn.error = [], [], error
            kind = type(error).__name__
            turn.log.append(("warn", f"{NAME}: autoRecall failed: {kind}"))
            if failed is not None:
                failed(turn, name, kind)
        if turn.done:
            return turn
    turn.timings.setdefault(SEARCH, 0)
    return turn


def scope(turn: Turn) -> None:
    """Trim the prompt and determine its scope (E-30, E-31)."""
    prompt, policy = turn.prompt, turn.config.scope_policy
    turn.text = prompt.text.strip(WHITESPACE)
    if prompt.scoping == "open":
        return
    if prompt.scoping == "given":
        turn.scope = prompt.scope or policy.default_scope
        turn.scope_mode = GLOBAL if turn.scope == policy.default_scope else "inferred"
    else:
        turn.scope_mode, resolved = resolve_scope(None, turn.text, policy)
        turn.scope, turn.scope_invalid = resolved.scope, resolved.invalid
    turn.filter_scope = turn.scope


def trivial(turn: Turn) -> None:
    """End the turn if the prompt is empty or trivial as the public plugin defines it (E-19)."""
    recall = turn.config.auto_recall
    skip_if(turn, is_trivial(turn.text, skip=recall.skip_trivial_prompts, min_chars=recall.trivial_min_chars))


def skip_if(turn: Turn, is_trivial_prompt: bool) -> None:
    """End the turn if the prompt is empty or trivial."""
    receipts = turn.config.receipts
    if not turn.text:
        turn.skip_reason = "no_query"
    elif is_trivial_prompt:
        turn.skip_reason = "trivial_prompt"
    else:
        return
    turn.done = True
    turn.rejected = [turn.skip_reason]
    if receipts.enabled:
        turn.receipt = lifecycle_receipt(
            receipts,
            scope=turn.scope,
            scope_mode=turn.scope_mode,
            skip_reason=turn.skip_reason,
            rejected=turn.rejected,
        )


def embedding(turn: Turn) -> None:
    """Record why there is no query vector, if so: recall continues with the text lane alone (E-11, E-50)."""
    if turn.memories.no_vector:
        turn.rejected.append(turn.memories.no_vector)


def by_policy(settings: AutoRecall, slots: int, search: Search) -> Selection:
    """Run the configured selection policy in one scope (E-12)."""
    plans = recall_plans(unknown_fallback=settings.include_unknown_fallback)
    return policy_named(settings.selection_mode)(plans, slots, settings, search)


def take(turn: Turn, scoped: ScopedSelection) -> None:
    """Record a selection and log its fallback."""
    turn.selection, turn.fallback = scoped
    turn.rejected += scoped.selection.rejected
    marks = fallback_markers(turn.config.scope_policy, turn.scope, scoped.fallback, turn.barred)
    turn.log += [("info", mark) for mark in marks]


def mark_stale(turn: Turn, dropped: int) -> None:
    """Log how many stale TODOs were dropped."""
    if dropped:
        days = turn.config.todo_stale_ttl_days
        value: dict[str, Json] = {"phase": "recall", "reason": "ttl", "dropped": dropped, "ttlDays": days}
        turn.log.append(("info", marker("todoGuardrail", value)))


def docs(turn: Turn) -> None:
    """Consult the operator's documents if recall found too few memories (E-47)."""
    lane = turn.memories.docs
    if lane is None or turn.silent or not lane.needed(len(turn.hits)):
        return
    requested = max(1, turn.config.max_items - len(turn.hits))
    answer = lane.consult(turn.text, turn.scope, requested, trigger="insufficient_hot")
    turn.cold_lane = answer.receipt
    turn.log.append(("info", marker("docsColdLane.search", answer.receipt)))
    turn.docs = [
        Slot(
            f"docs:{hit.record_ref}",
            turn.prompt.now_ms + rank,
            "fact",
            UNKNOWN,
            f"[docs|operator|{hit.doc_kind}] {hit.text} ({hit.record_ref})",
        )
        for rank, hit in enumerate(answer.hits)
    ]
