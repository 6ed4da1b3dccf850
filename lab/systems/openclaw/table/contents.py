"""What a version of a table contains, as one digest (IX-9), and copies of one version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.file_digests import Copied, copy_folder
from lab.base.files import digest, remove_folder
from lab.base.times import epoch_ms, without_arrow_times
from lab.retrieval.quiet import in_table
from lab.systems.openclaw.table.admin import iso_time
from lab.systems.openclaw.table.schema import BOOTSTRAP, TABLE

_BATCH = 4096
# How often a table is copied that another program changes meanwhile. A version is copied first: it names the files.
ATTEMPTS, _VERSIONS = 3, "_versions"


class Contents(NamedTuple):
    """The version of a table, its number of memories, the oldest and newest ``createdAt`` (ISO), and a sha256 (hex).

    The digest covers every column of every row in table order, and nothing of how the table keeps them on disk: a
    compaction and an index do not change it.
    """

    version: int
    rows: int
    oldest: str
    newest: str
    sha256: str


def contents_of(table: Any) -> Contents:
    """Return the contents of an open table of ``lancedb``, at the version that it is set to."""
    schema = table.schema
    columns = [name for name in schema.names if _is_vector(schema.field(name).type)]
    names, rows = [name for name in schema.names if name not in columns], 0
    # Separate hashes of the rows and, for a column of vectors, of which are null and of the numbers of the others: what
    # is in a batch must not matter.
    plain, vectors = hashlib.sha256(), {name: (hashlib.sha256(), hashlib.sha256()) for name in columns}
    times: list[int] = []
    for batch in map(without_arrow_times, table.search().select(list(schema.names)).to_batches(_BATCH)):
        for row in batch.select(names).to_pylist():
            plain.update(json.dumps(row, sort_keys=True, default=repr).encode())
            if row.get("id") != BOOTSTRAP:
                rows += 1
                times += [time] if (time := epoch_ms(row.get("createdAt"))) else []
        for name in columns:
            _add_vectors(*vectors[name], batch.column(name))
    ordered = sorted(times)
    oldest, newest = (iso_time(ordered[at]) if ordered else "" for at in (0, -1))
    parts = [[name, str(schema.field(name).type)] for name in schema.names]
    sha256 = digest([parts, plain.hexdigest(), [[part.hexdigest() for part in both] for both in vectors.values()]])
    return Contents(int(table.version), rows, oldest, newest, sha256)


def contents_in(folder: Path, name: str = TABLE) -> Contents:
    """Return the contents of a table in a LanceDB folder; raise :class:`UnusableInput` if it cannot be read."""
    return in_table(folder, name, contents_of)


def glance(folder: Path, name: str = TABLE) -> tuple[int, int]:
    """Return version and number of rows of a table in a LanceDB folder; raise :class:`UnusableInput`."""
    return in_table(folder, name, lambda table: (int(table.version), int(table.count_rows())))


def copy_version(
    folder: Path, data: Path, *, damaged: bool = False, name: str = TABLE
) -> tuple[Contents | None, Copied]:
    """Copy the table of a LanceDB folder, at one version, into the new folder ``data``; return what it contains.

    A table of another ``name`` has the name ``memories`` in ``data``.
    The contents are None only for a ``damaged`` table. Raises :class:`UnusableInput` for one that cannot be read, and
    :class:`CannotMeasure` if another program changes it during every attempt.
    """
    table = f"{TABLE}.lance"
    for _ in range(ATTEMPTS):
        data.mkdir(mode=0o700)
        try:
            copied = copy_folder(folder / f"{name}.lance", data / table, first=_VERSIONS)
        except FileNotFoundError:
            remove_folder(data)
            continue
        contents: Contents | None = None
        try:
            contents = contents_in(data)
        except UnusableInput:
            if not damaged:
                # This raises if the table itself is damaged.
                contents_in(folder, name)
                remove_folder(data)
                continue
        files = tuple(file._replace(path=f"{table}/{file.path}") for file in copied.files)
        return contents, Copied(files, copied.left_out)
    raise CannotMeasure(
        f"{folder}: another program changed the table during each of {ATTEMPTS} copies; nothing was written"
    )


def _is_vector(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_fixed_size_list(kind))


def _add_vectors(present: Any, numbers: Any, column: Any) -> None:
    """Add which vectors are there to one hash, and their numbers to another."""
    import numpy as np

    present.update(column.is_valid().to_numpy(zero_copy_only=False).tobytes())
    numbers.update(np.ascontiguousarray(column.drop_null().flatten().to_numpy(zero_copy_only=False)).tobytes())
