"""What the public plugin does in its own way: select, drop what must not be injected, digest what was selected."""

from __future__ import annotations

from lab.recordings.model import MUST
from lab.retrieval.row import Row
from lab.systems.openclaw.memory import resolve_label
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.budget import pack
from lab.systems.openclaw.recall.scoped import select_in_scopes
from lab.systems.openclaw.recall.todo import is_stale
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.recall.working_set import PREFIX, WorkingSetLimits, WorkingSetRow, build_working_set
from lab.utf16 import js_length

STICKY_CATEGORIES = ("preference", "decision")
STICKY_READ, STICKY_KEPT = 12, 8


def select(turn: Turn) -> None:
    """Search and select in the primary scope, then in its fallbacks while places are left (spec 3)."""
    tiers = turn.tiers
    found = select_in_scopes(
        stages.plan_of_scopes(turn),
        turn.config.max_items,
        lambda scope, places: stages.choose(turn, places, lambda plan: tiers.fused(plan, scope)),
        turn.config.scope_policy,
        allow_fallback=stages.fallback_allowed(turn),
        suppressed="invalid_scope" if not stages.fallback_allowed(turn) else None,
    )
    turn.selection, turn.fallback = found
    turn.rejected += found.selection.rejected
    stages.mark_fallback(turn)
    # A kept Working Set row that was selected has used up a place by now: it goes, and nothing takes its place.
    chosen = found.selection.picked[: turn.config.max_items]
    turn.hits = [one for one in chosen if not one.candidate.id.startswith(PREFIX)]


def todo(turn: Turn) -> None:
    """Drop TODOs that have outlived their days (spec 9); nothing takes their places."""
    rows, now, days = turn.memories.by_id, turn.prompt.now_ms, turn.config.todo_stale_ttl_days

    def stale(row: Row) -> bool:
        return row.category == "todo" and is_stale(row.created_at, now, days)

    kept = [one for one in turn.hits if not stale(rows[one.candidate.id])]
    stages.mark_stale(turn, len(turn.hits) - len(kept))
    turn.hits = turn.final = kept


def working_set(turn: Turn) -> None:
    """Digest the hits and the scope's standing rules; hits that went into the digest leave the list (spec 6)."""
    settings = turn.config.working_set
    turn.working_set = stages.no_working_set(enabled=settings.enabled)
    if not settings.enabled:
        return
    hot = [turn.memories.by_id[one.candidate.id] for one in turn.hits]
    recent = turn.memories.listing.recent_of_first(turn.filter_scope, STICKY_CATEGORIES, STICKY_READ)
    sticky = [
        row
        for row in recent
        if resolve_label(row.importance_label, row.importance) == MUST and not row.id.startswith(PREFIX)
    ][:STICKY_KEPT]
    merged = {row.id: row for row in reversed([*hot, *sticky])}
    rows = [
        WorkingSetRow(row.id, row.text, row.created_at, row.category, row.importance_label) for row in merged.values()
    ]
    limits = WorkingSetLimits(settings.max_chars, settings.max_items_per_section, settings.max_item_chars)
    built = build_working_set(turn.scope, turn.text, turn.prompt.now_ms, limits, rows)
    if built.slot is None:
        return
    turn.pinned, turn.consumed = built.slot, built.consumed
    consumed = set(built.consumed)
    before = len(turn.hits)
    turn.hits = [one for one in turn.hits if one.candidate.id not in consumed]
    persisted = settings.persist and turn.memories.write is not None
    if persisted and turn.memories.write is not None:
        turn.memories.write(stages.working_set_row(turn, built.slot))
    turn.working_set |= {
        "generated": True,
        "id": built.slot.id,
        "chars": js_length(built.slot.text),
        "sections": built.sections,
        "consumedCount": len(consumed),
        "suppressedRecallCount": before - len(turn.hits),
        "persisted": persisted,
    }


def slots(turn: Turn) -> None:
    """The digest, the memories, the documents."""
    memories = [stages.memory_slot(turn.memories.by_id[one.candidate.id]) for one in turn.hits]
    turn.slots = [*([turn.pinned] if turn.pinned else ()), *memories, *turn.docs]


def budget(turn: Turn) -> None:
    """Fit it into the budget and say so (spec 8, 12)."""
    stages.inject(turn, lambda chosen, comment: pack(chosen, turn.config.budget, comment))
