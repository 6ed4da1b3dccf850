"""One chunk of a cache: an immutable Arrow file that is written atomically and contains its own checksum.

It has a ``key`` column (SHA-256 of a text, ascending, unique) and a ``value`` column, in one batch. Its name is the
hash of its keys, so that two writers of the same texts write the same file. The schema's metadata contains a hash of
the content, to detect corruption; chunks of earlier versions without this hash are also read.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.base.columns import checksum, numbers_of
from lab.base.errors import CannotMeasure
from lab.base.files import atomic_file

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KIND = "recall-lab chunk"
VERSION = "1"
KEY_BYTES = 32


class Chunk(NamedTuple):
    """The keys (numpy ``S32``, which compares as bytes) and the values, both over the mapped file."""

    keys: np.ndarray
    values: pa.Array


def chunk_name(keys: bytes) -> str:
    """Return the file name of a chunk with these concatenated keys."""
    return f"{hashlib.sha256(keys).hexdigest()[:24]}.arrow"


def write_chunk(folder: Path, keys: bytes, values: pa.Array) -> Path:
    """Write one chunk; ``keys`` are concatenated and must ascend."""
    import pyarrow as pa

    key_column = pa.Array.from_buffers(pa.binary(KEY_BYTES), len(values), [None, pa.py_buffer(keys)])
    table = pa.table({"key": key_column, "value": values})
    # Buffers in memory may be longer than what is written, so the checksum is computed over the data read back.
    table = pa.ipc.open_file(_written(table)).read_all()
    table = table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION, "sha256": checksum(table)})
    path = folder / chunk_name(keys)
    with atomic_file(path, private=True) as part:
        part.write_bytes(_written(table))
    return path


def read_chunk(path: Path, value_type: pa.DataType | None = None) -> Chunk:
    """Map one chunk; if ``value_type`` is given, its values must have that type.

    Raises ``FileNotFoundError`` if the file is missing (it may have been merged meanwhile), and :class:`CannotMeasure`
    for a damaged chunk.
    """
    import numpy as np
    import pyarrow as pa

    try:
        # The mapping stays valid after the file is closed, so chunks keep no files open.
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
            if reader.num_record_batches != 1:
                raise pa.ArrowInvalid(f"{reader.num_record_batches} batches")
            batch = reader.get_batch(0)
            batch.validate()
            keys, values = batch["key"], batch["value"]
        if keys.type != pa.binary(KEY_BYTES) or keys.null_count or values.null_count or not len(keys):
            raise pa.ArrowInvalid("it lacks a key or a value")
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise CannotMeasure(f"{path}: cannot be read ({error.strerror}); change its permissions") from None
    except (pa.ArrowException, KeyError, OSError) as error:
        raise CannotMeasure(f"{path}: damaged cache file ({error}); delete it and run again") from None
    if value_type is not None and values.type != value_type:
        raise CannotMeasure(f"{path}: holds {values.type}, expected {value_type}; delete it and run again")
    return Chunk(np.frombuffer(keys.buffers()[1], f"S{KEY_BYTES}", len(keys)), values)


def matrix(values: pa.Array) -> np.ndarray:
    """Return the vectors as rows, over the mapped file."""
    return numbers_of(values.flatten()).reshape(-1, values.type.list_size)


def _written(table: pa.Table) -> pa.Buffer:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
