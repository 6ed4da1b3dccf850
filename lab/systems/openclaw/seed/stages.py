"""The stages of a turn in profile ``seed`` (seed 000, phases 2 and 3; E-54): Working Set, scored selection, budget.

They run only under ``tier_quota_v1``. Switching ``selectionMode`` back to ``tier_first_v1`` disables all of them, so a
rollback changes one line of the configuration.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from lab.base.utf16 import js_length
from lab.retrieval.row import Candidate, Row
from lab.systems.openclaw.recall.budget import Slot
from lab.systems.openclaw.recall.inject import inject, memory_slot
from lab.systems.openclaw.recall.scoped import ScopedSelection, fallback_receipt
from lab.systems.openclaw.recall.stages import SILENT, mark_stale, skip_if, take
from lab.systems.openclaw.recall.working_set import WHOLE, no_working_set, working_set_row
from lab.systems.openclaw.recall.working_set_v1 import CATEGORIES, MAX_ROWS
from lab.systems.openclaw.seed.exclusions import BARRED, Allowed
from lab.systems.openclaw.seed.hard_rules import give_slots
from lab.systems.openclaw.seed.hot_lane import HotLane
from lab.systems.openclaw.seed.not_injected import not_injected
from lab.systems.openclaw.seed.pack import closed_comment, pack_well_formed
from lab.systems.openclaw.seed.policy_loop import policy_tier
from lab.systems.openclaw.seed.trivial import is_trivial
from lab.systems.openclaw.seed.turn import SeedTurn
from lab.systems.openclaw.seed.working_set import (
    NO_SECTIONS,
    WorkingSet,
    build_working_set,
    cut_lines,
    hard_lines,
)
from lab.systems.openclaw.select.outcome import Picked, Selection
from lab.systems.openclaw.upstream.js import round6


def trivial(turn: SeedTurn) -> None:
    """End the turn if the prompt is empty or trivial (E-19)."""
    recall = turn.config.auto_recall
    skip_if(turn, is_trivial(turn.text, skip=recall.skip_trivial_prompts, max_chars=recall.trivial_min_chars))


def add_working_set(turn: SeedTurn) -> None:
    """Build the Working Set from the store, and collect the hard rules to inject as separate items (E-58, E-59)."""
    settings, phases, listing = turn.config.working_set, turn.config.active_phases, turn.memories.listing
    barred = BARRED[phases.trust][0]
    rules = listing.hard_rules(turn.filter_scope) if phases.hard_rules else []
    rules = [row for row in rules if row.trust_tier not in barred]
    turn.working_set = no_working_set(enabled=settings.enabled) | {"sections": dict(NO_SECTIONS)}
    if settings.enabled:
        recent = listing.recent(turn.filter_scope, CATEGORIES, MAX_ROWS)
        recent = [row for row in recent if row.trust_tier not in barred]
        built = turn.built_working_set = build_working_set(
            turn.scope, turn.text, turn.prompt.now_ms, settings, recent, rules, turn.config.todo_stale_ttl_days
        )
        turn.pinned, turn.synthesised = built.slot, built.pinned
        if built.slot:
            turn.working_set |= {"generated": True, "id": built.slot.id, "persisted": _persist(turn, built.slot)}
    turn.hard = [row for row in rules if not _pinned(turn, row)]


def _persist(turn: SeedTurn, slot: Slot) -> bool:
    """Store the Working Set if it persists and the store may be written (E-28); return whether it was stored."""
    config, write = turn.config, turn.memories.write
    if write is None or config.read_only or not config.working_set.persist:
        return False
    write(working_set_row(slot, turn.scope, turn.prompt.now_ms, no_vector=turn.memories.no_vector is not None))
    return True


def _pinned(turn: SeedTurn, rule: Row) -> bool:
    """Whether the Working Set contains a hard rule, or a line with the same words if duplicates are excluded."""
    if turn.built_working_set is None or rule.id in turn.built_working_set.pinned:
        return turn.built_working_set is not None
    return turn.config.auto_recall.dedupe_backbone and turn.built_working_set.holds_rule(rule)


def select(turn: SeedTurn) -> None:
    """Search, score and select; then select again without each suppression to report its effect."""
    phases = turn.config.active_phases
    # With pinned_counts "inside", the Working Set takes one slot. Hard rules take their slots before other memories.
    inside = turn.pinned is not None and phases.pinned_counts == "inside"
    turn.silent = is_silent(turn)
    limit = give_slots(turn, turn.config.max_items - inside)
    times = Counter[str]()
    if phases.repeat and turn.prompt.session is not None:
        times = turn.state.history.recent(turn.history_key, turn.config.auto_recall.repeat_window_turns)
    lane = HotLane(turn, times)
    if turn.silent:
        # No slot is filled, but the quotas are those in force.
        empty = Selection([], [], [SILENT], turn.config.auto_recall.quota)
        take(turn, ScopedSelection(empty, fallback_receipt(turn.config.scope_policy, turn.barred)))
        turn.final = [_hard_pick(row) for row in turn.hard]
        _explain_suppression(turn, lane, limit)
        return
    scoped = lane.select(turn.tiers, limit)
    take(turn, scoped)
    if turn.config.phased and turn.selection.quota is None:
        # Nothing was searched, because the Working Set and hard rules took every slot; the quotas are still in force.
        turn.selection = turn.selection._replace(quota=turn.config.auto_recall.quota)
    mark_stale(turn, _stale_dropped(turn, lane, limit))
    turn.hits = list(scoped.selection.picked)
    turn.final = [*(_hard_pick(row) for row in turn.hard), *turn.hits]
    if turn.explained:
        _explain_suppression(turn, lane, limit)
    if turn.config.phased and phases.tier_mode != "live":
        turn.additions["policyTier"] = policy_tier(scoped.selection)


def is_silent(turn: SeedTurn) -> bool:
    """Return whether the primary scope has nothing relevant enough; hard rules and the Working Set stay."""
    return turn.config.phased and turn.tiers.silent(turn.filter_scope, turn.config.silence)


def slots(turn: SeedTurn) -> None:
    """Collect the slots: Working Set, hard rules outside it, memories, documents; record a decision for each."""
    rows, most = turn.memories.by_id, turn.config.active_phases.item_max_chars
    turn.slots = [
        *([turn.pinned] if turn.pinned else ()),
        *(memory_slot(row) for row in turn.hard),
        *(memory_slot(rows[pick.candidate.id], most) for pick in turn.hits),
        *turn.docs,
    ]
    if most:
        cut = [slot.id for slot in turn.slots if slot.id in rows and slot.text != rows[slot.id].text]
        turn.additions["shortened"] = _ids(cut, turn.most_ids)
    if turn.explained:
        decisions = {turn.pinned.id: "pinned"} if turn.pinned else {}
        decisions |= {pick.candidate.id: pick.decision for pick in turn.final}
        turn.additions["decisions"] = decisions | {slot.id: "docs" for slot in turn.docs}


def budget(turn: SeedTurn) -> None:
    """Fit the slots into the budget: drop hard rules last and keep the block well formed."""
    pinned, built = turn.pinned, turn.built_working_set
    hard = frozenset(row.id for row in turn.hard)
    if pinned and built and any(line.hard for line in built.lines):
        hard |= {pinned.id}

    def shorten(slot: Slot, units: int, rules: bool) -> Slot | None:
        return _shorter(slot, built, units, rules=rules) if pinned and built and slot.id == pinned.id else None

    inject(
        turn,
        lambda chosen, comment: pack_well_formed(
            chosen, turn.config.budget, closed_comment(comment), hard=hard, shorten=shorten
        ),
    )
    if turn.receipt and "decisions" in turn.receipt:
        kept = {slot.id for slot in turn.kept}
        turn.receipt["decisions"] = {key: value for key, value in turn.receipt["decisions"].items() if key in kept}
        # Each pinned memory needs its reason (E-68); the Working Set itself bounds how many there are.
        most = len(turn.covered) if turn.config.explains_all else turn.most_ids
        turn.receipt["pinnedByWorkingSet"] = _ids(list(turn.covered), most)
    if turn.receipt and turn.config.explains_all:
        turn.receipt["notInjected"] = not_injected(turn, kept={slot.id for slot in turn.kept}.union(turn.covered))


def remember(turn: SeedTurn) -> None:
    """Record what was injected, for later turns. Skipped prompts count as turns only with ``all_user_turns``."""
    prompt, counts = turn.prompt, turn.config.phases.repeat_counts
    if prompt.session is None or not prompt.remembered:
        return
    if not turn.skip_reason or counts == "all_user_turns":
        ids = {pick.candidate.id for pick in turn.hits}
        turn.state.history.remember(turn.history_key, (slot.id for slot in turn.kept if slot.id in ids))


def _shorter(slot: Slot, built: WorkingSet, units: int, *, rules: bool) -> Slot | None:
    """Shorten the Working Set by ``units`` UTF-16 units in whole lines; remove hard rules only if ``rules``."""
    texts = set(slot.text.split("\n"))
    lines = [line for line in built.lines if line.text in texts]
    # Escaping never shortens a text, so removing this many unescaped units is enough.
    kept = cut_lines(lines, max(0, js_length(slot.text) - units))
    if not rules and sum(line.hard for line in kept) < sum(line.hard for line in lines):
        hard = hard_lines(lines)
        kept = cut_lines([line for at, line in enumerate(lines) if at in hard], WHOLE)
    return slot._replace(text="\n".join(line.text for line in kept)) if kept else None


def _stale_dropped(turn: SeedTurn, lane: HotLane, limit: int) -> int:
    """Return how many stale TODOs were dropped: those that would be selected if TODOs had no age limit (E-33)."""
    if not turn.stale:
        return 0
    stale = set(turn.stale)
    without = lane.select(turn.tiers.unrecorded(), limit, allowed=Allowed(stale=True))
    return sum(pick.candidate.id in stale for pick in without.selection.picked)


def _explain_suppression(turn: SeedTurn, lane: HotLane, limit: int) -> None:
    """Add receipt fields of seed 000: what was pinned, and what would have been selected without each suppression."""
    listed = turn.most_ids
    chosen = {pick.candidate.id for pick in turn.hits}
    penalised = [key for key, factors in turn.factors.items() if factors.repeat < 1.0]
    repeated: list[str] = []
    if penalised:
        unsuppressed = lane.select(turn.tiers.unrecorded(), limit, repeats=False)
        repeated = [pick.candidate.id for pick in unsuppressed.selection.picked if pick.candidate.id not in chosen]
    duplicates: list[str] = []
    if turn.excluded:
        unsuppressed = lane.select(turn.tiers.unrecorded(), limit, allowed=Allowed(duplicates=True))
        duplicates = [pick.candidate.id for pick in unsuppressed.selection.picked if pick.candidate.id in turn.excluded]
    exempt = {key: turn.exempt[key] for key in (pick.candidate.id for pick in turn.hits) if key in turn.exempt}
    if exempt:
        turn.additions["repeatExempt"] = {"count": len(exempt), "rules": dict(list(exempt.items())[:listed])}
    if turn.waiting:
        turn.additions["hardRulesWaiting"] = _ids([row.id for row in turn.waiting if row.id not in chosen], listed)
    turn.additions |= {
        "suppressedByRepeat": _ids(repeated, listed) | {"penalized": len(penalised)},
        "pinnedByWorkingSet": _ids(list(turn.built_working_set.pinned) if turn.built_working_set else [], listed),
        "excludedAsBackboneDuplicate": _ids(duplicates, listed),
    }
    if turn.config.receipts.verbosity == "high" and turn.config.phased:
        turn.additions["factors"] = {
            pick.candidate.id: {
                name: round6(value) for name, value in turn.factors[pick.candidate.id]._asdict().items() if value != 1.0
            }
            for pick in turn.hits[:listed]
        }


def _ids(ids: list[str], listed: int) -> dict[str, Any]:
    return {"count": len(ids), "ids": ids[:listed]}


def _hard_pick(row: Row) -> Picked:
    return Picked(Candidate(row.id, 0.0, row.created_at), "must", "hard_rule")
