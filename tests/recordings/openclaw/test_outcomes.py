"""Tests of what the results of memory tools say that they did, with and without details."""

from __future__ import annotations

from typing import Any

import pytest

from lab.recordings.openclaw.outcomes import (
    DELETED,
    DUPLICATE,
    FAILED,
    LISTED,
    MISSING,
    REFUSED,
    STORED,
    UNKNOWN,
    outcome_of,
    quoted_in,
    row_in,
)
from lab.recordings.openclaw.tools import is_of_memory_plugin

ROW = "0b9f3c1e-7d52-4a0e-9c55-3f0a6f1d2b77"


def outcome(what: str, text: str = "", details: dict[str, Any] | None = None, *, failed: bool = False) -> str:
    return outcome_of(what, failed=failed, details=details or {}, text=text).kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Stored memory (fact, ignore): {ROW}", STORED),
        (f"Stored memory (todo, unknown): {ROW}\n⚠️ Embedding skipped (provider_unavailable).", STORED),
        ('Stored: "the deploy failed: access denied, not found"', STORED),
        ("Saved to long-term memory: I was refused a visa", STORED),
        ("Remembered: he is not allowed to eat nuts", STORED),
        ('Superseded memory 0b9f3c1e... → new version 7d524a0e...: "blue"', STORED),
        ('Stored 2 fact(s) [rule]: "a", "never skip it"', STORED),
        ("✅ Memory kept (no duplicates found)", STORED),
        ("done", STORED),
        ('{"ok": true, "id": "7", "stored": true}', STORED),
        ("已保存：我喜欢茶", STORED),
        ('Similar memory already exists: "The gate was saved"', DUPLICATE),
        ("Duplicate of an older note, skipped", DUPLICATE),
        ("Already in memory (general): tea", DUPLICATE),
        ("记忆已存在", DUPLICATE),
        ("Refusing to store memory: the engine is running in read-only mode.", REFUSED),
        ("Tool memory_store is not allowed here.", REFUSED),
        ("Memory write held by a policy. No memory was stored.", REFUSED),
        ("Skipped: text detected as noise", REFUSED),
        ("Access denied to scope: shop", REFUSED),
        ("Stored: No new memories extracted.", REFUSED),
        ("Stored: 0 added, nothing changed", REFUSED),
        ("Memory not saved: too short", REFUSED),
        ("Memory storage is not available in subagent sessions.", REFUSED),
        ("Memory store failed: 429", FAILED),
        ("Error: the table was created by a newer version", FAILED),
        ("Request timed out after 30 s", FAILED),
        ("The embedding provider is unavailable right now.", FAILED),
        ('{"status": "error", "tool": "memory_store", "error": "timeout"}', FAILED),
        ("", UNKNOWN),
        ("[tool result cut]", UNKNOWN),
        ("Hm.", UNKNOWN),
    ],
)
def test_text_of_a_store_without_details_decides(text: str, expected: str) -> None:
    assert outcome("store", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Memory forgotten: {ROW}", DELETED),
        (f"Memory {ROW} deleted.", DELETED),
        ('Forgotten: "no such memory"', DELETED),
        ('{"deleted": true}', DELETED),
        ('{"deleted": false}', MISSING),
        ("No matching memories found.", MISSING),
        ("Memory m-9 not found.", MISSING),
        ("Found 2 candidates. Specify memoryId:\n- one deleted", LISTED),
        ("Refusing to forget memory: read-only mode.", REFUSED),
        ("Bulk deletion requires confirm: true.", REFUSED),
        ("Memory delete failed: 500", FAILED),
        ("Hm.", UNKNOWN),
    ],
)
def test_text_of_a_forget_without_details_decides(text: str, expected: str) -> None:
    assert outcome("forget", text) == expected


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"action": "created", "id": ROW}, STORED),
        ({"action": "stored", "results": []}, STORED),
        ({"action": "superseded", "id": ROW, "supersededId": "x"}, STORED),
        ({"stored": True}, STORED),
        ({"id": ROW}, STORED),
        ({"stored": False}, REFUSED),
        ({"action": "duplicate", "existingText": "a"}, DUPLICATE),
        ({"id": ROW, "deduplicated": True}, DUPLICATE),
        ({"action": "noise_filtered"}, REFUSED),
        ({"action": "envelopeRejected"}, REFUSED),
        ({"error": "readonly_mode"}, REFUSED),
        ({"error": "store_failed"}, FAILED),
        ({"error": True}, FAILED),
        ({"success": False}, FAILED),
        ({"colour": "blue"}, UNKNOWN),
    ],
)
def test_details_of_a_store_decide_where_they_say_it(details: dict[str, Any], expected: str) -> None:
    assert outcome("store", "", details) == expected
    if expected != UNKNOWN:
        assert outcome("store", "Hm.", details) == expected


def test_details_that_the_host_cut_leave_the_text_to_decide() -> None:
    cut = {"persistedDetailsTruncated": True, "originalDetailKeys": ["action", "id"], "id": "x"}
    assert outcome("store", "Stored memory (fact, ignore): m-1", cut) == STORED
    assert outcome("store", "Similar memory already exists.", cut) == DUPLICATE
    assert outcome("store", "", cut) == UNKNOWN
    assert outcome("store", "", cut | {"error": "boom"}) == FAILED


def test_error_flag_of_the_host_outweighs_every_word() -> None:
    assert outcome("store", "Stored", {"action": "created"}, failed=True) == FAILED
    assert outcome("store", "Tool memory_store is not allowed", failed=True) == REFUSED


def test_row_is_found_in_the_text_and_quotations_are_listed() -> None:
    assert [row_in(text) for text in (f"Stored memory (fact, ignore): {ROW}\nx", "Stored memory (a, b): m-1")] == [
        ROW,
        "m-1",
    ]
    assert [row_in(text) for text in ('Stored: "m-1"', "Stored: two words", "Stored: tea", "")] == [None] * 4
    assert list(quoted_in('Forgotten: "The ga..." and "b"')) == [("The ga", True), ("b", False)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, True) for name in ("memory_update", "mem0_delete", "mcp__openmemory__add_memories", "rememberFact")],
        *[(name, True) for name in ("core-memory-append", "memoryEdit", "forget", "ltm_search")],
        *[(name, False) for name in ("read", "exec", "member_list", "remembrance", "web_fetch", "forgetful", "")],
    ],
)
def test_name_of_a_tool_tells_a_memory_plugin(name: str, expected: bool) -> None:
    assert is_of_memory_plugin(name) is expected
