"""A table that is wider than the terminal is split between columns, never inside a cell."""

from __future__ import annotations

import pytest

from lab.report.tables import text_table


def test_text_table_split_between_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arms = ["tier_first_v1", "tier_quota_v1", "hybrid", "vector", "bm25", "recency", "random", "none", "oracle"]
    rows = [["all", *range(100, 109)], ["in the Working Set", *range(9)]]
    tables = text_table(["relevant memories", *arms], rows).split("\n\n")
    assert len(tables) == 2
    heads = [table.splitlines()[0].split() for table in tables]
    assert [name for head in heads for name in head[2:]] == arms
    assert max(len(line) for table in tables for line in table.splitlines()) <= 80
    assert [number for table in tables for number in table.splitlines()[2].split()[1:]] == [
        str(number) for number in range(100, 109)
    ]


def test_text_table_that_fit_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "\n\n" not in text_table(["relevant memories", "hybrid", "none"], [["all", 1, 2]])
