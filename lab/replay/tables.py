"""Parquet files of ours, and the columns in them.

Columns are built from buffers and read from them: pyarrow's own ways to and from Python lists and numpy load pandas,
which takes longer than what we do with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import CannotMeasure
from lab.files import whole_file

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file whole or not at all; equal tables give equal bytes."""
    import pyarrow.parquet as parquet

    with whole_file(path) as part:
        parquet.write_table(table, part, compression="zstd")


def read_table(path: Path, columns: Sequence[str] | None = None, coded: Sequence[str] = ()) -> pa.Table:
    """Read a Parquet file of ours; a damaged one, or one without a column, is :class:`CannotMeasure`.

    The text of ``coded`` columns, or of the lists in them, comes as codes and a dictionary where it can.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        metadata = parquet.read_metadata(path)
        leaves = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
        lacking = sorted(set(columns or ()) - {leaf.split(".")[0] for leaf in leaves})
        if lacking:
            raise CannotMeasure(f"{path}: has no {', '.join(lacking)}; delete it and run the replay again")
        as_codes = [leaf for leaf in leaves if leaf.split(".")[0] in coded]
        wanted = list(columns) if columns else None
        # Not parquet.read_table, whose data sets load pandas.
        with parquet.ParquetFile(path, metadata=metadata, read_dictionary=as_codes) as file:
            try:
                return file.read(columns=wanted)
            except pa.ArrowNotImplementedError:
                # Lists of text in several pieces, of many different texts or many rows, come only as they are.
                with parquet.ParquetFile(path, metadata=metadata) as again:
                    return again.read(columns=wanted)
    except (pa.ArrowInvalid, OSError) as error:
        raise CannotMeasure(f"{path}: damaged ({error}); delete it and run the replay again") from None


def numbers_of(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """A column of numbers or flags; where there are nulls, floats with NaN for them."""
    import numpy as np
    import pyarrow as pa

    whole = _whole(column)
    there, data = whole.buffers()
    here = slice(whole.offset, whole.offset + len(whole))
    if data is None:
        return np.full(len(whole), np.nan)
    values = (
        _flags(data)[here] if pa.types.is_boolean(whole.type) else np.frombuffer(data, np.dtype(str(whole.type)))[here]
    )
    return np.where(_flags(there)[here], values, np.nan) if whole.null_count else values


def codes_of(column: pa.ChunkedArray | pa.Array) -> tuple[NDArray[np.int64], list[str | None]]:
    """A column of text as codes and what they stand for; the last one, code -1, is None."""
    import numpy as np
    import pyarrow as pa

    whole = _whole(column)
    whole = whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()
    codes = numbers_of(whole.indices)
    if whole.null_count:
        codes = np.where(np.isnan(codes), -1, codes)
    return codes.astype(np.int64), [*whole.dictionary.to_pylist(), None]


def lists_of(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """A column of lists as all their elements end to end, and the offsets at which they begin and the last ends."""
    import numpy as np

    whole = _whole(column)
    return whole.values, numbers_of(whole.offsets).astype(np.int64)


def text_column(codes: NDArray[np.int64], texts: Sequence[str | None]) -> pa.Array:
    """A column of text from codes; those of None become nulls."""
    import numpy as np
    import pyarrow as pa

    encoded = np.empty(len(texts), object)
    encoded[:] = [(text or "").encode() for text in texts]
    offsets = np.zeros(len(codes) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, encoded), np.int32, len(encoded))[codes], out=offsets[1:])
    there = np.fromiter((text is not None for text in texts), bool, len(texts))[codes]
    buffers = [_validity(there), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded[codes]))]
    return pa.Array.from_buffers(pa.string(), len(codes), buffers)


def float_column(values: NDArray[np.float64]) -> pa.Array:
    """A column of numbers; NaN becomes null."""
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(pa.float64(), len(values), [_validity(~np.isnan(values)), pa.py_buffer(values)])


def _validity(there: NDArray[np.bool_]) -> pa.Buffer | None:
    import numpy as np
    import pyarrow as pa

    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))


def _flags(buffer: pa.Buffer) -> NDArray[np.bool_]:
    import numpy as np

    return np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little").astype(bool)


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
