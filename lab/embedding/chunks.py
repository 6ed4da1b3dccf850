"""One chunk of a cache: an Arrow file that is written whole, never changed, and can be checked by itself.

It has a ``key`` column (sha256 of a text, ascending, each once) and a ``value`` column, in one batch. It is named by
the hash of its keys, so that two writers of the same texts write one file; a hash of all that it holds stands in its
schema's metadata, so that a flipped bit is found. Chunks without that hash, of versions before it, are read as well.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.columns import checksum, numbers_of
from lab.errors import CannotMeasure
from lab.files import atomic_file

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KIND = "recall-lab chunk"
VERSION = "1"
KEY_BYTES = 32


class Chunk(NamedTuple):
    """Keys (numpy ``S32``: bytes of one length, which compare as such) and values, both over the mapped file."""

    keys: np.ndarray
    values: pa.Array


def chunk_name(keys: bytes) -> str:
    """The file name of a chunk with these keys, joined."""
    return f"{hashlib.sha256(keys).hexdigest()[:24]}.arrow"


def write_chunk(folder: Path, keys: bytes, values: pa.Array) -> Path:
    """Write one chunk; ``keys``, joined, ascend."""
    import pyarrow as pa

    held = pa.Array.from_buffers(pa.binary(KEY_BYTES), len(values), [None, pa.py_buffer(keys)])
    table = pa.table({"key": held, "value": values})
    # Buffers in memory may be longer than what is written of them; what is read back is what can be checked.
    table = pa.ipc.open_file(_written(table)).read_all()
    table = table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION, "sha256": checksum(table)})
    path = folder / chunk_name(keys)
    with atomic_file(path, private=True) as part:
        part.write_bytes(_written(table))
    return path


def read_chunk(path: Path, value_type: pa.DataType | None = None) -> Chunk:
    """Map one chunk; with ``value_type``, values of another are refused.

    Raises ``FileNotFoundError`` where it is gone, for it may have been merged into another meanwhile, and
    :class:`CannotMeasure` where it is no whole chunk.
    """
    import numpy as np
    import pyarrow as pa

    try:
        # The mapping outlives the file that it was made from: no chunk keeps a file open.
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
        raise CannotMeasure(f"{path}: cannot be read ({error.strerror}); give yourself the right to") from None
    except (pa.ArrowException, KeyError, OSError) as error:
        raise CannotMeasure(f"{path}: damaged cache file ({error}); delete it and run again") from None
    if value_type is not None and values.type != value_type:
        raise CannotMeasure(f"{path}: holds {values.type}, expected {value_type}; delete it and run again")
    return Chunk(np.frombuffer(keys.buffers()[1], f"S{KEY_BYTES}", len(keys)), values)


def matrix(values: pa.Array) -> np.ndarray:
    """Vectors as rows, over the mapped file."""
    return numbers_of(values.flatten()).reshape(-1, values.type.list_size)


def _written(table: pa.Table) -> pa.Buffer:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
