"""Arrow columns from plain lists.

``pyarrow.array`` would do, and imports pandas at its first call: a fifth of a second that most verbs have no use for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


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
    there = _bits(~np.asarray(missing))
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(found.dtype), len(found), [there, pa.py_buffer(found)], sum(missing)
    )


def booleans(values: Sequence[bool]) -> pa.Array:
    """A column of truth values."""
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(np.asarray(values, bool))])


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


def held(column: pa.ChunkedArray) -> np.ndarray:
    """The numbers of a column without nulls."""
    import numpy as np

    array = column.combine_chunks()
    kind = np.dtype({"double": "float64", "float": "float32"}.get(str(array.type), str(array.type)))
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * kind.itemsize)


def _bits(values: Any) -> pa.Buffer:
    import numpy as np
    import pyarrow as pa

    return pa.py_buffer(np.packbits(values, bitorder="little"))
