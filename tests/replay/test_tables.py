"""Columns made from buffers equal those made by pyarrow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from lab.base.columns import codes_of, float_column, lists_of, numbers_of, text_column
from lab.base.errors import CannotMeasure
from lab.replay.receipts import Checked, Listed, Reading
from lab.runs.tables import ITEMS, READINGS, SAFETY, read_table, write_table

TEXTS = ["one", "", "記憶 and more", None]


@pytest.mark.parametrize("codes", [[], [0], [3, 3], [0, 1, 2, 2, 0], [2, 3, 0, 1, 3, 2, 0, 0, 3, 1]])
def test_strings_equal_those_of_pyarrow(codes: list[int]) -> None:
    expected = pa.array([TEXTS[code] for code in codes], pa.string())
    result = text_column(np.array(codes, np.int64), TEXTS)
    result.validate(full=True)
    assert result.equals(expected)
    assert result.null_count == expected.null_count
    again, names = codes_of(result)
    assert [names[code] for code in again] == expected.to_pylist()


@pytest.mark.parametrize("values", [[], [0.1], [float("nan")] * 9, [1.5, float("nan"), -2.0, float("nan")]])
def test_numbers_none_is_null(values: list[float]) -> None:
    result = float_column(np.array(values, float))
    result.validate(full=True)
    assert result.to_pylist() == [None if value != value else value for value in values]
    np.testing.assert_array_equal(numbers_of(result), values)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([], pa.int32()),
        pa.array(range(20), pa.int32()),
        pa.array(range(20), pa.int64()).slice(3, 9),
        pa.array([1, None, 3], pa.int32()),
        pa.array([None, None], pa.int32()),
        pa.array([1.5, None] * 9, pa.float64()).slice(5, 7),
        pa.array([True, False, False] * 7).slice(2, 11),
        pa.nulls(3, pa.int32()),
        pa.chunked_array([pa.array([1, 2]), pa.array([3])]),
    ],
    ids=str,
)
def test_numbers_equal_those_of_pyarrow(array: pa.Array) -> None:
    expected = [float("nan") if value is None else value for value in array.to_pylist()]
    np.testing.assert_array_equal(numbers_of(array), np.array(expected, numbers_of(array).dtype))


def test_lists_are_concatenated() -> None:
    column = pa.chunked_array([pa.array([["a"], [], ["b", "a"]]), pa.array([["c"]])])
    values, begins = lists_of(column)
    assert (values.to_pylist(), begins.tolist()) == (["a", "b", "a", "c"], [0, 1, 1, 3, 4])


def test_table_bytes_from_buffers_and_lists_are_equal(tmp_path: Path) -> None:
    codes, values = np.arange(1_000) % 4, np.where(np.arange(1_000) % 7, np.arange(1_000) / 3, np.nan)
    ours = {"text": text_column(codes, TEXTS), "value": float_column(values)}
    theirs = {
        "text": pa.array([TEXTS[code] for code in codes], pa.string()),
        "value": pa.array([None if np.isnan(value) else value for value in values], pa.float64()),
    }
    for name, columns in (("ours", ours), ("theirs", theirs)):
        write_table(pa.table(columns), tmp_path / name)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_read_table_missing_column_is_named(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1], "b": [[1]]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", ("b", "a")).to_pylist() == [{"a": 1, "b": [1]}]
    with pytest.raises(CannotMeasure, match=r"t\.parquet: has no c, d;"):
        read_table(tmp_path / "t.parquet", ("d", "a", "c"))


def test_read_table_absent_file_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match=r"t\.parquet: cannot be read \(No such file or directory\)$"):
        read_table(tmp_path / "t.parquet")


def test_read_table_flipped_bit_is_reported_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_table(pa.table({"turn": text_column(np.arange(50) % 4, TEXTS), "value": float_column(np.arange(50.0))}), path)
    whole = path.read_bytes()
    refused = []
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
        try:
            read_table(path)
        except CannotMeasure as error:
            refused.append(str(error))
    assert len(refused) > 200
    assert {one.partition(" (")[0] for one in refused} == {f"{path}: damaged"}
    assert {one.rpartition("); ")[2] for one in refused} == {"delete it and run the replay again"}


def test_columns_of_receipts_are_the_fields_that_fill_them() -> None:
    """The values are put into the columns by position."""
    assert Listed._fields == tuple(ITEMS)
    assert Checked._fields == SAFETY
    assert Reading._fields == (*READINGS, "exempt")
