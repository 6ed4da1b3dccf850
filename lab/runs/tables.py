"""Write Parquet files atomically, and read them with a clear message on damage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.base.errors import CannotMeasure
from lab.base.files import write_atomically
from lab.runs.shapes import misshapen

if TYPE_CHECKING:
    import pyarrow as pa


def table_of(rows: Iterable[Sequence[object]], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table of rows, whose values are in the order of ``types``, the type of each column by its name."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    return pa.table({name: pa.array(column, kind) for (name, kind), column in zip(types.items(), columns, strict=True)})


def table_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file; equal tables give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table to a Parquet file atomically."""
    write_atomically(path, table_bytes(table))


def read_table(path: Path, columns: Sequence[str] | None = None, coded: Sequence[str] = ()) -> pa.Table:
    """Read a Parquet file that the lab wrote, all of it or some ``columns``.

    Texts of ``coded`` columns, or of the lists in them, are dictionary-encoded where possible. Raises
    :class:`CannotMeasure` for a damaged or :func:`misshapen` file, and for one that lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        metadata = parquet.read_metadata(path)
        leaves = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        missing = sorted(set(columns or ()) - {leaf.split(".")[0] for leaf in leaves})
        if missing:
            raise CannotMeasure(f"{path}: has no {', '.join(missing)}; delete it and run the replay again")
        as_codes = [leaf for leaf in leaves if leaf.split(".")[0] in coded]
        names = list(columns) if columns else None
        # Not parquet.read_table, which loads pandas.
        with parquet.ParquetFile(path, metadata=metadata, read_dictionary=as_codes) as file:
            try:
                table = file.read(columns=names)
            except pa.ArrowNotImplementedError:
                # Lists of text in several chunks cannot be dictionary-encoded.
                with parquet.ParquetFile(path, metadata=metadata) as again:
                    table = again.read(columns=names)
            table.validate(full=True)
            problem = misshapen(table)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Pyarrow raises these for a damaged file.
        problem = str(error)
    if problem:
        raise CannotMeasure(f"{path}: damaged ({problem}); delete it and run the replay again")
    return table
