"""Steps of the recall path that are pure functions, held against what the public engine answered."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.engine.js import js_length, to_number
from lab.engine.recall.budget import Budget, Slot, pack
from lab.engine.recall.scope import ScopePolicy, find_tag, normalise, resolve_scope, scope_plan, strip_decorations
from lab.engine.recall.todo import dedupe_cutoff_ms, is_stale, is_within_dedupe_window, stale_cutoff_ms
from lab.engine.recall.trivial import is_trivial
from lab.engine.recall.working_set import (
    WorkingSetLimits,
    WorkingSetRow,
    build_working_set,
    normal_line,
    open_questions,
)

Record = dict[str, Any]
# The engine compares ids as people sort words; here they stand by code point (spec 0.5.4), and these two ids differ.
OTHER_ORDER = {"ws-133"}
TODO: dict[str, Callable[..., Any]] = {"isTodoStale": is_stale, "isTodoWithinDedupeWindow": is_within_dedupe_window}
CUTOFFS: dict[str, Callable[..., Any]] = {"todoDedupeCutoffMs": dedupe_cutoff_ms, "todoStaleCutoffMs": stale_cutoff_ms}


def policy(raw: Record) -> ScopePolicy:
    fallbacks = tuple(raw["fallbackScopes"])
    return ScopePolicy(raw["enabled"], raw["defaultScope"], fallbacks, raw["validationMode"], raw["maxScopeLength"])


def text(value: Any) -> str | None:
    """A string, or None for what the engine takes as none."""
    return value if isinstance(value, str) else None


def number(value: Any) -> float:
    """A value as JavaScript reads it; ``{"$js": …}`` stands for what JSON cannot hold."""
    return math.nan if isinstance(value, dict) else to_number(value)


def skip_prompt(record: Record) -> Any:
    config = record["input"]["cfg"]
    return is_trivial(record["input"]["prompt"], skip=config["skipTrivialPrompts"], min_chars=config["trivialMinChars"])


def scope_normalize(record: Record) -> Any:
    return normalise(text(record["input"].get("raw")), policy(record["input"]["policy"]))._asdict()


def scope_extract(record: Record) -> Any:
    if record.get("fn"):
        return strip_decorations(record["input"]["line"])
    return find_tag(text(record["input"]["text"]) or "")


def scope_resolve(record: Record) -> Any:
    given = record["input"]
    mode, found = resolve_scope(text(given["explicitScope"]), text(given["text"]) or "", policy(given["policy"]))
    return {"scope": found.scope, "scopeMode": mode, "invalid": found.invalid, "normalized": found.normalized}


def plan(record: Record) -> Any:
    given, options = record["input"], record["input"]["options"] or {}
    found = scope_plan(given["primary"], policy(given["policy"]), allow_fallback=options.get("allowFallback", True))
    return [{"scope": scope, "origin": origin} for scope, origin in found]


def budget(record: Record) -> Any:
    given, config = record["input"], record["input"]["cfg"]
    slots = [
        Slot(one["id"], one["createdAt"], one["category"], one["importanceLabel"], one["text"])
        for one in given["slots"]
    ]
    limits = Budget(config["enabled"], config["maxChars"], config["minRecentSlots"], config["overflowAction"])
    packed = pack(slots, limits, given.get("receiptComment") or "")
    return {"prependContext": packed.context, "keptSlots": len(packed.kept), "budget": packed.receipt}


def working_set(record: Record) -> Any:
    given = record["input"]
    if record.get("fn") == "normalizeWorkingSetLine":
        return normal_line(given["text"], given["maxChars"])
    if record.get("fn") == "extractPromptOpenQuestions":
        return open_questions(given["prompt"], given["maxItems"], given["maxItemChars"])
    config = given["cfg"]
    limits = WorkingSetLimits(config["maxChars"], config["maxItemsPerSection"], config["maxItemChars"])
    rows = [
        WorkingSetRow(one["id"], one["text"], one["createdAt"], one["category"], one.get("importance_label"))
        for one in (given["rows"] if config["enabled"] else ())
    ]
    built = build_working_set(given["scope"], given["prompt"], given["nowMs"], limits, rows)
    slot = built.slot
    return {
        "slot": slot
        and {
            "id": slot.id,
            "createdAt": slot.created_at,
            "category": slot.category,
            "text": slot.text,
            "importanceLabel": slot.label,
        },
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


def todo_guardrails(record: Record) -> Any:
    given, name = record["input"], record["fn"]
    if name in TODO:
        return TODO[name](number(given["createdAt"]), given["nowMs"], number(given["window"]))
    return CUTOFFS[name](given["nowMs"], number(given["window"]))


@pytest.mark.parametrize(
    ("name", "count", "answer"),
    [
        ("skip_prompt", 542, skip_prompt),
        ("scope_normalize", 391, scope_normalize),
        ("scope_extract", 310, scope_extract),
        ("scope_resolve", 180, scope_resolve),
        ("scope_plan", 74, plan),
        ("budget", 154, budget),
        ("todo_guardrails", 166, todo_guardrails),
        ("working_set", 315, working_set),
    ],
)
def test_a_step_answers_as_the_public_engine_does(
    vectors: Path, name: str, count: int, answer: Callable[[Record], Any]
) -> None:
    records = [json.loads(line) for line in (vectors / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(records) == count
    for record in records:
        if record["id"] in OTHER_ORDER:
            continue
        assert answer(record) == record["output"], record["id"]
