"""Convert Python lists and numpy arrays to Arrow columns, and back.

The conversions use Arrow's buffers directly, because pyarrow's own converters import pandas on their first call. That
takes a fifth of a second, and most commands do not need pandas.
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
    """Return a column of strings; None becomes null."""
    import pyarrow as pa

    builder = pa.lib.StringBuilder()
    builder.append_values(values)
    return builder.finish()


def numbers(values: Sequence[Any] | np.ndarray, kind: npt.DTypeLike) -> pa.Array:
    """Return a column of numbers of the numpy type ``kind``; None becomes null."""
    import numpy as np
    import pyarrow as pa

    missing = [] if isinstance(values, np.ndarray) else [value is None for value in values]
    if not any(missing):
        data = np.ascontiguousarray(values, kind)
        return pa.Array.from_buffers(pa.from_numpy_dtype(data.dtype), len(data), [None, pa.py_buffer(data)])
    data = np.asarray([0 if value is None else value for value in values], kind)
    validity = _packed(~np.asarray(missing))
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(data.dtype), len(data), [validity, pa.py_buffer(data)], sum(missing)
    )


def booleans(values: Sequence[bool]) -> pa.Array:
    """Return a column of booleans."""
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _packed(np.asarray(values, bool))])


def lists(lengths: Sequence[int], values: pa.Array) -> pa.Array:
    """Return a column of lists of the given lengths; ``values`` holds their elements end to end."""
    import numpy as np
    import pyarrow as pa

    ends = np.concatenate([np.zeros(1, np.int32), np.cumsum(np.asarray(lengths, np.int32), dtype=np.int32)])
    return pa.Array.from_buffers(pa.list_(values.type), len(lengths), [None, pa.py_buffer(ends)], 0, 0, [values])


def checksum(table: pa.Table) -> str:
    """Return the sha256 (hex) of all buffers of a table."""
    sha256 = hashlib.sha256()
    for column in table.combine_chunks().columns:
        # A table without rows has chunks in memory and none once it is read back.
        for chunk in (chunk for chunk in column.chunks if len(chunk)):
            for buffer in chunk.buffers():
                sha256.update(b"-" if buffer is None else buffer)
    return sha256.hexdigest()


def numbers_of(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Return a column of numbers or booleans as an array. If it has nulls: floats, with NaN for null."""
    import numpy as np
    import pyarrow as pa

    array = _one_chunk(column)
    validity, data = array.buffers()
    rows = slice(array.offset, array.offset + len(array))
    if data is None:
        return np.full(len(array), np.nan)
    if pa.types.is_boolean(array.type):
        values: NDArray[Any] = _flags(data)[rows]
    else:
        # Arrow's "float" is a float32; numpy's is a float64.
        kind = {"halffloat": "float16", "float": "float32", "double": "float64"}.get(str(array.type), str(array.type))
        values = np.frombuffer(data, np.dtype(kind), rows.stop)[rows]
    return np.where(_flags(validity)[rows], values, np.nan) if array.null_count else values


def codes_of(column: pa.ChunkedArray | pa.Array) -> tuple[NDArray[np.int64], list[str | None]]:
    """Return a column of text as integer codes and the list they index. The last entry, code -1, is None."""
    import numpy as np
    import pyarrow as pa

    array = _one_chunk(column)
    array = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = numbers_of(array.indices)
    if array.null_count:
        codes = np.where(np.isnan(codes), -1, codes)
    return codes.astype(np.int64), [*array.dictionary.to_pylist(), None]


def lists_of(column: pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the elements of a column of n lists end to end, and n + 1 offsets: the start of each list, and the end."""
    import numpy as np

    array = _one_chunk(column)
    return array.values, numbers_of(array.offsets).astype(np.int64)


def text_column(codes: NDArray[np.int64], texts: Sequence[str | None]) -> pa.Array:
    """Return a column of text from integer codes into ``texts``; a code of None becomes null."""
    import numpy as np
    import pyarrow as pa

    encoded = np.empty(len(texts), object)
    encoded[:] = [(text or "").encode() for text in texts]
    offsets = np.zeros(len(codes) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, encoded), np.int32, len(encoded))[codes], out=offsets[1:])
    valid = np.fromiter((text is not None for text in texts), bool, len(texts))[codes]
    buffers = [_validity(valid), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded[codes]))]
    return pa.Array.from_buffers(pa.string(), len(codes), buffers)


def float_column(values: NDArray[np.float64]) -> pa.Array:
    """Return a column of float64; NaN becomes null."""
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(pa.float64(), len(values), [_validity(~np.isnan(values)), pa.py_buffer(values)])


def _validity(valid: NDArray[np.bool_]) -> pa.Buffer | None:
    return None if valid.all() else _packed(valid)


def _packed(flags: NDArray[np.bool_]) -> pa.Buffer:
    import numpy as np
    import pyarrow as pa

    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _flags(buffer: pa.Buffer) -> NDArray[np.bool_]:
    import numpy as np

    return np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little").astype(bool)


def _one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


class Growing:
    """A numpy array ``[length]`` or ``[length, width]`` to which rows are appended."""

    def __init__(self, kind: npt.DTypeLike, width: int | None = None, first: int = 64) -> None:
        import numpy as np

        self.length = 0
        self._buffer = np.zeros((first,) if width is None else (first, width), kind)

    def extend(self, values: Any) -> None:
        """Append values."""
        import numpy as np

        if not len(values):
            return
        end = self.length + len(values)
        if end > len(self._buffer):
            grown = np.zeros((max(end, 2 * len(self._buffer)), *self._buffer.shape[1:]), self._buffer.dtype)
            grown[: self.length] = self._buffer[: self.length]
            self._buffer = grown
        self._buffer[self.length : end] = values
        self.length = end

    @property
    def array(self) -> np.ndarray:
        """A view of what was appended so far. Later appends do not change it."""
        return self._buffer[: self.length]
