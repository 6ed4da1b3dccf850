"""Adapters for the injected block and its receipts: lines, budget, Working Set, TODO ages (E-25 to E-46)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.base.utf16 import js_length
from lab.retrieval.contract import Row
from lab.systems.openclaw.capture.pipeline import capture_receipt
from lab.systems.openclaw.config.settings import ReceiptSettings, WorkingSetSettings
from lab.systems.openclaw.js import round6, to_number
from lab.systems.openclaw.memory import (
    dedupe_cutoff_ms,
    importance_score,
    is_stale,
    is_within_dedupe_window,
    label_key,
    label_of_score,
    normal_label,
    resolve_label,
    stale_cutoff_ms,
)
from lab.systems.openclaw.recall.block import Budget, Slot, compose, escape, line, pack, wrap
from lab.systems.openclaw.recall.receipt import REASONS, Final, LaneHit, lifecycle_receipt, prompt_comment, why_tier
from lab.systems.openclaw.recall.working_set import normal_line, open_questions
from lab.systems.openclaw.select.outcome import Quota, TierCount
from lab.systems.openclaw.upstream.stages import build_working_set
from tests.conformance.record_files import Skip
from tests.conformance.values import UNDEFINED, NoJson

Value = dict[str, Any]
# Properties of every JavaScript object, which the plugin's alias table finds by accident. The others have capitals, and
# the plugin looks labels up in lower case. They are no labels here: that is a bug of the plugin, not a rule.
_BUILT_IN = {"constructor": NoJson.FUNCTION, "__proto__": NoJson.OBJECT}


def importance(record: Value) -> Any:
    """Run the engine's importance functions; None becomes undefined."""
    given, name = record["input"], record["fn"]
    label, score = (given.get(key) for key in ("label", "score"))
    accident = _BUILT_IN.get(label_key(label)) if isinstance(label, str) else None
    if accident and name in ("normalizeImportanceLabel", "resolveImportanceLabel"):
        return accident
    if name == "normalizeImportance":
        result: Any = importance_score(given.get("value"))
    elif name == "importanceLabel":
        result = label_of_score(score if isinstance(score, int | float) else None)
    elif name == "normalizeImportanceLabel":
        result = normal_label(label)
    elif name == "resolveImportanceLabel":
        result = resolve_label(label, score)
    else:
        raise unknown_function(name)
    return UNDEFINED if result is None else result


def escape_format(record: Value) -> Any:
    """Run the functions that format the block of memories and its parts."""
    given, name = record["input"], record["fn"]
    if name == "escapeMemoryForPrompt":
        return escape(given["text"])
    if name == "formatRelevantMemoryLine":
        entry = given["entry"]
        return line(given["idx"] + 1, entry["category"], entry["importanceLabel"], entry["text"])
    if name == "formatRelevantMemoriesContext":
        slots = [(entry["category"], entry["importanceLabel"], entry["text"]) for entry in given["memories"]]
        return wrap(slots, empty=True)
    if name == "composePrependContext":
        return compose([_slot(entry) for entry in given["slots"]], given.get("receiptComment") or "")
    raise unknown_function(name)


def budget(record: Value) -> Any:
    """Run ``applyPrependContextBudget``."""
    given, config = record["input"], record["input"]["cfg"]
    limits = Budget(config["enabled"], config["maxChars"], config["minRecentSlots"], config["overflowAction"])
    packed = pack([_slot(slot) for slot in given["slots"]], limits, given.get("receiptComment") or "")
    return {"prependContext": packed.context, "keptSlots": len(packed.kept), "budget": packed.receipt}


