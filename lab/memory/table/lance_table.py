"""The table ``memories`` of the plugin, in a LanceDB folder (E-94 to E-98).

Governance fields of many rows are changed in one LanceDB commit (WB-6).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import cannot_write
from lab.memory.table.lance_lock import WriterLock, gateway_using
from lab.recordings.cleaning import language_of
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.systems.openclaw.memory import is_hard_rule
from lab.systems.openclaw.table.reading import LanceReader, age_of_oldest_tag, among, embedded
from lab.systems.openclaw.table.schema import (
    ADDED,
    BOOTSTRAP,
    PLUGIN,
    TABLE,
    VECTOR,
    Entry,
    arrow_of,
    dimension_of,
    require_writable,
    row_of,
    schema,
    write_protected,
)

if TYPE_CHECKING:
    import pyarrow as pa

ATTEMPTS = 8
KEEP_SECONDS = 7 * 24 * 3600
# Columns whose values follow from the text. Nobody knows where an older row came from.
DERIVED = ("lang", "hard_rule")
_UNFILLED = " OR ".join(f"{name} IS NULL" for name in DERIVED)
FIELDS = ("importance", "importance_label", "scope", "trust_tier", "category")


@dataclass(frozen=True, slots=True)
class TableSettings:
    """How a table is kept, recorded in receipts.

    ``compact_every``: after so many commits of this process, fragments are merged, and once more on closing if
    ``compact_on_close`` commits or more are left. ``keep_seconds``: versions older than this are deleted by a
    compaction; the default is LanceDB's, so that storing loses no history.
    ``wait_seconds``: how long to wait for another writer of the lab.
    """

    compact_every: int = 128
    compact_on_close: int = 8
    keep_seconds: int = KEEP_SECONDS
    wait_seconds: float = 10.0


class LanceTable(LanceReader):
    """Implements :class:`~lab.systems.openclaw.table.schema.MemoryTable` on a LanceDB folder.

    ``dimension`` is the length of the vectors, ``read_only_reason`` says why writes are refused (blank if they are
    not), ``notes`` are sentences for the operator, and ``compactions`` counts those of this process. A writer holds
    the lock of the folder until it is closed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        create: int | None = None,
        read_only: bool = False,
        despite_gateway: bool = False,
        settings: TableSettings | None = None,
        what: str = "lab",
        any_columns: bool = False,
    ) -> None:
        """Open the table; with ``create``, make one with vectors of that length if there is none.

        A table that a running gateway uses is opened read-only unless ``despite_gateway`` is set. ``what`` names this
        process to others that wait for the lock. With ``any_columns``, a table of memory-lancedb, which has none
        of the engine's own columns, may be changed too: Stage A keeps that plugin (seed 001). Raises
        :class:`UnusableInput` if there is no usable table, and :class:`lab.base.errors.InUse` while another process of
        the lab writes to it.
        """
        self.settings = settings or TableSettings()
        self._any_columns = any_columns
        self.notes: list[str] = []
        self.left_out: set[str] = set()
        self._lock = WriterLock(folder)
        self._pending = self.compactions = 0
        gateway = gateway_using(folder)
        self.read_only_reason = "it was opened read-only" if read_only else ""
        if not read_only:
            self.read_only_reason = refusal(folder, None if despite_gateway else gateway)
        # A reader in the gateway may need files of older versions for as long as it runs.
        keep = max(self.settings.keep_seconds, KEEP_SECONDS) if gateway else self.settings.keep_seconds
        self._keep = timedelta(seconds=keep)
        if gateway and despite_gateway:
            self.notes.append(f"{folder}: a running gateway uses it ({gateway}); it sees new rows after a restart")
        inside = folder.name == f"{TABLE}.lance"
        hint = f"; give the folder that contains it, {folder.parent}" if inside else ""
        exists = (folder / f"{TABLE}.lance").is_dir()
        if not exists and create is not None and not read_only:
            self._require_writable(folder)
        if not exists and (create is None or self.read_only):
            raise UnusableInput(f"{folder}: is not a LanceDB folder with a table {TABLE!r}{hint}")
        if not self.read_only:
            self._take_lock(folder, what)
        try:
            table = self._open(folder, create)
            super().__init__(folder, table, dimension_of(table.schema, folder))
            if not self.read_only:
                self.require_changeable()
        except BaseException:
            self._lock.release()
            raise

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        return bool(self.read_only_reason)

    def describe(self) -> dict[str, Any]:
        """Return the state of the files, in JSON: version, fragments, bytes, missing columns, settings."""
        stats = self._read(self._table.stats)
        return {
            "version": self.version,
            "rows": len(self.rows()),
            "dimension": self.dimension,
            "fragments": stats["fragment_stats"]["num_fragments"],
            "bytes": sum(path.stat().st_size for path in (self.folder / f"{TABLE}.lance").rglob("*") if path.is_file()),
            "missingPluginColumns": [name for name in PLUGIN if name not in self.columns],
            "missingColumns": [name for name in ADDED if name not in self.columns],
            "readOnly": self.read_only_reason or None,
            "settings": asdict(self.settings),
        }

    def add(self, entries: Sequence[Entry]) -> None:
        """Append rows in one commit. Raises ``UnusableInput`` if the table is read-only or a vector does not fit."""
        self._require_writable()
        if not entries:
            return
        data = arrow_of(entries, self._schema, self.dimension, self.folder)
        self.left_out |= {name for name in ADDED if name not in self.columns and _has(entries, name)}
        cache, ids = self._cache, {entry.row.id for entry in entries}
        before = None if cache is None else cache[0]
        # The plugin may store an id twice.
        present = 0 if cache is None else sum(row.id in ids for row in cache[1])
        # A commit that reports a conflict may still have been made: never add the same rows twice.
        self._commit(lambda: self._table.add(data), lambda: self.count(among(list(ids))) >= present + len(entries))
        if cache is not None and before is not None and int(self._table.version) == before + 1:
            first = len(cache[1])
            self._cache = before + 1, [*cache[1], *(row_of(v, first + at) for at, v in enumerate(_plain(data)))]
        self._changed()

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows by id in one commit; return how many there were."""
        self._require_writable()
        if not ids:
            return 0
        count = self.count(among(ids))
        if count:
            self._commit(lambda: self._table.delete(among(ids)), lambda: self.count(among(ids)) == 0)
            self._changed()
        return count

    def require_changeable(self) -> None:
        """Raise :class:`UnusableInput` if the table has not all columns of the plugin, or a damaged file."""
        if not self._any_columns:
            require_writable(self._schema, self.folder)
        self.require_readable()

    def change(self, change: Callable[[Any], object], done: Callable[[], bool]) -> None:
        """Make a change to the table (of ``lancedb``) in one commit; ``done`` says whether it was made (E-95)."""
        self._require_writable()
        self._commit(lambda: change(self._table), done)
        self._cache = None

    def compact(self) -> None:
        """Merge fragments, update indexes, and delete versions older than the settings keep them (IX-6).

        A version with a tag is kept, with every newer one. Another writer may be faster; then the next compaction
        merges what this one could not.
        """
        self._pending = 0
        try:
            with quiet_lance():
                self._table.optimize(cleanup_older_than=max(self._keep, age_of_oldest_tag(self._table)))
            self.compactions += 1
        except Exception as error:
            if not _is_conflict(error):
                raise self._failed(error) from error

    def backfill(self) -> tuple[tuple[str, ...], int]:
        """Add the columns that a table lacks, and fill in what follows from the texts (E-97).

        A table of memory-lancedb gets the engine's columns as well. Where a text came from is unknown and stays null.
        Return the columns that were added, and the number of rows that got values. One commit adds all columns with
        their values; one for each derived column fills rows that the plugin appended later. A second run changes
        nothing, and an interrupted one is continued by the next.
        """
        self._require_writable()
        missing = tuple(name for name in (*PLUGIN, *ADDED) if name not in self.columns)
        filled = 0
        if missing:
            filled = len(self.rows())
            derived = self._derived()
            kinds = dict.fromkeys(missing, "STRING") | {"importance": "DOUBLE"}
            values = {name: derived.get(name, f"CAST(NULL AS {kinds[name]})") for name in missing}
            self._commit(lambda: self._table.add_columns(values), lambda: set(missing) <= set(self._table.schema.names))
            self._table.checkout_latest()
            self._use(self._table.schema)
        elif filled := self.count(_UNFILLED):
            for name in DERIVED:
                self._fill(name)
        if filled:
            self._cache = None
            self._changed()
        return missing, filled

    def unfilled(self) -> int:
        """Return how many rows a backfill would give values."""
        return self.count(_UNFILLED) if set(ADDED) <= set(self.columns) else len(self.rows())

    def close(self) -> None:
        """Compact if enough commits are pending, and release the lock."""
        try:
            if not self.read_only and self._pending >= max(1, self.settings.compact_on_close):
                self.compact()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_lock(self, folder: Path, what: str) -> None:
        self._lock.make_folder()
        # Loading the library takes seconds, which others should not have to wait for.
        import_lancedb()
        self._lock.acquire(what, self.settings.wait_seconds)
        if self._lock.taken_from:
            self.notes.append(
                f"{folder}: took over the lock of {self._lock.taken_from}, which ended without releasing it"
            )

    def _open(self, folder: Path, create: int | None) -> Any:
        lancedb = import_lancedb()
        try:
            with quiet_lance():
                database = lancedb.connect(str(folder))
                versions = folder / f"{TABLE}.lance" / "_versions"
                # A killed process may leave a folder without a version, which is no table.
                if create is not None and not any(versions.glob("*.manifest")):
                    return database.create_table(TABLE, schema=schema(create))
                return database.open_table(TABLE)
        except OSError as error:
            raise cannot_write(folder, error) from error
        except Exception as error:
            # LanceDB's messages name internal files and lines of its source; only the type of the error helps.
            raise UnusableInput(
                f"{folder}: table {TABLE!r} cannot be read ({type(error).__name__}): it is damaged, or a newer "
                "LanceDB wrote it; restore it from a backup"
            ) from error

    def _fill(self, name: str) -> None:
        where = f"{name} IS NULL"
        value = self._derived(where)[name]
        self._commit(lambda: self._table.update(where=where, values_sql={name: value}), lambda: self.count(where) == 0)

    def _derived(self, where: str = "true") -> dict[str, str]:
        """Return SQL expressions of the derived columns for the rows that are there now."""
        texts = self._texts(where)
        chinese = [identity for identity, text in texts if language_of([text]) == "zh"]
        rules = [identity for identity, text in texts if is_hard_rule(text)]
        # Lance's SQL has no CASE. An id that no memory has keeps the list from being empty.
        is_chinese = f"CAST({among([*chinese, BOOTSTRAP])} AS STRING)"
        return {
            "lang": f"replace(replace({is_chinese}, 'true', 'zh'), 'false', 'en')",
            "hard_rule": among([*rules, BOOTSTRAP]),
        }

    def _changed(self) -> None:
        self._pending += 1
        if self._pending >= self.settings.compact_every:
            self.compact()

    def _require_writable(self, folder: Path | None = None) -> None:
        if self.read_only:
            raise UnusableInput(f"{folder or self.folder}: nothing is written, because {self.read_only_reason}")

    def _commit(self, change: Callable[[], object], done: Callable[[], bool]) -> None:
        """Make a change; on a conflict with another writer look whether it was made, and try again a few times."""
        for attempt in range(ATTEMPTS):
            try:
                with quiet_lance():
                    change()
            except Exception as error:
                if not _is_conflict(error):
                    raise self._failed(error) from error
                # Writers that failed together should not try again together.
                time.sleep((1 + os.getpid() % 7 / 7) * 0.01 * 2**attempt)
                self._table.checkout_latest()
                if done():
                    return
            else:
                return
        raise CannotMeasure(
            f"{self.folder}: another program changed the table during each of {ATTEMPTS} attempts; nothing was written"
        )


def require_permitted(folder: Path, *, despite_gateway: bool) -> None:
    """Raise :class:`UnusableInput` if a change of this folder would be refused, for a dry run."""
    if why := refusal(folder, None if despite_gateway else gateway_using(folder)):
        raise UnusableInput(f"{folder}: nothing would be written, because {why}")


def refusal(folder: Path, gateway: str | None) -> str:
    """Return why a folder is only read; blank if it may be written."""
    if protected := write_protected(folder):
        return f"{protected} is write-protected (chmod u+w permits it)"
    return f"a running gateway uses it: {gateway}" if gateway else ""


def _has(entries: Sequence[Entry], name: str) -> bool:
    """Return whether a value of an added column would be lost without the column."""
    return any(entry.row.hard_rule if name == "hard_rule" else bool(getattr(entry, name)) for entry in entries)


def _is_conflict(error: Exception) -> bool:
    return "conflict" in str(error).lower()


def _plain(data: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table to write, as a read returns them."""
    names = [name for name in data.column_names if name != VECTOR]
    flags = embedded(data, data.schema.field(VECTOR).type.list_size)
    rows: list[dict[str, Any]] = data.select(names).append_column("embedded", flags).to_pylist()
    return rows


