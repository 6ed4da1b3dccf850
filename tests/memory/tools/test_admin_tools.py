"""The tools that list, count and export memories, and the arguments that they share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.memory.tools.listing import hundredths, memory_export, memory_list, memory_stats, statistics_of
from lab.systems.openclaw.table.admin import admin_limit, admin_scope, dedupe_mode, format_of, iso_time
from tests.conformance.plugin_reading import lines_of, safe_name
from tests.conformance.plugin_rules import scalar_row

SECRET = "sk-" + "FAKE" * 8
HALVES = ("KmlpSDqj5bFYgLmOF4bXE", "FA5zteRWQ9ER9s5")
DAY = 86_400_000


@pytest.mark.parametrize(
    ("raw", "limit"),
    [(None, 50), (True, 50), ("", 1), (" 7.9 ", 7), ("0x10", 16), ("1_0", 50), (10**400, 50), (-3, 1), (9999, 5000)],
)
def test_admin_limit_reads_numbers_as_javascript_does(raw: object, limit: int) -> None:
    assert admin_limit(raw) == limit


def test_arguments_of_administration_are_normalised() -> None:
    assert [admin_scope(raw) for raw in (" ACME/API ", "--", 5, None)] == ["acme/api", None, None, None]
    assert [dedupe_mode(raw) for raw in (" ID ", "None", "id+text", 5)] == ["id", "none", "id_text", "id_text"]
    assert [format_of(path) for path in ("A.JSON", "a.json.bak", "a")] == ["json", "jsonl", "jsonl"]
    assert format_of("a.json", "jsonl") == "jsonl"


@given(st.integers(1, 253_402_300_799_999))
def test_iso_time_equals_that_of_the_library(milliseconds: int) -> None:
    from datetime import UTC, datetime, timedelta

    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert iso_time(milliseconds) == time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_iso_time_beyond_the_years_of_the_library() -> None:
    assert iso_time(253_402_300_800_000) == "+010000-01-01T00:00:00.000Z"
    assert [iso_time(time) for time in (0, -1, float("nan"), 8.64e15 + 1)] == [""] * 4


def test_memory_list_is_newest_first_and_hides_secrets(bench: Any, tools: Any) -> None:
    table = bench(
        tools.entry(2, f"older {SECRET}", created_at=5),
        tools.entry(1, "same age", created_at=5, importance=0.9, importance_label=""),
        tools.entry(3, "newest", created_at=9, category="todo"),
        tools.entry(4, "elsewhere", scope="work"),
        tools.entry(5, "no scope", scope="", created_at=1),
    )
    result = memory_list(table.context, scope="Global", limit=3)
    assert [item["text"] for item in result.details["items"]] == ["newest", "same age", "older [REDACTED]"]
    assert result.details["items"][1]["importance_label"] == "must_remember"
    assert result.details["receipt"] == {
        "operation": "list",
        "filtersApplied": {"scope": "global", "category": None, "limit": 3},
        "matchedCount": 4,
        "returnedCount": 3,
        "dbPath": "/store",
        "tableName": "memories",
        "latencyMs": 1,
    }
    assert memory_list(table.context, category="decision").text == "No memories matched the current filters."


@pytest.mark.parametrize(
    ("text", "plugin", "seed"),
    [
        (f"a {SECRET} b", "a sk-[REDACTED] b", "a [REDACTED] b"),
        (f"ghs_{HALVES[0]}\n{HALVES[1]} now", f"[GITHUB_TOKEN_REDACTED]\n{HALVES[1]} now", "[REDACTED] now"),
        ("密碼是 hunter2abc", "密碼是 hunter2abc", "[REDACTED]"),
        ("the secret sauce", "the secret sauce", "the secret sauce"),
    ],
)
def test_lists_and_exports_replace_the_secrets_that_the_profile_knows(
    bench: Any, tools: Any, tmp_path: Path, text: str, plugin: str, seed: str
) -> None:
    for upstream, shown in ((True, plugin), (False, seed)):
        table = bench(tools.entry(1, text), upstream=upstream)
        assert [item["text"] for item in memory_list(table.context).details["items"]] == [shown]
        memory_export(table.context, tmp_path / "out")
        assert json.loads((tmp_path / "out").read_text("utf-8"))["text"] == shown


def test_memory_list_shows_a_preview_of_a_long_text(bench: Any, tools: Any) -> None:
    result = memory_list(bench(tools.entry(1, "😀" * 200)).context)
    assert result.text == f"Listed 1 memories:\n\n1. [fact|unknown] {'😀' * 100}…"
    assert result.details["items"][0]["text"] == "😀" * 200


def test_memory_stats_of_a_table(bench: Any, tools: Any) -> None:
    table = bench(
        tools.entry(1, "😀a", created_at=tools.now - DAY),
        tools.entry(2, "ab", created_at=0, scope="Zulu"),
        tools.entry(3, "abcd", created_at=tools.now + DAY, scope="", category="todo"),
        tools.entry(4, "abcdef", created_at=tools.now - 2 * DAY, scope="_x"),
    )
    stats = memory_stats(table.context).details["stats"]
    assert list(stats["byScope"]) == ["_x", "global", "Zulu"]
    assert stats["byCategory"] == {"fact": 3, "todo": 1}
    assert stats["size"] == {"minChars": 2, "maxChars": 6, "avgChars": 3.75, "p50Chars": 4}
    assert stats["ageDays"] == {"min": 0, "max": 2, "avg": 0.75}
    assert (stats["oldestCreatedAt"], stats["newestCreatedAt"]) == (tools.now - 2 * DAY, tools.now + DAY)


def test_memory_stats_of_nothing_are_zeros(bench: Any) -> None:
    stats = memory_stats(bench().context, scope="work").details["stats"]
    assert (stats["count"], stats["byScope"], stats["oldestCreatedAt"]) == (0, {}, None)
    assert {*stats["size"].values(), *stats["ageDays"].values()} == {0}
    assert statistics_of([], 5) == stats


def test_hundredths_round_like_to_fixed() -> None:
    values = {0.125: 0.13, 0.015: 0.01, 1.005: 1.0, 2.675: 2.67, 44.375: 44.38, 123456.785: 123456.79}
    assert {value: hundredths(value) for value in values} == values


def test_scalar_row_coerces_every_field() -> None:
    raw = {"id": 5, "text": None, "createdAt": "12", "category": " Fact ", "importance": "0.9", "trust_tier": ""}
    assert scalar_row(raw) == {
        "id": "5",
        "text": "",
        "createdAt": 12,
        "category": "fact",
        "importance": 0.9,
        "importance_label": "must_remember",
        "scope": "global",
        "trust_tier": "unknown",
    }


@pytest.fixture
def stored(bench: Any, tools: Any) -> Any:
    """Return a table with a secret, a lone surrogate, and a stored Working Set."""
    return bench(
        tools.entry(2, "second\n\ud800", created_at=7, importance=1.0, importance_label="must_remember"),
        tools.entry(1, f"first {SECRET}", created_at=7),
        tools.entry(3, "digest", created_at=1, id="working_set:global"),
    )


def test_memory_export_json_lines_has_a_fixed_form(stored: Any, tools: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.jsonl"
    result = memory_export(stored.context, path)
    assert path.read_text("utf-8") == (
        f'{{"id":"{tools.uuid(1)}","text":"first [REDACTED]","category":"fact","importance":null,'
        '"importance_label":"unknown","scope":"global","trust_tier":"user","createdAt":7}\n'
        f'{{"id":"{tools.uuid(2)}","text":"second\\n\\ud800","category":"fact","importance":1,'
        '"importance_label":"must_remember","scope":"global","trust_tier":"user","createdAt":7}\n'
    )
    assert result.details["receipt"]["filtersApplied"]["redact"] is True
    before = path.read_bytes()
    memory_export(stored.context, path)
    assert path.read_bytes() == before


def test_memory_export_json_is_an_indented_array(stored: Any, bench: Any, tools: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.JSON"
    result = memory_export(stored.context, path, redact=False, limit=1)
    text = path.read_text("utf-8")
    assert result.details["format"] == "json"
    assert text.startswith(f'[\n  {{\n    "id": "{tools.uuid(1)}",\n    "text": "first ')
    assert [row["text"] for row in json.loads(text)] == [f"first {SECRET}"]
    memory_export(bench().context, path)
    assert path.read_text("utf-8") == "[]\n"


def test_memory_export_leaves_working_sets_out_in_seed_alone(bench: Any, tools: Any, tmp_path: Path) -> None:
    for upstream, count in ((True, 1), (False, 0)):
        table = bench(tools.entry(1, "digest", id="working_set:global"), upstream=upstream)
        assert memory_export(table.context, tmp_path / "out").details["count"] == count


def test_safe_name_is_part_of_a_path() -> None:
    names = {
        "a b/c": "a_b_c",
        "中文": "__",
        " ": "unknown",
        "": "unknown",
        "x" * 200: "x" * 160,
        "working_set:a/b": "working_set_a_b",
    }
    assert {identity: safe_name(identity) for identity in names} == names
    assert safe_name(None) == "unknown"


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=8), st.integers(1, 4))
def test_lines_of_read_in_pieces_give_the_whole_text(lines: list[str], size: int) -> None:
    read: list[str] = []
    first: int | None = 1
    while first is not None:
        piece = lines_of("\r\n".join(lines), first, size)
        read += piece.text.split("\n")
        first = piece.next_line
    assert read == lines


def test_lines_of_beyond_the_end_are_truncated() -> None:
    assert lines_of("one", 9, 2) == ("", 9, 2, True, None)
    assert lines_of("a\nb", None, 0) == ("", 1, 0, True, 1)
