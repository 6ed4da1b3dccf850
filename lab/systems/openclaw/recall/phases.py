"""What the seeds add to selection (seed 000, phases 2 and 3; spec 16): a backbone, then a scored lane beside it.

All of it acts under ``tier_quota_v1`` alone. Switching ``selectionMode`` back to ``tier_first_v1`` switches all of it
off: that is the one-line rollback.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from lab.retrieval.row import Candidate, Row
from lab.systems.openclaw.js import round6
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.backbone import CATEGORIES, MAX_ROWS, WHOLE, build_backbone, cut_lines
from lab.systems.openclaw.recall.budget import Slot, pack_well_formed
from lab.systems.openclaw.recall.hot_lane import HotLane
from lab.systems.openclaw.recall.receipt import closed_comment, most_listed
from lab.systems.openclaw.recall.score import QUARANTINED
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.select.outcome import Picked
from lab.systems.openclaw.select.policy_loop import policy_tier
from lab.utf16 import js_length


def backbone(turn: Turn) -> None:
    """Build the pinned digest from the store, and find the hard rules that must be injected as items (16.5, 16.6)."""
    settings, memories = turn.config.working_set, turn.memories
    phased, phases = turn.config.phased, turn.config.phases
    rules = memories.listing.hard_rules(turn.filter_scope) if phased and phases.hard_rules else []
    barred = {QUARANTINED} if phased and phases.trust == "soft" else set()
    rules = [row for row in rules if row.trust_tier not in barred]
    turn.working_set = stages.no_working_set(enabled=settings.enabled)
    if settings.enabled:
        recent = memories.listing.recent(turn.filter_scope, CATEGORIES, MAX_ROWS)
        recent = [row for row in recent if row.trust_tier not in barred]
        built = build_backbone(
            turn.scope, turn.text, turn.prompt.now_ms, settings, recent, rules, turn.config.todo_stale_ttl_days
        )
        turn.backbone, turn.pinned = built, built.slot
        if built.slot:
            turn.working_set |= {
                "generated": True,
                "id": built.slot.id,
                "chars": js_length(built.slot.text),
                "sections": built.sections,
                "consumedCount": len(built.pinned),
                "persisted": _persist(turn, built.slot),
            }
    turn.hard = [row for row in rules if not _pinned(turn, row)]


def _pinned(turn: Turn, rule: Row) -> bool:
    """Whether the digest holds a hard rule: its own line, or one of the same words where duplicates are left out."""
    if turn.backbone is None or rule.id in turn.backbone.pinned:
        return turn.backbone is not None
    return turn.config.auto_recall.dedupe_backbone and turn.backbone.holds_rule(rule)


def select(turn: Turn) -> None:
    """Search, score and select; then select again without each suppression, to know what it changed."""
    limit, phases = _places(turn), turn.config.phases
    times = Counter[str]()
    if turn.config.phased and phases.repeat and turn.prompt.session is not None:
        times = turn.state.history.recent(_history_key(turn), turn.config.auto_recall.repeat_window_turns)
    lane = HotLane(turn, times)
    found = lane.select(turn.tiers, limit)
    nothing = not (found.selection.picked or turn.hard or turn.pinned)
    quarantined = nothing and turn.config.phased and phases.trust == "soft"
    if quarantined:
        found = lane.select(turn.tiers.unnoted(), limit, quarantined=True)
    turn.selection, turn.fallback = found
    turn.rejected += found.selection.rejected
    stages.mark_fallback(turn)
    stages.mark_stale(turn, len(turn.stale))
    turn.hits = list(found.selection.picked)
    turn.final = [*(_hard_pick(row) for row in turn.hard), *turn.hits]
    if turn.config.phased:
        _explain_suppression(turn, lane, limit, quarantined=quarantined)
        if phases.tier_mode == "loop_v0":
            turn.additions["policyTier"] = policy_tier(found.selection)


def slots(turn: Turn) -> None:
    """The digest, hard rules that are not in it, the memories, the documents."""
    rows = turn.memories.by_id
    turn.slots = [
        *([turn.pinned] if turn.pinned else ()),
        *(stages.memory_slot(row) for row in turn.hard),
        *(stages.memory_slot(rows[one.candidate.id]) for one in turn.hits),
        *turn.docs,
    ]
    if turn.config.phased:
        turn.additions["decisions"] = decisions(turn)


def decisions(turn: Turn) -> dict[str, str]:
    """One decision for each injected id."""
    found = {turn.pinned.id: "pinned"} if turn.pinned else {}
    found |= {row.id: "hard_rule" for row in turn.hard}
    for one in turn.hits:
        identity = one.candidate.id
        found[identity] = "repeat_exempt" if identity in turn.exempt else one.decision
    return found | {slot.id: "docs" for slot in turn.docs}


def budget(turn: Turn) -> None:
    """Fit it into the budget: hard rules go last, and the block stays well formed."""
    hard = frozenset(row.id for row in turn.hard)
    lines = turn.backbone.lines if turn.backbone else ()
    if turn.pinned and any(line.hard for line in lines):
        hard |= {turn.pinned.id}

    def shorten(slot: Slot, units: int, rules: bool) -> Slot | None:
        if turn.pinned is None or slot.id != turn.pinned.id:
            return None
        there = set(slot.text.split("\n"))
        left = [line for line in lines if line.text in there]
        # Escaping makes a text longer, never shorter, so this many raw units are enough less.
        kept = cut_lines(left, max(0, js_length(slot.text) - units))
        if not rules and sum(line.hard for line in kept) < sum(line.hard for line in left):
            kept = cut_lines([line for at, line in enumerate(left) if line.hard or at == 0], WHOLE)
        return slot._replace(text="\n".join(line.text for line in kept)) if kept else None

    stages.inject(
        turn,
        lambda chosen, comment: pack_well_formed(
            chosen, turn.config.budget, closed_comment(comment), hard=hard, shorten=shorten
        ),
    )
    if turn.receipt and "decisions" in turn.receipt:
        left = {slot.id for slot in turn.kept}
        turn.receipt["decisions"] = {key: value for key, value in turn.receipt["decisions"].items() if key in left}
        turn.receipt["pinnedByWorkingSet"] = _ids(list(turn.digested), most_listed(turn.config.receipts))


def remember(turn: Turn) -> None:
    """Note what was injected, for the turns to come. A prompt that was passed over is a turn only where all count."""
    prompt, counts = turn.prompt, turn.config.phases.repeat_counts
    if prompt.session is None or not prompt.remembered:
        return
    if not turn.skip_reason or counts == "all_user_turns":
        ids = {one.candidate.id for one in turn.hits}
        turn.state.history.remember(_history_key(turn), (slot.id for slot in turn.kept if slot.id in ids))


def _history_key(turn: Turn) -> str:
    return (turn.prompt.session or "") if turn.config.phases.repeat_history == "session" else ""


def _places(turn: Turn) -> int:
    """Places of the hot lane: the digest counts as one where it is counted inside, hard rules take theirs first.

    Under the old policy it comes on top, as in the public plugin.
    """
    inside = turn.pinned is not None and turn.config.phased and turn.config.phases.pinned_counts == "inside"
    return max(0, turn.config.max_items - inside - len(turn.hard))


def _explain_suppression(turn: Turn, lane: HotLane, limit: int, *, quarantined: bool) -> None:
    """The receipts of seed 000: what was pinned, and what would be there had nothing been suppressed."""
    listed = most_listed(turn.config.receipts)
    chosen = {one.candidate.id for one in turn.hits}
    penalised = [key for key, factors in turn.factors.items() if factors.repeat < 1.0]
    repeated: list[str] = []
    if penalised:
        free = lane.select(turn.tiers.unnoted(), limit, repeats=False, quarantined=quarantined)
        repeated = [one.candidate.id for one in free.selection.picked if one.candidate.id not in chosen]
    duplicates: list[str] = []
    if turn.excluded:
        free = lane.select(turn.tiers.unnoted(), limit, duplicates=False, quarantined=quarantined)
        duplicates = [one.candidate.id for one in free.selection.picked if one.candidate.id in turn.excluded]
    turn.additions |= {
        "suppressedByRepeat": _ids(repeated, listed) | {"penalized": len(penalised)},
        "pinnedByWorkingSet": _ids(list(turn.backbone.pinned) if turn.backbone else [], listed),
        "excludedAsBackboneDuplicate": _ids(duplicates, listed),
    }
    if turn.config.receipts.verbosity == "high":
        turn.additions["factors"] = {
            one.candidate.id: {
                name: round6(value) for name, value in turn.factors[one.candidate.id]._asdict().items() if value != 1.0
            }
            for one in turn.hits[:listed]
        }


def _ids(ids: list[str], listed: int) -> dict[str, Any]:
    return {"count": len(ids), "ids": ids[:listed]}


def _hard_pick(row: Row) -> Picked:
    return Picked(Candidate(row.id, 0.0, row.created_at), "must", "hard_rule")


def _persist(turn: Turn, slot: Slot) -> bool:
    """Keep the digest of this scope as a row, unless nothing may be written; say whether it is kept.

    A row whose text has not changed stays as it is, its time included (spec 20.29). It is no candidate of recall, so it
    needs no place among the memories.
    """
    if not turn.config.working_set.persist or turn.config.read_only:
        return False
    held = turn.state.working_sets.get(turn.scope)
    if held is None or held.text != slot.text:
        turn.state.working_sets[turn.scope] = stages.working_set_row(turn, slot)
    return True
