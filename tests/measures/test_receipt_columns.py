"""Receipts as columns: scopes, labels, nulls, and chunked files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from lab.base.errors import CannotMeasure
from lab.runs.receipts import BLOCK, NUMBERS, TEXTS, Receipts
from lab.runs.tables import READINGS, read_table

NICE, UNKNOWN = "nice_to_have", "unknown"
LISTS = ("pinned", "item_key", "item_label", "item_scope", "item_exempt")


def _row(arm: str, turn: str, scope: str, items: list[tuple[str, str, str]], injected: int, **more: Any) -> Any:
    keys, labels, scopes = (list(column) for column in zip(*items, strict=True)) if items else ([], [], [])
    row = {"arm": arm, "turn": turn, "scope": scope, "is_recall_turn": True, "probe": None, "injected": injected}
    row |= {"chars": 10, "visible_nice": 1, "hard_rules": 0, "hard_kept": 0, "duplicates": None, "pinned": []}
    row |= dict.fromkeys((*BLOCK, *READINGS), 0)
    exempt = [None] * len(keys)
    return row | {"item_key": keys, "item_label": labels, "item_scope": scopes, "item_exempt": exempt} | more


def _table(rows: list[Any]) -> pa.Table:
    numbers = {name: pa.int32() for name in ("injected", "chars", "visible_nice", "hard_rules", "hard_kept")}
    types = (
        numbers
        | dict.fromkeys((*BLOCK, *READINGS), pa.int32())
        | {"duplicates": pa.int32(), "is_recall_turn": pa.bool_()}
        | {name: pa.list_(pa.string()) for name in LISTS}
    )
    return pa.table({name: pa.array([row[name] for row in rows], types.get(name, pa.string())) for name in rows[0]})


ROWS = [
    _row("one", "t1", "web", [], 0),
    _row("two", "t1", "web", [("a", NICE, "web"), ("b", UNKNOWN, "app"), ("c", NICE, "global")], 2, probe="t1"),
    _row("one", "t2", "global", [("b", UNKNOWN, "app"), ("c", NICE, "global")], 2, duplicates=1, pinned=["a", "d"]),
    _row("two", "t2", "app", [("b", UNKNOWN, "app"), ("a", NICE, "web"), ("d", NICE, "web")], 3, is_recall_turn=False),
]


@pytest.fixture
def receipts() -> Receipts:
    """Receipts of two arms over two turns."""
    return Receipts(_table(ROWS), "desk")


def test_receipts_keys_of_rows_are_in_order(receipts: Receipts) -> None:
    rows = receipts.rows_of("two")
    assert rows.tolist() == [1, 3]
    assert receipts.keys_of(rows) == [["a", "b", "c"], ["b", "a", "d"]]
    assert receipts.injected_keys_of(rows) == [["a", "b"], ["b", "a", "d"]]
    assert receipts.pinned_keys_of(receipts.rows_of("one")) == [[], ["a", "d"]]
    assert receipts.pinned_of(receipts.rows_of("one")).tolist() == [0, 2]
    assert receipts.rows_of("three").tolist() == []


def test_receipts_units_are_turns_then_the_conversation(receipts: Receipts) -> None:
    assert [receipts.units[place] for place in receipts.turn] == ["t1", "t1", "t2", "t2"]
    assert [receipts.units[place] for place in receipts.conversation_unit] == ["desk"]
    assert receipts.probe.tolist() == [None, "t1", None, None]


def test_receipts_own_and_global_scopes_are_not_foreign(receipts: Receipts) -> None:
    two, one = (receipts.injected_of(receipts.rows_of(arm)) for arm in ("two", "one"))
    assert (two.sizes.tolist(), two.row.tolist()) == ([2, 3], [0, 0, 1, 1, 1])
    assert two.foreign.tolist() == [False, True, False, True, True]
    # For a turn of the global scope, memories of projects are foreign.
    assert one.foreign.tolist() == [True, False]
    assert two.by_row(two.nice).tolist() == [1, 2]
    assert one.by_row(one.nice).tolist() == [0, 1]


def test_receipts_memory_has_one_number_in_all_arms(receipts: Receipts) -> None:
    two, one = (receipts.injected_of(receipts.rows_of(arm)) for arm in ("two", "one"))
    a, b = two.memory[:2].tolist()
    assert two.memory.tolist()[2:4] == [b, a]
    assert one.memory[0] == b


@pytest.mark.parametrize("how", [{"row_group_size": 1}, {"dictionary_pagesize_limit": 1}, {"use_dictionary": False}])
def test_receipts_chunked_file_reads_as_one(receipts: Receipts, tmp_path: Path, how: dict[str, Any]) -> None:
    """Chunks arise from many rows, or from more texts than one dictionary holds."""
    parquet.write_table(_table(ROWS), tmp_path / "pieces.parquet", **how)
    pieces = Receipts(read_table(tmp_path / "pieces.parquet", coded=TEXTS), "desk")
    for arm in ("one", "two"):
        rows = pieces.rows_of(arm)
        assert pieces.keys_of(rows) == receipts.keys_of(rows)
        assert pieces.injected_of(rows).foreign.tolist() == receipts.injected_of(rows).foreign.tolist()
    assert [pieces.units[place] for place in pieces.turn] == ["t1", "t1", "t2", "t2"]


def test_read_table_missing_columns_are_named(tmp_path: Path) -> None:
    parquet.write_table(_table(ROWS).drop_columns(["hard_kept", "item_scope"]), tmp_path / "old.parquet")
    with pytest.raises(CannotMeasure, match=r"old\.parquet: has no hard_kept, item_scope; delete it"):
        read_table(tmp_path / "old.parquet", (*NUMBERS, *BLOCK, *READINGS, *TEXTS))
