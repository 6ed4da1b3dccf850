"""The view of facts over time (TF-8): which facts hold at a time, and the history of a subject."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lab.memory.facts.model import ACTIVE, INVALIDATED, RETRACTED, SUPERSEDED, Fact, Invalidation, Record
from lab.memory.facts.sources import QUARANTINED, Sources, trouble

EXCLUDED = {"stale": "stale_excluded", "dangling": "sources_missing_excluded", QUARANTINED: "quarantined_excluded"}


class Excluded(NamedTuple):
    """A fact that is not current: why, and its status."""

    fact: str
    reason: str
    status: str


class Current(NamedTuple):
    """The facts of a subject that hold at a time, each with its status, and those that do not, with reasons."""

    facts: list[tuple[Fact, str]]
    excluded: list[Excluded]


class View:
    """The asserted facts, with what superseded or ended them. The view is made from the assertions alone."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._facts: dict[str, Fact] = {}
        self._asserted: dict[str, Fact] = {}
        self._of_subject: dict[str, list[str]] = defaultdict(list)
        records = list(records)
        self._retracted = {one.fact for one in records if isinstance(one, Invalidation) and one.status == RETRACTED}
        # A fact may stand in the file before the one that it supersedes, if somebody wrote the file by hand.
        for record in [record for record in records if self._place(record)]:
            self._apply(record)

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[Fact]:
        """Yield all facts by subject, predicate, start, time of assertion and id."""
        return iter(_ordered(self._facts.values()))

    def get(self, identity: str) -> Fact | None:
        """Return a fact by its id."""
        return self._facts.get(identity)

    def as_asserted(self, identity: str) -> Fact:
        """Return a fact as it was before anything superseded or ended it."""
        return self._asserted[identity]

    def add(self, fact: Fact) -> None:
        """Add a fact that was asserted after all others. If it is there already, renew it: it gets the digests."""
        if self._place(fact):
            self._apply(fact)

    def _place(self, record: Record) -> bool:
        """Add a fact, or renew the one that is there; return whether the record is to be applied."""
        if isinstance(record, Fact):
            if (known := self._facts.get(record.id)) is not None:
                self._facts[record.id] = replace(known, digests=record.digests)
                return False
            self._facts[record.id] = self._asserted[record.id] = record
            self._of_subject[record.subject].append(record.id)
        return True

    def _apply(self, record: Record) -> None:
        if not isinstance(record, Fact):
            self._end(record.fact, record.status, record.at)
            return
        for old in self.superseded(record.id) if record.id not in self._retracted else ():
            if old.id != record.id:
                by = tuple(sorted({*old.superseded_by, record.id}))
                self._facts[old.id] = replace(old, superseded_by=by)
                self._end(old.id, SUPERSEDED, record.valid_from)

    def superseded(self, identity: str) -> list[Fact]:
        """Return the facts that a fact supersedes, and those that its retracted predecessors superseded."""
        found: dict[str, Fact] = {}
        wanted = [*self._asserted[identity].supersedes]
        while wanted:
            old = self._facts.get(wanted.pop())
            if old is not None and old.id not in found:
                found[old.id] = old
                wanted += old.supersedes if old.id in self._retracted else ()
        return list(found.values())

    def _end(self, identity: str, status: str, at: str) -> None:
        """End a fact: never later than it ended before, and never before it began. A retracted one stays retracted."""
        if (old := self._facts.get(identity)) is not None:
            end = max(old.valid_from, min(at, old.valid_to or at))
            kept = RETRACTED if old.status == RETRACTED else status
            self._facts[identity] = replace(old, valid_to=end, status=kept)

    def foreign(self, fact: Fact) -> list[Fact]:
        """Return the facts that a fact claims to supersede, but that are of another subject or predicate."""
        known = (self._facts[identity] for identity in fact.supersedes if identity in self._facts)
        return [old for old in known if (old.subject, old.predicate) != (fact.subject, fact.predicate)]

    def of(self, subject: str, predicate: str | None = None) -> list[Fact]:
        """Return the facts of a subject, by predicate, start, time of assertion and id."""
        facts = (self._facts[identity] for identity in self._of_subject.get(subject, ()))
        return _ordered(fact for fact in facts if predicate is None or fact.predicate == predicate)


def _ordered(facts: Iterable[Fact]) -> list[Fact]:
    return sorted(facts, key=lambda fact: (fact.subject, fact.predicate, fact.valid_from, fact.created_at, fact.id))


def status_of(fact: Fact, sources: Sources) -> str:
    """Return the status of a fact now: an active one is stale, dangling or quarantined if its sources are (TF-6)."""
    if fact.status != ACTIVE:
        return fact.status
    return trouble(fact.digests, sources.resolve(fact.sources)) or ACTIVE


def holds(fact: Fact, *, upstream: bool = False) -> bool:
    """Return whether a fact counts within its interval (TF-9).

    A superseded or invalidated fact held until then; only a retracted one never did. For ``upstream``, only active
    facts count (TF-14).
    """
    return fact.status == ACTIVE if upstream else fact.status in (ACTIVE, SUPERSEDED, INVALIDATED)


def current(
    facts: Sequence[Fact], as_of: str, sources: Sources, *, include_stale: bool = False, upstream: bool = False
) -> Current:
    """Return which facts hold at a time (TF-9). Only their sources are resolved.

    ``include_stale`` keeps facts whose sources changed, are missing or quarantined, with that as their status.
    """
    found = Current([], [])
    covering = [fact for fact in facts if fact.covers(as_of) and holds(fact, upstream=upstream)]
    sources.resolve(source for fact in covering for source in fact.sources)
    for fact in facts:
        if not fact.covers(as_of):
            found.excluded.append(Excluded(fact.id, "outside_interval", fact.status))
        elif not holds(fact, upstream=upstream):
            found.excluded.append(Excluded(fact.id, "non_current_status", fact.status))
        else:
            wrong = trouble(fact.digests, sources.resolve(fact.sources))
            if wrong and not include_stale:
                found.excluded.append(Excluded(fact.id, EXCLUDED[wrong], wrong))
            else:
                found.facts.append((fact, wrong or fact.status))
    return found
