"""Columns round-trip, pyarrow reads them, and pandas is never imported."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from lab.base.columns import (
    booleans,
    codes_of,
    float_column,
    lists,
    lists_of,
    numbers,
    numbers_of,
    strings,
    text_column,
)


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 9, 1000])
def test_numbers_round_trip_with_their_type(kind: str, count: int) -> None:
    values = [number % 100 for number in range(count)]
    column = numbers(values, kind)
    assert column.to_pylist() == values
    assert numbers_of(column).dtype == np.dtype(kind)
    assert numbers_of(column).tolist() == values
    chunked = pa.chunked_array([column.slice(count // 3), column.slice(0, count // 3)])
    assert numbers_of(chunked).tolist() == values[count // 3 :] + values[: count // 3]


def test_nulls_round_trip() -> None:
    assert numbers([1, None, 3], "int32").to_pylist() == [1, None, 3]
    assert numbers([1, None, 3], "int32").null_count == 1
    assert np.isnan(numbers_of(numbers([None, 2.5], "float64"))).tolist() == [True, False]
    assert float_column(np.array([1.0, np.nan])).to_pylist() == [1.0, None]
    assert strings(["a", None, "團隊"]).to_pylist() == ["a", None, "團隊"]


def test_booleans_and_lists_round_trip() -> None:
    flags = [number % 3 == 0 for number in range(20)]
    assert booleans(flags).to_pylist() == flags
    assert numbers_of(booleans(flags)).tolist() == flags
    column = lists([2, 0, 3], strings(list("abcde")))
    assert column.to_pylist() == [["a", "b"], [], ["c", "d", "e"]]
    values, offsets = lists_of(pa.chunked_array([column]))
    assert values.to_pylist() == list("abcde")
    assert offsets.tolist() == [0, 2, 2, 5]


def test_codes_round_trip() -> None:
    codes, texts = codes_of(pa.chunked_array([strings(["b", None, "a", "b"])]))
    assert [texts[code] for code in codes] == ["b", None, "a", "b"]
    assert text_column(codes, texts).to_pylist() == ["b", None, "a", "b"]


@pytest.mark.process
def test_columns_do_not_import_pandas() -> None:
    program = (
        "import sys, pyarrow; from lab.base.columns import *; "
        "numbers_of(numbers([1, None], 'int32')); lists([1], strings(['x'])); booleans([True]); "
        "print('pandas' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )
