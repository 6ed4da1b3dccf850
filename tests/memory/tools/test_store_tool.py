"""The tool that stores a memory: its label, its scope, its vector, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.tools.preflight import Preflight, PreflightSettings, Ran
from lab.memory.tools.store import intent_id, memory_store
from lab.systems.openclaw.config.settings import EngineConfig
from tests.conformance.admin_calls import context_of
from tests.conformance.memory_table import InMemoryTable
from tests.conformance.record_files import VectorFile
from tests.conformance.values import difference

SECRET = "the key is sk-" + "FAKE" * 8


@pytest.mark.parametrize(
    ("importance", "score", "label"),
    [
        (None, None, "unknown"),
        (0.8, 0.8, "must_remember"),
        ("0.5", 0.5, "nice_to_have"),
        (2, 1.0, "must_remember"),
        ("", 0.0, "ignore"),
        ("high", None, "unknown"),
    ],
)
def test_memory_store_label_follows_from_the_score(bench: Any, importance: object, score: Any, label: str) -> None:
    table = bench()
    result = memory_store(table.context, " alpha ", importance=importance, category="Decision")
    (row,) = table.rows
    assert (row.text, row.category, row.importance, row.importance_label) == (" alpha ", "decision", score, label)
    assert (row.trust_tier, row.embedded, row.created_at) == ("user", True, result.details["createdAt"])
    assert result.text == f"Stored memory (decision, {label}): {row.id}"


def test_memory_store_keeps_the_tag_and_stores_in_its_scope(bench: Any) -> None:
    table = bench()
    receipt = memory_store(table.context, "[SCOPE: proj-b] delta").details["receipt"]
    assert (table.rows[0].text, table.rows[0].scope) == ("[SCOPE: proj-b] delta", "proj-b")
    assert (receipt["scopeMode"], receipt["scope"]) == ("inferred", "proj-b")


def test_memory_store_invalid_scope_becomes_the_default_and_is_logged(bench: Any) -> None:
    table = bench()
    result = memory_store(table.context, "alpha", scope="no!")
    assert (table.rows[0].scope, result.details["receipt"]["scopeValidation"]["invalid"]) == ("global", True)
    assert result.log == ("openclaw-mem-engine:scopeValidation write=memory_store invalid scope; fallback=global",)


@pytest.mark.parametrize("reason", ["embedding_input_too_long", "provider_unavailable"])
@pytest.mark.parametrize("upstream", [True, False])
def test_memory_store_without_vector_stores_zeros_and_warns(
    bench: Any, tools: Any, reason: str, upstream: bool
) -> None:
    table = bench(embed=tools.failing(reason), upstream=upstream)
    result = memory_store(table.context, "alpha")
    (stored,) = table.table.entries
    assert (set(stored.vector), stored.row.embedded) == ({0.0}, False)
    assert result.details["receipt"]["embeddingSkipReason"] == reason
    assert f"⚠️ Embedding skipped ({reason})." in result.text


def test_memory_store_embedder_that_raises_counts_as_unavailable(bench: Any) -> None:
    def explode(texts: object) -> Any:
        raise OSError("no route to host")

    table = bench(embed=explode)
    assert memory_store(table.context, "alpha").details["receipt"]["embeddingSkipReason"] == "provider_unavailable"
    assert table.texts == ["alpha"]


def test_memory_store_without_a_provider_differs_between_profiles(bench: Any) -> None:
    plugin, seed = bench(embed=None, upstream=True), bench(embed=None)
    assert memory_store(plugin.context, "alpha").error == "missing_api_key"
    assert memory_store(seed.context, "alpha").details["receipt"]["embeddingSkipped"] is True
    assert (plugin.texts, seed.texts) == ([], ["alpha"])


def test_memory_store_secret_is_refused_in_seed_alone(bench: Any) -> None:
    plugin, seed = bench(upstream=True), bench()
    result = memory_store(seed.context, SECRET)
    assert (result.error, seed.rows) == ("secret_like", [])
    assert "FAKE" not in result.text + str(result.details)
    assert memory_store(seed.context, "alpha", scope=SECRET).error == "secret_like"
    assert memory_store(plugin.context, SECRET).error is None
    assert plugin.texts == [SECRET]


@pytest.mark.parametrize("upstream", [True, False])
def test_memory_store_in_read_only_mode_is_refused(bench: Any, upstream: bool) -> None:
    by_config = bench(config=EngineConfig(read_only=True), upstream=upstream)
    by_table = bench(read_only=True, upstream=upstream)
    sources = []
    for table in (by_config, by_table):
        result = memory_store(table.context, "alpha")
        assert (result.error, table.rows) == ("readonly_mode", [])
        sources.append(result.details["readOnlySource"])
    assert sources == ["config:readOnly", "table"]


def test_memory_store_blank_text_is_refused(bench: Any) -> None:
    table = bench()
    assert memory_store(table.context, " \n").error == "missing_text"
    assert table.rows == []


def test_memory_store_wrong_dimension_names_both(bench: Any) -> None:
    table = bench(embed=lambda texts: [[1.0, 0.0] for _ in texts])
    with pytest.raises(UnusableInput, match=r"2 numbers a text, the table has \d+; use the model"):
        memory_store(table.context, "alpha")
    assert table.rows == []


@pytest.mark.parametrize("exit_code", [40, 41])
def test_memory_store_blocked_by_the_preflight_stores_nothing(bench: Any, exit_code: int) -> None:
    guard = Preflight(PreflightSettings(enabled=True), lambda *_: Ran(False, exit_code))
    table = bench(preflight=guard)
    result = memory_store(table.context, "alpha")
    assert (result.error, table.rows) == ("weiji_memory_preflight_blocked", [])
    assert "gbrainMirror" not in result.details["receipt"]
    assert result.details["receipt"]["weiJiMemoryPreflight"]["wrapperExitCode"] == exit_code


def test_memory_store_allowed_by_the_preflight_keeps_its_receipt(bench: Any) -> None:
    guard = Preflight(PreflightSettings(enabled=True), lambda *_: Ran(True, 0, "{}"))
    table = bench(preflight=guard)
    receipt = memory_store(table.context, "alpha").details["receipt"]
    assert (receipt["weiJiMemoryPreflight"]["decision"], table.texts) == ("allow", ["alpha"])
    off = replace(table.context, preflight=guard._replace(settings=PreflightSettings()))
    assert memory_store(off, "beta").details["receipt"]["weiJiMemoryPreflight"] is None


def test_intent_id_is_a_hash_of_the_rounded_fields() -> None:
    fields = {"scope": "global", "category": "fact", "text": "alpha", "importance": 0.1 + 0.2}
    # printf '{"scope":"global","category":"fact","text":"alpha","importance":0.3}' | sha1sum
    assert intent_id(fields) == "mem-intent-158716fb6c9db3920d8b"
    assert intent_id(fields | {"importance": None}) != intent_id(fields)


def test_memory_store_repeats_the_recorded_corpus(shared: Any) -> None:
    """Store the corpus of the recorded turns again: 221 calls, with their warnings."""
    table = InMemoryTable()
    path: Path = shared("parity", "setup", "e2e_corpus.jsonl")
    records = VectorFile(path).records
    for record in records:
        value = record.value
        wanted = {"output": value["output"], "warnings": value["warnings"]}
        context = context_of(table, value, partial(str, value["output"]["details"]["id"]))
        result = memory_store(context, **value["params"])
        del result.details["receipt"]["latencyMs"]
        found = {"output": {"text": result.text, "details": result.details}, "warnings": list(result.log)}
        assert difference(wanted, found) is None
    assert len(table.rows()) == len(records) == 221
