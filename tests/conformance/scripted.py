"""A table whose rows have scripted scores and distances, on which the second pack of vectors was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.retrieval.collation import id_order
from lab.retrieval.contract import Filter, Hit, Lanes, Row
from lab.systems.openclaw.memory import Listing

# Default score and distance of a row that the engine writes: no text match, far away.
WRITTEN = (0.0, 2.0)


class Scripted:
    """Rows with a score for the text lane and a distance for the vector lane; implements both store and view.

    ``words`` and ``vectors`` enable the lanes; ``written`` is the score and distance of rows that the engine writes.
    """

    def __init__(
        self,
        rows: Sequence[dict[str, Any]],
        *,
        words: bool = True,
        vectors: bool = True,
        written: tuple[float, float] = WRITTEN,
    ) -> None:
        self.rows: list[Row] = []
        self.by_id: dict[str, Row] = {}
        self.listing = Listing()
        self._words, self._vectors, self._written = words, vectors, written
        self._scripts: dict[str, tuple[float, float]] = {}
        for raw in rows:
            self._add(_row(raw), (raw["scripted_fts_score"], raw["scripted_distance"]))

    def write(self, row: Row) -> None:
        """Replace the row with the same id by a row that the engine wrote."""
        if row.id in self.by_id:
            self.listing.remove(self.by_id[row.id])
        self._add(row, self._written)

    def left(self) -> list[Row]:
        """Return the current rows in storage order."""
        return [row for row in self.rows if self.by_id[row.id] is row]

    def search(self, where: Filter, limit: int) -> Lanes:
        """Return both lanes by scripted score; ties are broken by id."""
        passing = [
            (number, *self._scripts[row.id])
            for number, row in enumerate(self.rows)
            if self.by_id[row.id] is row
            and row.scope == where.scope
            and (where.labels is None or row.importance_label in where.labels)
        ]
        fts = [Hit(number, score) for number, score, _ in passing if score > 0]
        vec = [Hit(number, 1 / (1 + distance), distance) for number, _, distance in passing]
        return Lanes(
            self._ranked(fts)[:limit] if self._words else [], self._ranked(vec)[:limit] if self._vectors else []
        )

    def _ranked(self, hits: list[Hit]) -> list[Hit]:
        return sorted(hits, key=lambda hit: (-hit.score, id_order(self.rows[hit.row].id)))

    def _add(self, row: Row, script: tuple[float, float]) -> None:
        self.rows.append(row)
        self.by_id[row.id] = row
        self._scripts[row.id] = script
        self.listing.add([row])


def shown_row(row: Row) -> dict[str, Any]:
    """Return a row in the plugin's form."""
    return {
        "id": row.id,
        "text": row.text,
        "createdAt": row.created_at,
        "category": row.category,
        "importance": row.importance,
        "importance_label": row.importance_label,
        "scope": row.scope,
        "trust_tier": row.trust_tier,
    }


def _row(raw: dict[str, Any]) -> Row:
    """Convert a row of the pack; without a scope it is global."""
    text, label = raw["text"], raw["importance_label"]
    scope = raw.get("scope") or "global"
    return Row(raw["id"], raw["id"], text, text, raw["createdAt"], raw["category"], label, scope)
