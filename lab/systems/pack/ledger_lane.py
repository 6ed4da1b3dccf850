"""The lane of the sidecar's ledger: its search by words, and what each observation says of itself (PK-10)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.systems.pack.candidate import Candidate, Found
from lab.systems.plans import due_of_observation
from lab.systems.sidecar import ledger
from lab.systems.sidecar.ledger import Observation
from lab.systems.sidecar.ledger_grades import label_of
from lab.systems.sidecar.ledger_rows import given_scope
from lab.systems.sidecar.ledger_schema import FTS, tables
from lab.systems.sidecar.ledger_score import factors
from lab.systems.sidecar.ledger_search import Hit, ids_in, kept_of, references, search
from lab.systems.sidecar.ledger_times import moment
from lab.systems.sidecar.writeback_fields import trust_of

# Why the lane returns less, or nothing.
NO_VECTORS, NO_TABLES, UNREADABLE = "no_vectors_words_only", "no_search_tables_substrings_only", "ledger_unreadable"
# Fields of a detail that govern a memory and are no part of its record.
GOVERNING = frozenset(("importance", "lifecycle", "provenance", "trust", "trust_tier", "scope", "classification"))
_NEWER = ("superseded_by", "supersededBy")


@dataclass(frozen=True, slots=True)
class LedgerLane:
    """The observations of a ledger. ``prefix`` comes before ``obs:ID`` where several ledgers are searched."""

    path: Path
    prefix: str = ""
    upstream: bool = False
    include_archived: bool = False

    @property
    def name(self) -> str:
        """The name of the lane in a trace."""
        return f"ledger {self.prefix.rstrip(':')}".rstrip()

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return observations by their composite score. A ledger that cannot be searched gives a reason, no error.

        The sidecar's profile returns what was written later as well.
        """
        try:
            with ledger.open_ledger(self.path) as connection:
                reason = NO_VECTORS if FTS in tables(connection) else NO_TABLES
                hits = self._hits(connection, query, limit, scope, datetime.fromtimestamp(now_ms / 1000, UTC))
                found = [self._candidate(hit) for hit in hits]
                if not self.upstream:
                    found = list(self._with_successors(connection, hits, found, scope))
                    found = [one for one in found if one.ts_ms <= now_ms]
        except LabError as error:
            return Found(self.name, (), searched=False, reason=f"{UNREADABLE}: {error}")
        return Found(self.name, tuple(found), reason=reason)

    def _hits(
        self, connection: sqlite3.Connection, query: str, limit: int, scope: str | None, now: datetime
    ) -> Sequence[Hit]:
        options: dict[str, Any] = {"scope": scope, "limit": limit, "include_archived": self.include_archived}
        if not self.upstream:
            return search(connection, query, now=now, keep_superseded=True, **options).hits
        # The sidecar scores what it has cut, so less is searched than by its command search.
        hits = search(connection, query, now=now, composite=False, upstream=True, **options).hits
        scored = [hit._replace(factors=factors(hit.row, rank, now)) for rank, hit in enumerate(hits)]
        return sorted(scored, key=lambda hit: -hit.factors.score if hit.factors else 0.0)

    def _candidate(self, hit: Hit) -> Candidate:
        score = hit.factors.score if hit.factors else 0.0
        return self._of(hit.row, score, ("fts",))

    def _of(self, row: Observation, score: float, retrievers: tuple[str, ...]) -> Candidate:
        detail = row.detail
        time = moment(row.ts)
        text = (row.summary_en or row.summary or "").replace("\n", " ").strip()
        return Candidate(
            self._ref(row.id),
            text,
            self.name,
            score,
            row.kind or ("" if self.upstream else "note"),
            detail="\n".join(_leaves(detail)) or None,
            importance=label_of(detail),
            trust=trust_of(detail) or "unknown",
            scope=detail.get("scope") if isinstance(detail.get("scope"), str) else None,
            ts_ms=int(time.timestamp() * 1000) if time else 0,
            due_ms=due_of_observation(row),
            url=url if isinstance(url := detail.get("url"), str) and not self.upstream else None,
            retrievers=retrievers,
            supersedes=tuple(map(self._ref, references(detail, "supersedes"))),
            contradicts=tuple(map(self._ref, references(detail, "contradicts"))),
            sources=(f"obs:{row.id}",),
        )

    def _ref(self, number: int) -> str:
        return f"{self.prefix}obs:{number}"

    def _with_successors(
        self, connection: sqlite3.Connection, hits: Sequence[Hit], found: Sequence[Candidate], scope: str | None
    ) -> Iterator[Candidate]:
        """Yield candidates, each followed by the observations of the scope that supersede it, with its score."""
        newer = {hit.row.id: [number for key in _NEWER for number in ids_in(hit.row.detail.get(key))] for hit in hits}
        named = ledger.get(connection, (number for ids in newer.values() for number in ids))
        rows = {row.id: row for row in kept_of(named, given_scope(scope), self.include_archived, keep_superseded=True)}
        known = {hit.row.id for hit in hits}
        extra: dict[str, set[str]] = {}
        for number, ids in newer.items():
            for successor in ids:
                if successor in rows:
                    extra.setdefault(self._ref(successor), set()).add(self._ref(number))
        for hit, one in zip(hits, found, strict=True):
            yield _superseding(one, extra)
            for successor in newer[hit.row.id]:
                if successor in rows and successor not in known:
                    known.add(successor)
                    yield _superseding(self._of(rows[successor], one.score, ("successor",)), extra)


def _superseding(one: Candidate, extra: Mapping[str, set[str]]) -> Candidate:
    """Return a candidate that also supersedes what names it as its successor."""
    return one._replace(supersedes=tuple(dict.fromkeys((*one.supersedes, *sorted(extra.get(one.ref, ()))))))


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of a detail, without the fields that govern it."""
    if isinstance(value, Mapping):
        for key, nested in value.items():
            if key not in GOVERNING:
                yield from _leaves(nested)
    elif isinstance(value, list):
        for nested in value:
            yield from _leaves(nested)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
