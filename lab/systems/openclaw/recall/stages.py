"""The stages that both profiles run: from the prompt's scope to the logged receipt (spec 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.recordings.model import MUST, UNKNOWN
from lab.retrieval.row import Row
from lab.systems.openclaw.js import js_json
from lab.systems.openclaw.memory import resolve_label
from lab.systems.openclaw.recall.budget import Packed, Slot
from lab.systems.openclaw.recall.receipt import Final, lifecycle_receipt, prompt_comment
from lab.systems.openclaw.recall.scope import GLOBAL, ScopePolicy, resolve_scope, scope_plan
from lab.systems.openclaw.recall.trivial import is_trivial
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.select.outcome import Picked, Selection
from lab.systems.openclaw.select.policy_loop import policy_loop_v0
from lab.systems.openclaw.select.tier_first import tier_first_v1
from lab.systems.openclaw.select.tier_quota import tier_quota_v1
from lab.systems.openclaw.select.tiers import TierPlan, recall_plans
from lab.utf16 import WHITESPACE

NAME = "openclaw-mem-engine"
NO_SECTIONS = {"goal": False, "constraints": 0, "decisions": 0, "nextActions": 0, "openQuestions": 0}
MAX_PASSES = 3


def scope(turn: Turn) -> None:
    """Trim the prompt and find the scope it belongs to (spec 7)."""
    prompt, policy = turn.prompt, turn.config.scope_policy
    turn.text = prompt.text.strip(WHITESPACE)
    if prompt.scoping == "open":
        return
    if prompt.scoping == "given":
        turn.scope = prompt.scope or policy.default_scope
        turn.scope_mode = GLOBAL if turn.scope == policy.default_scope else "inferred"
    else:
        turn.scope_mode, found = resolve_scope(None, turn.text, policy)
        turn.scope, turn.scope_invalid = found.scope, found.invalid
    turn.filter_scope = turn.scope


def trivial(turn: Turn) -> None:
    """Stop at a prompt that asks for nothing (spec 4.1)."""
    recall = turn.config.auto_recall
    if not turn.text:
        turn.skip_reason = "no_query"
    elif is_trivial(turn.text, skip=recall.skip_trivial_prompts, min_chars=recall.trivial_min_chars):
        turn.skip_reason = "trivial_prompt"
    if turn.skip_reason:
        turn.done = True
        turn.rejected = [turn.skip_reason]
        if turn.config.receipts.enabled:
            turn.receipt = lifecycle_receipt(
                turn.config.receipts,
                scope=turn.scope,
                scope_mode=turn.scope_mode,
                skip_reason=turn.skip_reason,
                rejected=turn.rejected,
            )


def embedding(turn: Turn) -> None:
    """Say why there is no vector, where there is none: recall goes on with the text lane alone (spec 2.5, 14.1)."""
    if turn.memories.no_vector:
        turn.rejected.append(turn.memories.no_vector)


def plan_of_scopes(turn: Turn) -> list[tuple[str | None, str]]:
    """Scopes to search in order, with their origin."""
    if turn.filter_scope is None:
        return [(None, "primary")]
    return list(scope_plan(turn.scope, turn.config.scope_policy, allow_fallback=fallback_allowed(turn)))


def fallback_allowed(turn: Turn) -> bool:
    """An invalid scope in the prompt does not fall back, unless the policy says so (spec 3.4)."""
    return not (turn.scope_invalid and turn.config.scope_policy.skip_fallback_on_invalid)


def mark_fallback(turn: Turn) -> None:
    """Log what became of the fallback."""
    if turn.fallback is not None:
        allowed = fallback_allowed(turn)
        marks = fallback_markers(turn.config.scope_policy, turn.scope, turn.fallback, allowed=allowed)
        turn.log += [("info", mark) for mark in marks]


def fallback_markers(policy: ScopePolicy, scope: str, found: dict[str, Any], *, allowed: bool) -> list[str]:
    """What is logged of a fallback: that it was suppressed, or which scopes it consulted (spec 4, step 11)."""
    if not policy.fallback_marker:
        return []
    marks = []
    if not allowed:
        value = {"scope": scope, "reason": "invalid_scope", "validationMode": policy.validation_mode}
        marks.append(_mark("scopeFallbackSuppressed", value))
    if found["consulted"]:
        kept = {name: found[name] for name in ("consultedScopes", "usedScopes", "contributed")}
        marks.append(_mark("scopeFallback", {"scope": scope, **kept}))
    return marks


def choose(turn: Turn, places: int, search: Callable[[TierPlan], Any]) -> Selection:
    """The selection policy over one scope (spec 3)."""
    recall = turn.config.auto_recall
    plans = recall_plans(unknown_fallback=recall.include_unknown_fallback)
    if recall.selection_mode != "tier_quota_v1":
        return tier_first_v1(plans, places, search)
    if turn.config.phases.tier_mode == "loop_v0":
        return policy_loop_v0(places, recall.quota, search, strict_caps=recall.strict_caps)
    return tier_quota_v1(plans, places, recall.quota, search, strict_caps=recall.strict_caps)


def mark_stale(turn: Turn, dropped: int) -> None:
    """Log that TODOs had outlived their days."""
    if dropped:
        days = turn.config.todo_stale_ttl_days
        _log(turn, "todoGuardrail", {"phase": "recall", "reason": "ttl", "dropped": dropped, "ttlDays": days})


def docs(turn: Turn) -> None:
    """Consult the operator's documents where recall is thin (spec 13.1)."""
    lane = turn.memories.docs
    if lane is None or not lane.needed(len(turn.hits)):
        return
    wanted = max(1, turn.config.max_items - len(turn.hits))
    found = lane.consult(turn.text, turn.scope, wanted, trigger="insufficient_hot")
    turn.cold_lane = found.receipt
    _log(turn, "docsColdLane.search", found.receipt)
    turn.docs = [
        Slot(
            f"docs:{hit.record_ref}",
            turn.prompt.now_ms + place,
            "fact",
            UNKNOWN,
            f"[docs|operator|{hit.doc_kind}] {hit.text} ({hit.record_ref})",
        )
        for place, hit in enumerate(found.hits)
    ]


