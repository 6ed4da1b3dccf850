"""The lane of the sidecar's ledger: its search by words, and the metadata of each observation (PK-10)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.base.errors import LabError
from lab.base.formatting import HIDDEN, without_credentials
from lab.base.sqlite import tables
from lab.memory.ledger import ledger
from lab.memory.ledger.grades import label_of
from lab.memory.ledger.ledger import Observation
from lab.memory.ledger.rows import given_scope
from lab.memory.ledger.schema import FTS
from lab.memory.ledger.score import factors
from lab.memory.ledger.search import Hit, ids_in, kept_of, references, search
from lab.memory.ledger.times import moment
from lab.memory.ledger.writeback_fields import trust_of
from lab.memory.pack.candidate import Candidate, Found
from lab.memory.tools.redact import redactor
from lab.systems.plans import FIELD, due_in, is_plan, read_due

# Why the lane returns less, or nothing.
NO_VECTORS, NO_TABLES, UNREADABLE = "no_vectors_words_only", "no_search_tables_substrings_only", "ledger_unreadable"
UNUSABLE_SCOPE = "scope_unusable"
# Fields of a detail that govern a memory and are no part of its record.
GOVERNING = frozenset(("importance", "lifecycle", "provenance", "trust", "trust_tier", "scope", "classification"))
_redact = redactor(upstream=False)
_ADDRESS = re.compile(r"https?://\S+")
_NEWER = ("superseded_by", "supersededBy")
# Rows that name a successor, or rows that they supersede. The index would miss details that changed after ingest.
_LINKED = "instr(detail_json, 'supersede') > 0"


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
        """Return observations by their composite score. A ledger that cannot be searched gives a reason, not an error.

        The sidecar's profile also returns observations written after ``now_ms``.
        """
        try:
            given_scope(scope)
        except LabError as error:
            return Found(self.name, (), searched=False, reason=f"{UNUSABLE_SCOPE}: {error}")
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
        except OSError as error:
            # A folder that may not be entered, or a name that no file can have.
            return Found(self.name, (), searched=False, reason=f"{UNREADABLE}: {self.path}: {error.strerror}")
        return Found(self.name, tuple(found), reason=reason)

    def _hits(
        self, connection: sqlite3.Connection, query: str, limit: int, scope: str | None, now: datetime
    ) -> Sequence[Hit]:
        options: dict[str, Any] = {"scope": scope, "limit": limit, "include_archived": self.include_archived}
        if not self.upstream:
            return search(connection, query, now=now, keep_superseded=True, **options).hits
        # The sidecar scores only the hits that are left after its cut; its command search scores more.
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
            detail="\n".join((text, *lines)) if (lines := list(_lines(detail))) else None,
            importance=label_of(detail),
            trust=trust_of(detail) or "unknown",
            scope=detail.get("scope") if isinstance(detail.get("scope"), str) else None,
            ts_ms=int(time.timestamp() * 1000) if time else 0,
            due_ms=due_of_observation(row),
            url=None if self.upstream else _address(detail.get("url")),
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
        """Yield candidates, each followed by the observations of the scope that supersede it, with its score.

        The successors of a successor follow as well. An observation names its successor, or the ones that it
        supersedes.
        """
        newer = _successors(ledger.observations(connection, where=_LINKED))
        known = {hit.row.id for hit in hits}
        brought = ledger.get(connection, _reached(known, newer) - known)
        rows = {
            row.id: row for row in kept_of(brought, given_scope(scope), self.include_archived, keep_superseded=True)
        }
        older: dict[str, dict[str, None]] = {}
        for number, successors in newer.items():
            for successor in successors:
                older.setdefault(self._ref(successor), {})[self._ref(number)] = None
        for hit, one in zip(hits, found, strict=True):
            yield one._replace(supersedes=tuple(older.get(one.ref, ())))
            waiting = [hit.row.id]
            while waiting:
                for number in newer.get(waiting.pop(), ()):
                    if number in rows and number not in known:
                        known.add(number)
                        waiting.append(number)
                        follower = self._of(rows[number], one.score, ("successor",))
                        yield follower._replace(supersedes=tuple(older[follower.ref]))


def _successors(rows: Iterable[Observation]) -> dict[int, list[int]]:
    """Return, by id, the observations that supersede one, whether it names them or they name it."""
    newer: dict[int, list[int]] = {}
    for row in rows:
        detail = row.detail
        for key in _NEWER:
            if key in detail:
                newer.setdefault(row.id, []).extend(ids_in(detail[key]))
        for number in references(detail, "supersedes"):
            newer.setdefault(number, []).append(row.id)
    return newer


def _reached(start: Iterable[int], newer: Mapping[int, Sequence[int]]) -> set[int]:
    """Return the ids in ``start`` and those of all observations that supersede them, directly or through others."""
    reached = set(start)
    waiting = list(reached)
    while waiting:
        further = set(newer.get(waiting.pop(), ())) - reached
        reached |= further
        waiting += further
    return reached


def _address(value: object) -> str | None:
    """Return a web address without its credentials; None for one with another secret, and for other values."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        return None
    address = without_credentials(value)
    rest = address.replace(HIDDEN, "")
    return address if _redact(rest) == rest else None


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts and numbers of a detail, each with its key, without the fields that govern it."""
    if isinstance(value, Mapping):
        for key, nested in value.items():
            if key not in GOVERNING:
                yield from _lines(nested, key)
    elif isinstance(value, list):
        for nested in value:
            yield from _lines(nested, name)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield f"{name}: {value}"


def due_of_observation(observation: Observation) -> int | None:
    """Return when an observation of a ledger is due, in milliseconds; None for another kind than ``plan`` (PL-3).

    Its detail may have ``due_at``, an ISO 8601 date or time, or milliseconds; else its summary says it.
    """
    if not is_plan(observation.kind):
        return None
    given = read_due(observation.detail.get(FIELD))
    written = read_due(observation.ts)
    return due_in(observation.summary or "", written or 0) if given is None else given