class GovernedTable(LanceTable):
    """A table whose governance fields can be read as they are stored, and changed."""

    def stored(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the governance fields of rows by id, as stored, in one read; ids without a row are left out.

        Only columns that the table has. Of two rows with one id the first counts.
        """
        names = [name for name in FIELDS if name in self.columns]

        def read() -> list[dict[str, Any]]:
            self._table.checkout_latest()
            return list(self._table.search().where(among(ids)).select(["id", *names]).to_list())

        found: dict[str, dict[str, Any]] = {}
        for row in self._read(read) if ids else ():
            found.setdefault(row["id"], {name: row[name] for name in names})
        return found

    def set_fields(self, fields: Mapping[str, Mapping[str, Any]]) -> None:
        """Set fields of rows, ``{id: {field: value}}``, in one commit: all of them or none.

        Rows that are gone meanwhile are left out. Changed rows move to the end of the table, as an update of the plugin
        moves them. Raises :class:`lab.base.errors.UnusableInput` if the table is read-only.
        """
        if fields:
            self.change(lambda _table: self._merge(fields), lambda: self._holds(fields))
            self._changed()

    def _merge(self, fields: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the rows' fields; those that are not given are read again first, so that they stay as they are."""
        import pyarrow as pa

        before = self.stored(list(fields))
        names = [name for name in FIELDS if any(name in values for values in fields.values())]
        ids = [identity for identity in fields if identity in before]
        columns = {"id": pa.array(ids, self._schema.field("id").type)} | {
            name: pa.array([{**before[identity], **fields[identity]}[name] for identity in ids]).cast(
                self._schema.field(name).type
            )
            for name in names
        }
        if ids:
            with quiet_lance():
                self._table.merge_insert("id").when_matched_update_all().execute(pa.table(columns))

    def _holds(self, fields: Mapping[str, Mapping[str, Any]]) -> bool:
        stored = self.stored(list(fields))
        return all({**values, **fields[identity]} == values for identity, values in stored.items())