def fail_open(turn: Turn, stage: str, error: Exception) -> None:
    """End the turn with nothing injected: one warning, and no receipt in the plugin; in ``seed`` one that says why.

    The warning names the kind of error and not its words, which may hold a text.
    """
    turn.done, turn.slots, turn.packed, turn.receipt = True, [], None, None
    turn.final, turn.hits = [], []
    kind = type(error).__name__
    turn.log.append(("warn", f"{NAME}: autoRecall failed: {kind}"))
    if turn.config.receipts.enabled and not turn.config.upstream:
        turn.receipt = lifecycle_receipt(
            turn.config.receipts,
            scope=turn.scope,
            scope_mode=turn.scope_mode,
            rejected=turn.rejected,
            mode=turn.config.auto_recall.selection_mode,
            parts={"failed": {"stage": stage, "error": kind}},
        )


def memory_slot(row: Row) -> Slot:
    """A memory as it is injected."""
    return Slot(row.id, row.created_at, row.category, resolve_label(row.importance_label, row.importance), row.text)


def inject(turn: Turn, pack: Callable[[list[Slot], str], Packed]) -> None:
    """Pack the slots and write the receipt, whose own length counts (spec 4, step 19).

    Packing again with the receipt of the last packing, until two passes agree.
    """
    receipts = turn.config.receipts
    if not turn.slots:
        turn.receipt = _receipt(turn, 0, None) if receipts.enabled else None
        return
    if not receipts.enabled:
        turn.packed = pack(turn.slots, "")
        return
    if receipts.verbosity != "high":
        # Without a comment the receipt has no length, and one packing is all.
        packed = pack(turn.slots, "")
        receipt = _receipt(turn, len(packed.kept), packed.receipt)
    else:
        packed, receipt = _settle(turn, pack)
    turn.packed, turn.receipt = packed, receipt
    spent = packed.receipt
    if spent["truncated"] and spent["enabled"]:
        names = ("beforeChars", "afterChars", "droppedIds", "droppedCount", "truncatedChars")
        _log(turn, "contextBudget", {name: spent[name] for name in names})


def _settle(turn: Turn, pack: Callable[[list[Slot], str], Packed]) -> tuple[Packed, dict[str, Any]]:
    receipts = turn.config.receipts
    receipt = _receipt(turn, len(turn.slots), None)
    packed = pack(turn.slots, prompt_comment(receipts, receipt))
    for _ in range(MAX_PASSES):
        receipt = _receipt(turn, len(packed.kept), packed.receipt)
        again = pack(turn.slots, prompt_comment(receipts, receipt))
        settled = len(again.kept) == len(packed.kept) and again.receipt["afterChars"] == packed.receipt["afterChars"]
        packed = again
        if settled:
            break
    return packed, receipt


def no_working_set(*, enabled: bool) -> dict[str, Any]:
    """The receipt of a Working Set that was not built (spec 6.7)."""
    return {
        "enabled": enabled,
        "generated": False,
        "id": None,
        "chars": 0,
        "sections": dict(NO_SECTIONS),
        "consumedCount": 0,
        "suppressedRecallCount": 0,
        "persisted": False,
    }


def working_set_row(turn: Turn, slot: Slot) -> Row:
    """The memory that a digest is kept as (spec 6.6)."""
    dark = turn.memories.no_vector is not None
    return Row(
        slot.id,
        slot.id,
        slot.text,
        slot.text,
        int(turn.prompt.now_ms),
        "other",
        MUST,
        turn.scope,
        "system_working_set_noembed" if dark else "system_working_set",
        0.96,
    )


def final_of(turn: Turn, picked: list[Picked]) -> list[Final]:
    """The final list as receipts see it."""
    rows = (turn.memories.by_id[one.candidate.id] for one in picked)
    return [Final(row.id, row.importance_label, row.scope) for row in rows]


def _receipt(turn: Turn, injected: int, budget: dict[str, Any] | None) -> dict[str, Any]:
    fts, vec = turn.tiers.told(turn.config.receipts)
    parts: dict[str, Any] = {"fallback": turn.fallback}
    if budget is not None:
        parts["budget"] = budget
    if turn.cold_lane is not None:
        parts["coldLane"] = turn.cold_lane
    parts["workingSet"] = turn.working_set
    return lifecycle_receipt(
        turn.config.receipts,
        scope=turn.scope,
        scope_mode=turn.scope_mode,
        rejected=turn.rejected,
        mode=turn.config.auto_recall.selection_mode,
        quota=turn.selection.quota,
        tier_counts=turn.selection.tier_counts,
        fts=fts,
        vec=vec,
        final=final_of(turn, turn.final),
        injected=injected,
        parts=parts | turn.additions,
    )


def _log(turn: Turn, marker: str, value: Any, level: str = "info") -> None:
    turn.log.append((level, _mark(marker, value)))


def _mark(marker: str, value: Any) -> str:
    return f"{NAME}:{marker} {js_json(value)}"
