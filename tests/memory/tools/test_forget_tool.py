"""The tool that deletes a memory: by its id alone, and in profile seed with a report of what it found."""

from __future__ import annotations

from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.tools.store import memory_forget
from lab.systems.openclaw.config.settings import EngineConfig

SECRET = "sk-" + "FAKE" * 8


def test_memory_forget_deletes_the_row_with_the_id(bench: Any, tools: Any) -> None:
    table = bench(tools.entry(1, "alpha"), tools.entry(2, "beta"))
    result = memory_forget(table.context, memory_id=tools.uuid(1), query="beta")
    assert (result.details["action"], result.details["found"], table.texts) == ("deleted", True, ["beta"])


def test_memory_forget_missing_id_is_reported_in_seed(bench: Any, tools: Any) -> None:
    plugin, seed = bench(upstream=True), bench()
    missing = memory_forget(seed.context, memory_id=tools.uuid(9))
    assert (missing.details["action"], missing.details["found"]) == ("not_found", False)
    assert memory_forget(plugin.context, memory_id=tools.uuid(9)).text == f"Memory forgotten: {tools.uuid(9)}"


@pytest.mark.parametrize("identity", ["nope", f"{'0' * 8}-0000-0000-0000-{'0' * 12}\n", "working_set:global"])
def test_memory_forget_unusable_id_is_an_error(bench: Any, identity: str) -> None:
    with pytest.raises(UnusableInput, match="Invalid memoryId format"):
        memory_forget(bench(upstream=True).context, memory_id=identity)
    with pytest.raises(UnusableInput, match="Refusing to delete reserved schema row"):
        memory_forget(bench().context, memory_id="__schema__")


def test_memory_forget_deletes_a_stored_working_set_in_seed(bench: Any, tools: Any) -> None:
    table = bench(tools.entry(1, "digest", id="working_set:global"))
    assert memory_forget(table.context, memory_id="working_set:global").details["found"] is True
    assert table.rows == []


def test_memory_forget_query_lists_the_nearest_of_all_scopes(bench: Any, tools: Any) -> None:
    entries = [tools.entry(number, f"memory {number}", scope=f"s{number}") for number in range(7)]
    table = bench(*entries)
    result = memory_forget(table.context, query="memory 3")
    best = result.details["candidates"][0]
    assert (best["id"], round(best["score"], 6), result.details["found"]) == (tools.uuid(3), 1.0, 5)
    assert f"- {tools.uuid(3)} [fact] 100% memory 3…" in result.text
    assert len(table.rows) == 7


def test_memory_forget_candidates_hide_secrets_in_seed_alone(bench: Any, tools: Any) -> None:
    for upstream in (True, False):
        result = memory_forget(bench(tools.entry(1, SECRET), upstream=upstream).context, query="key")
        assert (SECRET in result.text + str(result.details)) == upstream


def test_memory_forget_query_needs_a_vector(bench: Any, tools: Any) -> None:
    assert memory_forget(bench(embed=None).context, query="x").error == "missing_api_key"
    for reason in ("provider_unavailable", "embedding_input_too_long"):
        for upstream in (True, False):
            result = memory_forget(bench(embed=tools.failing(reason), upstream=upstream).context, query="x")
            assert (result.error, result.details["found"]) == (reason, 0)
            assert ("Provide memoryId" in result.text) != upstream
    found = memory_forget(bench().context, query="x")
    assert (found.text, "candidates" in found.details) == ("No matching memories found.", False)


def test_memory_forget_shows_80_units_of_a_candidate(bench: Any, tools: Any) -> None:
    assert f"100% {'x' * 80}…" in memory_forget(bench(tools.entry(1, "x" * 90)).context, query="x" * 90).text


def test_memory_forget_without_arguments_names_them(bench: Any) -> None:
    assert memory_forget(bench().context, query=" ").error == "missing_param"


def test_memory_forget_in_read_only_mode_only_lists(bench: Any, tools: Any) -> None:
    table = bench(tools.entry(1, "alpha"), config=EngineConfig(read_only=True))
    assert memory_forget(table.context, memory_id=tools.uuid(1)).error == "readonly_mode"
    assert memory_forget(table.context, query="alpha").details["found"] == 1
    assert table.texts == ["alpha"]
