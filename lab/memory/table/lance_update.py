"""Change governance fields of rows in the table ``memories`` (WB-6), one LanceDB commit for many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.memory.table.lance_table import LanceTable
from lab.retrieval.quiet import quiet_lance
from lab.systems.openclaw.table.reading import among

FIELDS = ("importance", "importance_label", "scope", "trust_tier", "category")


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
        """Return whether the rows that are there have these values."""
        stored = self.stored(list(fields))
        return all({**values, **fields[identity]} == values for identity, values in stored.items())
