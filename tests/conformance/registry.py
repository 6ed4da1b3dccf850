"""The registry of checks by vector file."""

from __future__ import annotations

from tests.conformance import (
    admin,
    admin_calls,
    capture,
    functions_inject,
    functions_other,
    functions_scope,
    functions_select,
    tools,
    turns,
)
from tests.conformance.record_files import Check, each

# Files whose records are independent calls, by stem.
FUNCTIONS: dict[str, Check] = {
    name: each(answer)
    for name, answer in {
        "admin_units": admin.admin_units,
        "budget": functions_inject.budget,
        "capture_units": capture.capture_units,
        "compare_hits": functions_select.compare_hits,
        "config": functions_other.config,
        "docs_input": functions_other.docs_input,
        "embedding_clamp": functions_other.embedding_clamp,
        "escape_format": functions_inject.escape_format,
        "fuse_recall": functions_select.fuse_recall,
        "heuristic_v1": functions_other.heuristic_v1,
        "importance": functions_inject.importance,
        "locale_compare": functions_select.locale_compare,
        "receipts": functions_inject.receipts,
        "scope_extract": functions_scope.extract,
        "scope_normalize": functions_scope.normalize,
        "scope_plan": functions_scope.plan,
        "scope_resolve": functions_scope.resolve,
        "scope_token": functions_scope.token,
        "scoped_recall": functions_select.scoped_recall,
        "sidecar_importance": functions_other.sidecar_importance,
        "skip_prompt": functions_scope.skip_prompt,
        "tier_first": functions_select.tier_first,
        "tier_quota": functions_select.tier_quota,
        "todo_guardrails": functions_inject.todo_guardrails,
        "working_set": functions_inject.working_set,
    }.items()
}

# Files whose records depend on a recorded table.
SEQUENCES: dict[str, Check] = {
    "capture_pipeline": capture.capture_pipeline,
    "e2e_admin": admin_calls.e2e_admin,
    "e2e_hook_dedupe": turns.hook_dedupe,
    "e2e_recall_tool": tools.recall_tool,
    "e2e_searches": turns.searches,
}


def check_of(name: str) -> Check | None:
    """Return the check of a file by its stem, or None if there is none.

    Other files whose names begin with ``e2e_`` are checked as turns, so that deployments can add recordings.
    """
    check = FUNCTIONS.get(name) or SEQUENCES.get(name)
    return check or (turns.turns if name.startswith("e2e_") else None)
