"""The stages that both profiles share, and the function that runs a profile's stages (E-18).

The last step of a turn, :func:`inject`, packs the slots and writes the receipt, whose own length counts (E-22).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from lab.base.utf16 import WHITESPACE, js_length, js_slice, without_half
from lab.recordings.model import GLOBAL, UNKNOWN
from lab.retrieval.contract import Row
from lab.retrieval.stage_timer import SEARCH
from lab.systems.openclaw.js import Json
from lab.systems.openclaw.memory import resolve_label
from lab.systems.openclaw.recall.block import Packed, Slot
from lab.systems.openclaw.recall.receipt import NAME, Final, fallback_markers, lifecycle_receipt, marker, prompt_comment
from lab.systems.openclaw.recall.scope import ScopedSelection, resolve_scope
from lab.systems.openclaw.recall.trivial import is_trivial
from lab.systems.openclaw.recall.turn import Documented, Failed, Injected, Scoped, Skipped, Taken, Turn, WithoutVector

MAX_PASSES = 3
Pack = Callable[[list[Slot], str], Packed]


def memory_slot(row: Row, most: int = 0) -> Slot:
    """Return the slot of a memory; with ``most``, cut a longer text to this many UTF-16 units, ellipsis included."""
    label = resolve_label(row.importance_label, row.importance)
    return Slot(row.id, row.created_at, row.category, label, _cut(row.text, most) if most else row.text)


def _cut(text: str, most: int) -> str:
    if js_length(text) <= most:
        return text
    return f"{without_half(js_slice(text, most - 1))}…"


def inject(turn: Turn, pack: Pack) -> Injected:
    """Pack the slots with ``pack(slots, comment)`` and write the receipt."""
    receipts = turn.config.receipts
    if not turn.slots:
        return Injected(None, _receipt(turn, 0, None) if receipts.enabled else None, turn.log)
    packed, receipt = _packed_with_receipt(turn, pack) if receipts.enabled else (pack(turn.slots, ""), None)
    budget = packed.receipt
    marks = []
    if budget["truncated"] and budget["enabled"]:
        names = ("beforeChars", "afterChars", "droppedIds", "droppedCount", "truncatedChars")
        marks = [("info", marker("contextBudget", {name: budget[name] for name in names}))]
    return Injected(packed, receipt, [*turn.log, *marks])


def _packed_with_receipt(turn: Turn, pack: Pack) -> tuple[Packed, dict[str, Any]]:
    """Pack repeatedly with the receipt of the previous packing, until two passes agree."""
    receipts = turn.config.receipts
    if receipts.verbosity != "high":
        # Without a comment the receipt takes no space, so one packing is enough.
        packed = pack(turn.slots, "")
        return packed, _receipt(turn, len(packed.kept), packed)
    receipt = _receipt(turn, len(turn.slots), None)
    packed = pack(turn.slots, prompt_comment(receipts, receipt))
    for _ in range(MAX_PASSES):
        receipt = _receipt(turn, len(packed.kept), packed)
        previous, packed = packed, pack(turn.slots, prompt_comment(receipts, receipt))
        if (len(previous.kept), previous.receipt["afterChars"]) == (len(packed.kept), packed.receipt["afterChars"]):
            break
    return packed, receipt


def _receipt(turn: Turn, injected: int, packed: Packed | None) -> dict[str, Any]:
    fts, vec = turn.tiers.lane_summaries(turn.config.receipts)
    parts: dict[str, Any] = {"fallback": turn.fallback}
    if packed is not None:
        parts["budget"] = packed.receipt
    if turn.cold_lane is not None:
        parts["coldLane"] = turn.cold_lane
    parts["workingSet"] = turn.working_set_receipt(packed.intact if packed else turn.slots)
    final = (turn.memories.by_id[pick.candidate.id] for pick in turn.final)
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
        final=[Final(row.id, row.importance_label, row.scope) for row in final],
        injected=injected,
        parts=parts | turn.additions,
        explain_all=turn.config.explains_all,
    )


# The reason of a receipt for a turn at which the search found nothing relevant enough.
SILENT = "low_relevance"
_Turn = TypeVar("_Turn", bound=Turn)


def run(
    turn: _Turn,
    stages: Sequence[tuple[str, Callable[[_Turn], NamedTuple | None]]],
    failed: Callable[[_Turn, str, str], dict[str, Any] | None] = lambda *_: None,
) -> _Turn:
    """Run a profile's stages in order until one of them ends the turn, and time each; add what each decided.

    If a stage raises, the turn ends with nothing injected and one warning. The warning contains the type of the error,
    not its message, which may quote a text, and the receipt that ``failed(turn, stage, kind)`` returns.
    """
    for name, stage in stages:
        try:
            turn.add(turn.tiers.timer.stage(name, partial(stage, turn)))
        except Exception as error:
            # On any error, the agent's turn continues without memories (E-24).
            kind = type(error).__name__
            log = [*turn.log, ("warn", f"{NAME}: autoRecall failed: {kind}")]
            turn.add(Failed(error, log, [], [], [], receipt=failed(turn, name, kind)))
        if turn.done:
            return turn
    turn.timings.setdefault(SEARCH, 0)
    return turn


def scope(turn: Turn) -> Scoped:
    """Trim the prompt and determine its scope (E-30, E-31)."""
    prompt, policy = turn.prompt, turn.config.scope_policy
    text = prompt.text.strip(WHITESPACE)
    if prompt.scoping == "open":
        return Scoped(text)
    if prompt.scoping == "given":
        scope = prompt.scope or policy.default_scope
        mode = GLOBAL if scope == policy.default_scope else "inferred"
        return Scoped(text, scope, mode, filter_scope=scope)
    mode, resolved = resolve_scope(None, text, policy)
    return Scoped(text, resolved.scope, mode, resolved.invalid, resolved.scope)


def trivial(turn: Turn) -> Skipped | None:
    """End the turn if the prompt is empty or trivial as the public plugin defines it (E-19)."""
    recall = turn.config.auto_recall
    return skip_if(turn, is_trivial(turn.text, skip=recall.skip_trivial_prompts, min_chars=recall.trivial_min_chars))


def skip_if(turn: Turn, is_trivial_prompt: bool) -> Skipped | None:
    """End the turn if the prompt is empty or trivial."""
    receipts = turn.config.receipts
    if turn.text and not is_trivial_prompt:
        return None
    reason = "trivial_prompt" if turn.text else "no_query"
    receipt = None
    if receipts.enabled:
        receipt = lifecycle_receipt(
            receipts, scope=turn.scope, scope_mode=turn.scope_mode, skip_reason=reason, rejected=[reason]
        )
    return Skipped(reason, [reason], receipt)


def embedding(turn: Turn) -> WithoutVector | None:
    """Record why there is no query vector, if so: recall continues with the text lane alone (E-11, E-50)."""
    reason = turn.memories.no_vector
    return WithoutVector([*turn.rejected, reason]) if reason else None


def take(turn: Turn, scoped: ScopedSelection) -> Taken:
    """Return a selection as the turn's, with its fallback in the log."""
    marks = fallback_markers(turn.config.scope_policy, turn.scope, scoped.fallback, turn.barred)
    rejected = [*turn.rejected, *scoped.selection.rejected]
    return Taken(scoped.selection, scoped.fallback, rejected, [*turn.log, *(("info", mark) for mark in marks)])


def stale_marks(turn: Turn, dropped: int) -> list[tuple[str, str]]:
    """Return the lines of the log that say how many stale TODOs were dropped; none if none were."""
    if not dropped:
        return []
    days = turn.config.todo_stale_ttl_days
    value: dict[str, Json] = {"phase": "recall", "reason": "ttl", "dropped": dropped, "ttlDays": days}
    return [("info", marker("todoGuardrail", value))]


def docs(turn: Turn) -> Documented | None:
    """Consult the operator's documents if recall found too few memories (E-47)."""
    lane = turn.memories.docs
    if lane is None or turn.silent or not lane.needed(len(turn.hits)):
        return None
    requested = max(1, turn.config.max_items - len(turn.hits))
    answer = lane.consult(turn.text, turn.scope, requested, trigger="insufficient_hot")
    found = [
        Slot(
            f"docs:{hit.record_ref}",
            turn.prompt.now_ms + rank,
            "fact",
            UNKNOWN,
            f"[docs|operator|{hit.doc_kind}] {hit.text} ({hit.record_ref})",
        )
        for rank, hit in enumerate(answer.hits)
    ]
    return Documented(found, answer.receipt, [*turn.log, ("info", answer.mark())])
