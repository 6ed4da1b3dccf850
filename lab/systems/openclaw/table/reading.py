"""Read the table ``memories`` of a LanceDB folder (E-94)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lab.base.errors import CannotMeasure, LabError, UnusableInput
from lab.base.files import cannot_write
from lab.recordings.model import GLOBAL, read_refs
from lab.retrieval.contract import Row
from lab.retrieval.lance import quoted
from lab.retrieval.quiet import quiet_lance
from lab.systems.openclaw.memory import Near
from lab.systems.openclaw.table.schema import ADDED, BOOTSTRAP, TABLE, VECTOR, row_of, rows_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

T = TypeVar("T")
# Rows that are read at once with their vectors.
BATCH = 4096
_DISK = ("No space left", "File too large", "Read-only file system", "Permission denied")


class Contents(NamedTuple):
    """All rows in table order with their vectors, float32 ``[rows, dimension]``."""

    rows: list[Row]
    vectors: np.ndarray


class LanceReader:
    """The reading half of :class:`~lab.memory.table.lance_table.LanceTable`.

    Every method reads the newest version of the table. ``columns`` are the names of its columns.
    """

    def __init__(self, folder: Path, table: Any, dimension: int) -> None:
        self.folder, self.dimension = folder, dimension
        self._table = table
        self._use(table.schema)
        self._cache: tuple[int, list[Row]] | None = None

    def _use(self, schema: pa.Schema) -> None:
        """Keep the schema: LanceDB reads it from the disk each time, which takes as long as a commit."""
        self._schema = schema
        self.columns: tuple[str, ...] = tuple(schema.names)

    @property
    def version(self) -> int:
        """The number of the newest version of the table."""
        self._table.checkout_latest()
        return int(self._table.version)

    def rows(self) -> Sequence[Row]:
        """Return all rows in table order, without the bootstrap row; read again only if the table has changed."""
        version = self._read(lambda: self.version)
        if self._cache is None or self._cache[0] != version:
            self._cache = version, self._read(self._all_rows)
        return self._cache[1]

    def contents(self) -> Contents:
        """Return all rows with their vectors, as a search needs them."""
        return self._read(self._contents)

    def carried(self) -> dict[str, dict[str, Any]]:
        """Return by id the values of the lab's columns, for an export (E-88); values that say nothing are left out.

        Raises :class:`UnusableInput` if the files of a row are no list.
        """
        names = [name for name in ADDED if name in self.columns]
        if not names:
            return {}
        found = self.ask(lambda table: table.search().select(["id", *names]).to_arrow().to_pylist())
        for row in found:
            refs = read_refs(row.get("media_refs"), f"{self.folder}: memory {row['id']}")
            row |= {"media_refs": list(refs)} if "media_refs" in row else {}
        # A hard rule that is not set says nothing; a due time of 0 does.
        return {
            row["id"]: {name: row[name] for name in names if row[name] is not False and row[name] not in (None, "", [])}
            for row in found
        }

    def nearest(self, vector: Sequence[float], limit: int, scope: str | None = None) -> Sequence[Near]:
        """Return the rows nearest to a vector, in one scope or in all (None); exact, ties in table order."""
        import numpy as np

        point = np.asarray(vector, np.float32)
        if point.shape != (self.dimension,):
            raise UnusableInput(
                f"{self.folder}: a vector of {point.size} numbers cannot be compared with those of the table, which "
                f"have {self.dimension}; use the embedder that the table was made with"
            )
        clauses = [f"id != {quoted(BOOTSTRAP)}"]
        if scope is not None and "scope" in self.columns:
            blank = " OR scope IS NULL OR scope = ''" if scope == GLOBAL else ""
            clauses.append(f"(scope = {quoted(scope)}{blank})")
        elif scope not in (None, GLOBAL):
            return []

        def search() -> list[dict[str, Any]]:
            self._table.checkout_latest()
            query = self._table.search(point, vector_column_name=VECTOR).distance_type("l2").bypass_vector_index()
            names = [name for name in self.columns if name != VECTOR]
            query = query.where(" AND ".join(clauses), prefilter=True).select([*names, "_distance"])
            return list(query.limit(limit).to_list())

        return [Near(row_of(values), float(values["_distance"])) for values in self._read(search)]

    def ask(self, question: Callable[[Any], T]) -> T:
        """Return the answer of the newest version of the table (of ``lancedb``) to a question that only reads."""

        def answer() -> T:
            self._table.checkout_latest()
            return question(self._table)

        return self._read(answer)

    def count(self, where: str) -> int:
        """Return the number of rows that fulfil an SQL condition."""
        return self.ask(lambda table: int(table.count_rows(where)))

    def _all_rows(self) -> list[Row]:
        names = [name for name in self.columns if name != VECTOR]
        rows: list[Row] = []
        for batch in self._batches():
            flags = embedded(batch, self.dimension)
            rows += rows_of(batch.select(names).append_column("embedded", flags), len(rows))
        return rows

    def _contents(self) -> Contents:
        import numpy as np

        rows: list[Row] = []
        parts: list[np.ndarray] = [np.zeros((0, self.dimension), np.float32)]
        names = [name for name in self.columns if name != VECTOR]
        for batch in self._batches():
            kept = [identity != BOOTSTRAP for identity in batch["id"].to_pylist()]
            flags = embedded(batch, self.dimension)
            rows += rows_of(batch.select(names).append_column("embedded", flags), len(rows))
            parts.append(_matrix(batch, self.dimension)[np.array(kept, bool)])
        return Contents(rows, np.concatenate(parts))

    def _batches(self) -> Iterator[pa.Table]:
        import pyarrow as pa

        self._table.checkout_latest()
        for batch in self._table.search().select(list(self.columns)).to_batches(BATCH):
            yield pa.Table.from_batches([batch])

    def _texts(self, where: str) -> list[tuple[str, str]]:
        """Return ids and texts of the rows that fulfil an SQL condition."""

        def texts() -> list[tuple[str, str]]:
            self._table.checkout_latest()
            found = self._table.search().where(where).select(["id", "text"]).to_arrow()
            ids, texts = found["id"].to_pylist(), found["text"].to_pylist()
            return [(identity, text or "") for identity, text in zip(ids, texts, strict=True)]

        return self._read(texts)

    def _read(self, read: Callable[[], T]) -> T:
        """Read; once more from the newest version if another process removed the files of this one."""
        try:
            with quiet_lance():
                return read()
        except Exception:
            try:
                with quiet_lance():
                    self._table.checkout_latest()
                    return read()
            except Exception as error:
                raise self._failed(error) from error

    def require_readable(self) -> None:
        """Raise :class:`UnusableInput` if a file of the newest version is missing or cut off."""
        # The condition opens every data file; without one, LanceDB counts by the manifest alone.
        self.count(f"id = {quoted(BOOTSTRAP)}")

    def _failed(self, error: Exception) -> LabError:
        if isinstance(error, OSError) and error.errno is not None:
            return cannot_write(self.folder, error)
        if why := next((words for words in _DISK if words in str(error)), None):
            return CannotMeasure(
                f"{self.folder}: cannot write: {why}; what was acknowledged is kept; mend it and run the command again"
            )
        if isinstance(error, ImportError):
            return CannotMeasure(
                f"{self.folder}: LanceDB cannot load a library ({error}); if that is a file of yours, run the "
                "command in another folder"
            )
        return UnusableInput(
            f"{self.folder}: table {TABLE!r} cannot be read ({type(error).__name__}): a file of it is damaged or "
            "missing; restore the folder from a backup"
        )


def age_of_oldest_tag(table: Any) -> timedelta:
    """Return how long ago the oldest version with a tag was made, and a minute more; zero without tags.

    LanceDB refuses to delete old versions if one of them has a tag.
    """
    tagged = {int(tag["version"]) for tag in table.tags.list().values()}
    if not tagged:
        return timedelta()
    times = [made["timestamp"] for made in table.list_versions() if made["version"] in tagged]
    # LanceDB gives local times without a zone.
    ages = [datetime.now(UTC) - time.astimezone(UTC) for time in times]
    return max(ages, default=timedelta()) + timedelta(minutes=1)


def among(ids: Sequence[str]) -> str:
    """Return the SQL condition that a row has one of these ids."""
    return f"id IN ({', '.join(map(quoted, ids))})"


def _matrix(batch: pa.Table, dimension: int) -> np.ndarray:
    """Return the vectors of a batch, zero where there is none."""
    import numpy as np

    column = batch[VECTOR].combine_chunks()
    matrix = np.zeros((len(column), dimension), np.float32)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    matrix[present] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
    return np.nan_to_num(matrix)


def embedded(batch: pa.Table, dimension: int) -> Any:
    """Return for each row whether it was stored with an embedding: its vector is not zero."""
    import pyarrow as pa

    return pa.array(_matrix(batch, dimension).any(axis=1))
