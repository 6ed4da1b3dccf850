"""Tables for a terminal of any width: no wider than it, and no word or number broken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lab.report.tables import folded, text_table, width

KEYS = ("autoCapture.dedupeSimilarityThreshold", "scopePolicy.skipFallbackOnInvalidScope", "readOnly")
SETTINGS = [
    [KEYS[0], "0.92", "profile default"],
    [KEYS[1], "true", "profile default"],
    [KEYS[2], "text-embedding-3-small", "not implemented here"],
]
WORDS = st.text("abcdefghij0123456789.", min_size=1, max_size=9)
CELLS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@pytest.mark.parametrize("columns", [120, 80, 70, 60, 45])
def test_table_of_settings_breaks_no_key_and_no_value(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    table = text_table(["key", "value", "set by"], SETTINGS, left=3, whole_keys=True)
    assert max(map(cell_len, table.splitlines())) <= columns
    for word in (*KEYS, "0.92", "true", "implemented"):
        assert re.search(rf"(?<!\S){re.escape(word)}(?!\S)", table)
    # A value is broken after a hyphen at the worst.
    assert {"text", "embedding", "3", "small"} <= set(re.split(r"[\s:-]+", table))


@given(st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=1, max_size=5), st.integers(20, 90))
def test_table_keeps_every_word_and_the_width(rows: list[list[str]], columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        table = text_table(["a", "b", "c", "d"], rows, left=1)
    assert max(map(cell_len, table.splitlines())) <= columns
    words = re.findall(r"[^\s:─]+", table)
    for row in rows:
        for cell in row:
            for word in cell.split():
                assert word in words


def test_paths_are_broken_after_a_slash_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    table = text_table(["key", "path"], [["dbPath", "~/.openclaw/memory/lancedb"]], left=2)
    assert table.splitlines()[2:] == ["dbPath  ~/.openclaw/memory/", "        lancedb"]


def test_number_and_unit_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    assert "10.7 MB" in text_table(["what", "size"], [["vectors of the default model", "10.7 MB"]])
    lines = folded("the interval covers the value in 95 % of the samples").splitlines()
    assert not [line for line in lines if line.startswith("%") or "\u00a0" in line]


def test_columns_that_do_not_fit_follow_in_another_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    rows = [[name, "0.111", "0.222", "0.333", "0.444", "0.555"] for name in ("hybrid", "random")]
    tables = text_table(["arm", "Success@6", "R@6", "nDCG@6", "GoldNice@6", "RepeatRate"], rows).split("\n\n")
    assert len(tables) > 1
    assert [table.splitlines()[2].split()[0] for table in tables] == ["hybrid"] * len(tables)
    assert sum(table.count("0.555") for table in tables) == 2


def test_rows_without_distinct_names_become_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    rows = [["operators", "tier_quota_v1", "Success@6", 3], ["operators", "hybrid", "Success@6", 3]]
    assert text_table(["set", "arm", "measure", "runs"], rows, left=3).splitlines()[:4] == [
        "operators",
        "  arm: tier_quota_v1",
        "  measure: Success@6",
        "  runs: 3",
    ]


def test_headings_and_indents_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    table = text_table(["measure", "base"], [["guard"], [" Success@6", 0.5], ["worth"], [" R@6", None]])
    assert table.splitlines()[2:] == ["guard", " Success@6  0.500", "worth", " R@6            –"]


def test_chinese_is_broken_between_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    table = text_table(["probe", "text"], [["p1", "合唱团每周四晚上在老磨坊排练"]], left=2)
    assert max(map(cell_len, table.splitlines())) <= 20


def test_width_is_80_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width() == 80
    monkeypatch.setenv("COLUMNS", "120")
    assert width() == 120
    assert max(map(len, folded("word " * 60).splitlines())) <= 80
