"""Parquet files of ours: written whole or not at all, and read with a clear word on what is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import CannotMeasure
from lab.files import write_atomically
from lab.runs.shapes import misshapen

if TYPE_CHECKING:
    import pyarrow as pa


def table_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file; equal tables give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file whole or not at all."""
    write_atomically(path, table_bytes(table))


def read_table(path: Path, columns: Sequence[str] | None = None, coded: Sequence[str] = ()) -> pa.Table:
    """Read a Parquet file of ours; a damaged or :func:`misshapen` one is :class:`CannotMeasure`.

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
                found = file.read(columns=wanted)
            except pa.ArrowNotImplementedError:
                # Lists of text in several pieces, of many different texts or many rows, come only as they are.
                with parquet.ParquetFile(path, metadata=metadata) as again:
                    found = again.read(columns=wanted)
            found.validate(full=True)
            problem = misshapen(found)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        problem = str(error)
    if problem:
        raise CannotMeasure(f"{path}: damaged ({problem}); delete it and run the replay again")
    return found