def working_set(record: Value) -> Any:
    """Run ``buildWorkingSetBundle`` or one of its helper functions."""
    given, name = record["input"], record.get("fn")
    if name == "normalizeWorkingSetLine":
        return normal_line(given["text"], given["maxChars"])
    if name == "extractPromptOpenQuestions":
        return open_questions(given["prompt"], given["maxItems"], given["maxItemChars"])
    if name is not None:
        raise unknown_function(name)
    config = given["cfg"]
    limits = WorkingSetSettings(
        max_chars=config["maxChars"],
        max_items_per_section=config["maxItemsPerSection"],
        max_item_chars=config["maxItemChars"],
    )
    rows = [
        Row(row["id"], "", row["text"], "", row["createdAt"], row["category"], row.get("importance_label") or "")
        for row in (given["rows"] if config["enabled"] else ())
    ]
    built = build_working_set(given["scope"], given["prompt"], given["nowMs"], limits, rows)
    slot = built.slot
    return {
        "slot": slot and shown_slot(slot),
        "receipt": {
            "enabled": config["enabled"],
            "generated": slot is not None,
            "id": slot.id if slot else None,
            "chars": js_length(slot.text) if slot else 0,
            "sections": built.sections,
            "consumedCount": len(built.consumed),
            "suppressedRecallCount": 0,
            "persisted": False,
        },
        "consumedIds": list(built.consumed),
    }


def todo_guardrails(record: Value) -> Any:
    """Run the functions on the age of TODOs."""
    given, name = record["input"], record["fn"]
    now, window = given["nowMs"], _number(given["window"])
    if name in ("isTodoStale", "isTodoWithinDedupeWindow"):
        decide = is_stale if name == "isTodoStale" else is_within_dedupe_window
        return decide(_number(given.get("createdAt", UNDEFINED)), now, window)
    if name == "todoDedupeCutoffMs":
        return dedupe_cutoff_ms(now, window)
    if name == "todoStaleCutoffMs":
        return stale_cutoff_ms(now, window)
    raise unknown_function(name)


def receipts(record: Value) -> Any:
    """Build the receipt of a recall with its comment, or run one of the helper functions."""
    given, name = record["input"], record["fn"]
    if name == "recallReceipt":
        return _recall_receipt(given)
    if name == "roundScore":
        value = given["value"]
        return round6(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if name == "toWhyTier":
        return why_tier(given["label"] if isinstance(given["label"], str) else None)
    if name == "uniqueReasons":
        return [reason for reason in REASONS if reason in given["reasons"]]
    if name == "autoCaptureReceipt":
        return capture_receipt(
            _receipt_settings(given["cfg"]),
            extracted=given["candidateExtractionCount"],
            filtered=given["filteredOut"],
            stored=given["storedCount"],
            scanned=given.get("scanned"),
        )
    raise unknown_function(name)


def _receipt_settings(config: Value) -> ReceiptSettings:
    return ReceiptSettings(config["enabled"], config["verbosity"], config["maxItems"])


def unknown_function(name: str) -> Skip:
    """Return the skip for a record of a function without an adapter."""
    return Skip(f"no adapter for the function {name}")


def shown_slot(slot: Slot) -> Value:
    """Return a slot in the plugin's form."""
    return {
        "id": slot.id,
        "createdAt": slot.created_at,
        "category": slot.category,
        "text": slot.text,
        "importanceLabel": slot.label,
    }


def _recall_receipt(given: Value) -> Any:
    config = given["cfg"]
    settings = _receipt_settings(config)
    quota = given.get("quota")
    receipt = lifecycle_receipt(
        settings,
        scope=given["scope"],
        scope_mode=given["scopeMode"],
        skip_reason=given.get("skipReason"),
        rejected=given.get("rejected", ()),
        mode=given.get("selectionMode"),
        quota=Quota(*(quota[key] for key in ("mustMax", "niceMin", "unknownMax", "wildcardUsed"))) if quota else None,
        tier_counts=[
            TierCount(item["tier"], tuple(item["labels"]), item["candidates"], item["selected"])
            for item in given["tierCounts"]
        ],
        fts=[LaneHit(item["id"], item["score"], item["distance"]) for item in given["ftsResults"]],
        vec=[LaneHit(item["id"], item["score"], item["distance"]) for item in given["vecResults"]],
        final=[Final(item["id"], item["importance_label"], item["scope"]) for item in given["fusedResults"]],
        injected=given["injectedCount"],
        parts={key: given[key] for key in ("fallback", "budget", "coldLane", "workingSet") if key in given},
    )
    return {"receipt": receipt, "comment": prompt_comment(settings, receipt)}


def _slot(raw: Mapping[str, Any]) -> Slot:
    return Slot(raw["id"], raw["createdAt"], raw["category"], raw["importanceLabel"], raw["text"])


def _number(value: Any) -> float:
    return to_number(value)
