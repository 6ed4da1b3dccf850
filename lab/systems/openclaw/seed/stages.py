"""The stages of a turn in profile ``seed`` (seed 000, phases 2 and 3; E-54): Working Set, scored selection, budget.

They run only under ``tier_quota_v1``. Switching ``selectionMode`` back to ``tier_first_v1`` disables all of them, so a
rollback changes one line of the configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from lab.base.utf16 import js_length
from lab.retrieval.contract import Candidate, Row
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.js import round6
from lab.systems.openclaw.recall import stages
from lab.systems.openclaw.recall.block import Slot, closed_comment, pack_well_formed
from lab.systems.openclaw.recall.receipt import lifecycle_receipt
from lab.systems.openclaw.recall.scope import ScopedSelection, fallback_receipt
from lab.systems.openclaw.recall.stages import SILENT, inject, memory_slot, skip_if, stale_marks, take
from lab.systems.openclaw.recall.trivial import is_trivial_for_seed
from lab.systems.openclaw.recall.turn import Collected, Factors, Injected, Memories, Prompt, RecallState, Skipped, Taken
from lab.systems.openclaw.recall.working_set import CATEGORIES, MAX_ROWS, WHOLE, no_working_set, working_set_row
from lab.systems.openclaw.seed.exclusions import BARRED, Allowed, Notes
from lab.systems.openclaw.seed.hot_lane import HotLane, Ruled, give_slots, policy_tier
from lab.systems.openclaw.seed.outdated import has_ended, replaced
from lab.systems.openclaw.seed.working_set import (
    NO_SECTIONS,
    SeedTurn,
    WorkingSet,
    build_working_set,
    cut_lines,
    hard_lines,
)
from lab.systems.openclaw.select.outcome import Picked, Selection


class Pinned(NamedTuple):
    """The Working Set (None: it is off), and the hard rules that are not among its lines."""

    working_set: dict[str, Any]
    hard: list[Row]
    built_working_set: WorkingSet | None
    pinned: Slot | None = None
    synthesised: tuple[str, ...] = ()


class Selected(NamedTuple):
    """The selection, the hard rules beside it, what happened to candidates, and what the receipt says of them."""

    selection: Selection
    fallback: dict[str, Any] | None
    rejected: list[str]
    log: list[tuple[str, str]]
    hard: list[Row]
    waiting: list[Row]
    factors: dict[str, Factors]
    exempt: dict[str, str]
    excluded: dict[str, str]
    stale: list[str]
    outdated: dict[str, str]
    hits: list[Picked]
    final: list[Picked]
    additions: dict[str, Any]
    silent: bool


def trivial(turn: SeedTurn) -> Skipped | None:
    """End the turn if the prompt is empty or trivial (E-19)."""
    recall = turn.config.auto_recall
    return skip_if(
        turn, is_trivial_for_seed(turn.text, skip=recall.skip_trivial_prompts, max_chars=recall.trivial_min_chars)
    )


def add_working_set(turn: SeedTurn) -> Pinned:
    """Build the Working Set from the store, and collect the hard rules to inject as separate items (E-58, E-59)."""
    settings, phases, listing = turn.config.working_set, turn.config.active_phases, turn.memories.listing
    barred = BARRED[phases.trust][0]
    rules = listing.hard_rules(turn.filter_scope) if phases.hard_rules else []
    rules = [row for row in rules if row.trust_tier not in barred]
    receipt: dict[str, Any] = no_working_set(enabled=settings.enabled) | {"sections": dict(NO_SECTIONS)}
    built: WorkingSet | None = None
    if settings.enabled:
        recent = listing.recent(turn.filter_scope, CATEGORIES, MAX_ROWS)
        recent = [row for row in recent if row.trust_tier not in barred]
        # Hard rules hold: they come from ``rules``.
        old, now = replaced(recent, recent, phases.replaced), turn.prompt.now_ms
        recent = [row for row in recent if row.id not in old and not (phases.ended and has_ended(row, now))]
        built = build_working_set(
            turn.scope, turn.text, turn.prompt.now_ms, settings, recent, rules, turn.config.todo_stale_ttl_days
        )
        if built.slot:
            receipt |= {"generated": True, "id": built.slot.id, "persisted": _persist(turn, built.slot)}
    hard = [row for row in rules if not _pinned(turn.config, built, row)]
    return Pinned(receipt, hard, built, *((built.slot, built.pinned) if built else ()))


def _persist(turn: SeedTurn, slot: Slot) -> bool:
    """Store the Working Set if it persists and the store may be written (E-28); return whether it was stored."""
    config, write = turn.config, turn.memories.write
    if write is None or config.read_only or not config.working_set.persist:
        return False
    write(working_set_row(slot, turn.scope, turn.prompt.now_ms, no_vector=turn.memories.no_vector))
    return True


def _pinned(config: EngineConfig, built: WorkingSet | None, rule: Row) -> bool:
    """Whether the Working Set contains a hard rule, or a line with the same words if duplicates are excluded."""
    if built is None or rule.id in built.pinned:
        return built is not None
    return config.auto_recall.dedupe_backbone and built.holds_rule(rule)


def select(turn: SeedTurn) -> Selected:
    """Search, score and select; then select again without each suppression to report its effect."""
    phases = turn.config.active_phases
    # With pinned_counts "inside", the Working Set takes one slot. Hard rules take their slots before other memories.
    inside = turn.pinned is not None and phases.pinned_counts == "inside"
    silent, notes = is_silent(turn), Notes()
    ruled, limit = give_slots(turn, turn.config.max_items - inside, notes, silent=silent)
    times = Counter[str]()
    if phases.repeat and turn.prompt.session is not None:
        times = turn.state.history.recent(turn.history_key, turn.config.auto_recall.repeat_window_turns)
    lane = HotLane(turn, times, ruled.hard, notes)
    rules = [_hard_pick(row) for row in ruled.hard]
    if silent:
        # No slot is filled, but the quotas are those in force.
        empty = Selection([], [], [SILENT], turn.config.auto_recall.quota)
        taken = take(turn, ScopedSelection(empty, fallback_receipt(turn.config.scope_policy, turn.barred)))
        explained = _explain_suppression(turn, lane, limit, [], ruled.waiting)
        return _selected(taken, ruled, notes, [], rules, explained, silent=True)
    scoped = lane.select(turn.tiers, limit)
    taken, hits = take(turn, scoped), list(scoped.selection.picked)
    if turn.config.phased and taken.selection.quota is None:
        # Nothing was searched, because the Working Set and hard rules took every slot; the quotas are still in force.
        taken = taken._replace(selection=taken.selection._replace(quota=turn.config.auto_recall.quota))
    taken = taken._replace(log=[*taken.log, *stale_marks(turn, _stale_dropped(turn, lane, limit))])
    explained = _explain_suppression(turn, lane, limit, hits, ruled.waiting) if turn.explained else {}
    if turn.config.phased and phases.tier_mode != "live":
        explained["policyTier"] = policy_tier(scoped.selection)
    return _selected(taken, ruled, notes, hits, [*rules, *hits], explained)


def _selected(
    taken: Taken,
    ruled: Ruled,
    notes: Notes,
    hits: list[Picked],
    final: list[Picked],
    explained: dict[str, Any],
    *,
    silent: bool = False,
) -> Selected:
    factors, exempt, excluded, stale, old = notes.factors, notes.exempt, notes.excluded, notes.stale, notes.outdated
    return Selected(*taken, *ruled, factors, exempt, excluded, stale, old, hits, final, explained, silent)


def is_silent(turn: SeedTurn) -> bool:
    """Return whether the primary scope has nothing relevant enough; hard rules and the Working Set stay."""
    return turn.config.phased and turn.tiers.silent(turn.filter_scope, turn.config.silence)


def slots(turn: SeedTurn) -> Collected:
    """Collect the slots: Working Set, hard rules outside it, memories, documents; record a decision for each."""
    rows, most = turn.memories.by_id, turn.config.active_phases.item_max_chars
    collected = [
        *([turn.pinned] if turn.pinned else ()),
        *(memory_slot(row) for row in turn.hard),
        *(memory_slot(rows[pick.candidate.id], most) for pick in turn.hits),
        *turn.docs,
    ]
    additions = dict(turn.additions)
    if most:
        cut = [slot.id for slot in collected if slot.id in rows and slot.text != rows[slot.id].text]
        additions["shortened"] = _ids(cut, turn.most_ids)
    if turn.explained:
        decisions = {turn.pinned.id: "pinned"} if turn.pinned else {}
        decisions |= {pick.candidate.id: pick.decision for pick in turn.final}
        additions["decisions"] = decisions | {slot.id: "docs" for slot in turn.docs}
    return Collected(collected, additions)


def budget(turn: SeedTurn) -> Injected:
    """Fit the slots into the budget: drop hard rules last and keep the block well formed."""
    pinned, built = turn.pinned, turn.built_working_set
    hard = frozenset(row.id for row in turn.hard)
    if pinned and built and any(line.hard for line in built.lines):
        hard |= {pinned.id}

    def shorten(slot: Slot, units: int, rules: bool) -> Slot | None:
        return _shorter(slot, built, units, rules=rules) if pinned and built and slot.id == pinned.id else None

    injected = inject(
        turn,
        lambda chosen, comment: pack_well_formed(
            chosen, turn.config.budget, closed_comment(comment), hard=hard, shorten=shorten
        ),
    )
    receipt, slots = injected.receipt, injected.packed.intact if injected.packed else ()
    kept, covered = {slot.id for slot in slots}, turn.covered_in(slots)
    if receipt and "decisions" in receipt:
        receipt["decisions"] = {key: value for key, value in receipt["decisions"].items() if key in kept}
        # Each pinned memory needs its reason (E-68); the Working Set itself bounds how many there are.
        most = len(covered) if turn.config.explains_all else turn.most_ids
        receipt["pinnedByWorkingSet"] = _ids(list(covered), most)
    if receipt and turn.config.explains_all:
        receipt["notInjected"] = not_injected(turn, kept=kept.union(covered))
    return injected


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
    if not lane.notes.stale:
        return 0
    stale = set(lane.notes.stale)
    without = lane.select(turn.tiers.unrecorded(), limit, allowed=Allowed(stale=True))
    return sum(pick.candidate.id in stale for pick in without.selection.picked)


def _explain_suppression(
    turn: SeedTurn, lane: HotLane, limit: int, hits: Sequence[Picked], waiting: Sequence[Row]
) -> dict[str, Any]:
    """Return receipt fields of seed 000: what was pinned, and what would be selected without each suppression."""
    listed, notes, fields = turn.most_ids, lane.notes, dict[str, Any]()
    chosen = {pick.candidate.id for pick in hits}
    penalised = [key for key, factors in notes.factors.items() if factors.repeat < 1.0]
    repeated: list[str] = []
    if penalised:
        unsuppressed = lane.select(turn.tiers.unrecorded(), limit, repeats=False)
        repeated = [pick.candidate.id for pick in unsuppressed.selection.picked if pick.candidate.id not in chosen]
    duplicates: list[str] = []
    if notes.excluded:
        unsuppressed = lane.select(turn.tiers.unrecorded(), limit, allowed=Allowed(duplicates=True))
        duplicates = [
            pick.candidate.id for pick in unsuppressed.selection.picked if pick.candidate.id in notes.excluded
        ]
    exempt = {key: notes.exempt[key] for key in (pick.candidate.id for pick in hits) if key in notes.exempt}
    if exempt:
        fields["repeatExempt"] = {"count": len(exempt), "rules": dict(list(exempt.items())[:listed])}
    if waiting:
        fields["hardRulesWaiting"] = _ids([row.id for row in waiting if row.id not in chosen], listed)
    fields |= {
        "suppressedByRepeat": _ids(repeated, listed) | {"penalized": len(penalised)},
        "pinnedByWorkingSet": _ids(list(turn.built_working_set.pinned) if turn.built_working_set else [], listed),
        "excludedAsBackboneDuplicate": _ids(duplicates, listed),
    }
    if turn.config.receipts.verbosity == "high" and turn.config.phased:
        fields["factors"] = {
            pick.candidate.id: {
                name: round6(value)
                for name, value in notes.factors[pick.candidate.id]._asdict().items()
                if value != 1.0
            }
            for pick in hits[:listed]
        }
    return fields


def _ids(ids: list[str], listed: int) -> dict[str, Any]:
    return {"count": len(ids), "ids": ids[:listed]}


def _hard_pick(row: Row) -> Picked:
    return Picked(Candidate(row.id, 0.0, row.created_at), "must", "hard_rule")


STAGES = (
    ("scope", stages.scope),
    ("trivial", trivial),
    ("embedding", stages.embedding),
    ("backbone", add_working_set),
    ("select", select),
    ("docs", stages.docs),
    ("slots", slots),
    ("budget", budget),
)


def recall(prompt: Prompt, config: EngineConfig, memories: Memories, state: RecallState) -> SeedTurn:
    """Run the stages and record what was injected, for later turns."""
    turn = SeedTurn(prompt, config, memories, state)
    if config.auto_recall.enabled:
        remember(stages.run(turn, STAGES, failed))
    return turn


def failed(turn: SeedTurn, stage: str, kind: str) -> dict[str, Any] | None:
    """Return a receipt that names the failed stage; None if receipts are off."""
    receipts = turn.config.receipts
    if not receipts.enabled:
        return None
    return lifecycle_receipt(
        receipts,
        scope=turn.scope,
        scope_mode=turn.scope_mode,
        rejected=turn.rejected,
        mode=turn.config.auto_recall.selection_mode,
        parts={"failed": {"stage": stage, "error": kind}},
    )


def not_injected(turn: SeedTurn, *, kept: Set[str]) -> dict[str, str]:
    """Return why the first ``maxItems`` must candidates are not among the ``kept`` ids (seed 000, phase 3; E-68).

    ``budget``: its slot was dropped. ``backbone_duplicate``: the Working Set holds its text. ``stale_todo``: it is too
    old. ``outdated``: a newer memory replaces it, or it has ended. ``repeat``: it would have been selected without the
    repeat penalty. ``filtered``: a limit of age, relevance or
    trust excluded it. ``silent``: the search found nothing relevant enough. ``quota``: others took the slots, which
    cannot happen under ``tier_first_v1``.
    """
    dropped = {slot.id for slot in turn.slots}
    repeated = {*turn.additions.get("suppressedByRepeat", {}).get("ids", ())}

    def reason(identity: str) -> str:
        if identity in dropped:
            return "budget"
        if identity in turn.excluded:
            return "backbone_duplicate"
        if identity in turn.stale:
            return "stale_todo"
        if identity in turn.outdated:
            return "outdated"
        if identity in repeated:
            return "repeat"
        if turn.silent:
            return "silent"
        return "quota" if identity in turn.factors else "filtered"

    first = turn.tiers.must_first(turn.filter_scope, turn.config.max_items)
    return {identity: reason(identity) for identity in first if identity not in kept}
