"""Arrow columns from plain lists and numpy arrays, and back.

They are built from buffers and read from them: pyarrow's own ways load pandas at their first call, a fifth of a second
that most commands have no use for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]


def strings(values: Sequence[str | None]) -> pa.Array:
    """A column of strings; None is null."""
    import pyarrow as pa

    builder = pa.lib.StringBuilder()
    builder.append_values(values)
    return builder.finish()


def numbers(values: Sequence[Any] | np.ndarray, kind: npt.DTypeLike) -> pa.Array:
    """A column of numbers of a numpy kind; None is null."""
    import numpy as np
    import pyarrow as pa

    missing = [] if isinstance(values, np.ndarray) else [value is None for value in values]
    if not any(missing):
        found = np.ascontiguousarray(values, kind)
        return pa.Array.from_buffers(pa.from_numpy_dtype(found.dtype), len(found), [None, pa.py_buffer(found)])
    found = np.asarray([0 if value is None else value for value in values], kind)
    there = _packed(~np.asarray(missing))
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(found.dtype), len(found), [there, pa.py_buffer(found)], sum(missing)
    )


def booleans(values: Sequence[bool]) -> pa.Array:
    """A column of truth values."""
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _packed(np.asarray(values, bool))])


def lists(lengths: Sequence[int], values: pa.Array) -> pa.Array:
    """A column of lists of these lengths, out of one column with all their values."""
    import numpy as np
    import pyarrow as pa

    ends = np.concatenate([np.zeros(1, np.int32), np.cumsum(np.asarray(lengths, np.int32), dtype=np.int32)])
    return pa.Array.from_buffers(pa.list_(values.type), len(lengths), [None, pa.py_buffer(ends)], 0, 0, [values])


def checksum(table: pa.Table) -> str:
    """sha256 of everything a table holds."""
    found = hashlib.sha256()
    for column in table.combine_chunks().columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                found.update(b"-" if buffer is None else buffer)
    return found.hexdigest()


def numbers_of(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """A column of numbers or flags; where there are nulls, floats with NaN for them."""
    import numpy as np
    import pyarrow as pa

    whole = _whole(column)
    there, data = whole.buffers()
    here = slice(whole.offset, whole.offset + len(whole))
    if data is None:
        return np.full(len(whole), np.nan)
    if pa.types.is_boolean(whole.type):
        values: NDArray[Any] = _flags(data)[here]
    else:
        # Arrow calls a float32 "float", by which numpy means a float64.
        kind = {"halffloat": "float16", "float": "float32", "double": "float64"}.get(str(whole.type), str(whole.type))
        values = np.frombuffer(data, np.dtype(kind), here.stop)[here]
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
    return None if there.all() else _packed(there)


def _packed(flags: NDArray[np.bool_]) -> pa.Buffer:
    import numpy as np
    import pyarrow as pa

    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _flags(buffer: pa.Buffer) -> NDArray[np.bool_]:
    import numpy as np

    return np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little").astype(bool)


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
