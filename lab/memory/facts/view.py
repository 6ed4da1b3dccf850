"""The view of facts over time (TF-8): which facts hold at a time, and the history of a subject.

The lint checks all facts of a file (TF-10): shape, evidence, supersession, and values that contradict each other.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lab.memory.facts.model import (
    ACTIVE,
    INVALIDATED,
    PREDICATES,
    RETRACTED,
    SCHEMA,
    SUPERSEDED,
    TIERS,
    Fact,
    Invalidation,
    Record,
)
from lab.memory.facts.sources import NO_LEDGER, QUARANTINED, Sources, highest_tier, trouble
from lab.memory.supersession import in_or_after_cycles

EXCLUDED = {"stale": "stale_excluded", "dangling": "sources_missing_excluded", QUARANTINED: "quarantined_excluded"}
LINTED = "openclaw-mem.graph.fact.lint.v0"
# The meaning of each code.
CODES = {
    "unknown_predicate": "its predicate is not a known one",
    "object_type_mismatch": "its predicate does not take an object of this type",
    "missing_source_refs": "it names no source",
    "interval_invalid": "it ends before it begins",
    "dangling_source_ref": "a source does not resolve",
    "quarantined_source": "a source is quarantined",
    "confidence_exceeds_source_cap": "its confidence is higher than its sources allow",
    "stale_source": "a source has changed since the assertion",
    "unresolved_supersedes": "it supersedes a fact that does not exist",
    "foreign_supersedes": "it supersedes a fact of another subject or predicate",
    "cyclic_supersedes": "it supersedes a fact that supersedes it",
    "single_value_interval_conflict": "another value holds at the same time",
    "id_mismatch": "its id is not that of its content",
}
WARNINGS = frozenset(("stale_source",))


class Excluded(NamedTuple):
    """A fact that is not current: why, and its status."""

    fact_id: str
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
        self._of_subject: dict[str, dict[str, _Timeline]] = defaultdict(lambda: defaultdict(_Timeline))
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
            self._of_subject[record.subject][record.predicate].add(record)
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
            self._of_subject[old.subject][old.predicate].end(old, end)

    def foreign(self, fact: Fact) -> list[Fact]:
        """Return the facts that a fact claims to supersede, but that are of another subject or predicate."""
        known = (self._facts[identity] for identity in fact.supersedes if identity in self._facts)
        return [old for old in known if (old.subject, old.predicate) != (fact.subject, fact.predicate)]

    def of(self, subject: str, predicate: str | None = None) -> list[Fact]:
        """Return the facts of a subject, by predicate, start, time of assertion and id."""
        timelines = self._of_subject.get(subject, {}).items()
        return _ordered(
            self._facts[identity]
            for name, timeline in timelines
            if predicate in (None, name)
            for _, identity in timeline.starts
        )

    def rivals(self, fact: Fact) -> list[Fact]:
        """Return the facts of the same subject and predicate whose intervals overlap a fact's, in the order of ``of``.

        Facts that end before it begins are not looked at one by one: a subject may have any number of them.
        """
        timeline = self._of_subject.get(fact.subject, {}).get(fact.predicate, _Timeline())
        facts = map(self._facts.__getitem__, timeline.reaching(fact.valid_from, fact.valid_to or _NEVER))
        return _ordered(other for other in facts if fact.overlaps(other))


# After every time.
_NEVER = "\uffff"


class _Timeline:
    """The facts of a subject and a predicate by start and id: when each ends, and when it and all before it end."""

    def __init__(self) -> None:
        self.starts: list[tuple[str, str]] = []
        self._ends: list[str] = []
        self._all_end: list[str] = []

    def add(self, fact: Fact) -> None:
        """Add a fact."""
        key = fact.valid_from, fact.id
        insort(self.starts, key)
        index = bisect_left(self.starts, key)
        self._ends.insert(index, "")
        # None of those before it is known to end later until it is compared.
        self._all_end.insert(index, "")
        self._end(index, fact.valid_to or _NEVER)

    def end(self, fact: Fact, at: str) -> None:
        """Give a fact of the timeline another end."""
        self._end(bisect_left(self.starts, (fact.valid_from, fact.id)), at)

    def _end(self, index: int, at: str) -> None:
        self._ends[index] = at
        latest = self._all_end[index - 1] if index else ""
        for later in range(index, len(self.starts)):
            latest = max(latest, self._ends[later])
            if self._all_end[later] == latest:
                break
            self._all_end[later] = latest

    def reaching(self, begins: str, ends: str) -> Iterator[str]:
        """Yield the ids of facts that may overlap an interval, the latest first."""
        for index in range(bisect_left(self.starts, (ends, "")) - 1, -1, -1):
            if self._all_end[index] <= begins:
                break
            yield self.starts[index][1]


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


class Issue(NamedTuple):
    """A defect of a fact: its code, and what it concerns, such as the other fact."""

    code: str
    fact: str
    about: Mapping[str, Any]

    @property
    def severity(self) -> str:
        """``warning`` for an issue that may be no mistake, else ``error``."""
        return "warning" if self.code in WARNINGS else "error"


def lint(view: View, sources: Sources, *, upstream: bool = False) -> list[Issue]:
    """Return the defects of all facts, by fact in the order of the view, then conflicts by subject and predicate.

    ``upstream`` looks for conflicts among active facts alone, and lets any fact supersede any other. Sources in a
    ledger that was not given are not checked.
    """
    sources.resolve(source for fact in view for source in fact.sources)
    cycle = in_cycles(view)
    issues = [issue for fact in view for issue in _of_fact(fact, view, sources, cycle, upstream=upstream)]
    rivals: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for fact in view:
        predicate = PREDICATES.get(fact.predicate)
        if predicate is not None and predicate.is_single and holds(fact, upstream=upstream):
            rivals[fact.subject, fact.predicate].append(fact)
    for key in sorted(rivals):
        issues.extend(_conflicts(rivals[key], sources))
    return issues


def _of_fact(fact: Fact, view: View, sources: Sources, cycle: frozenset[str], *, upstream: bool) -> Iterator[Issue]:
    """Yield the defects of one fact by itself. If the predicate is unknown, nothing else can be checked."""
    asserted = view.as_asserted(fact.id)
    if asserted.own_id != fact.id:
        yield Issue("id_mismatch", fact.id, {"own_id": asserted.own_id})
    predicate = PREDICATES.get(fact.predicate)
    if predicate is None:
        yield Issue("unknown_predicate", fact.id, {"predicate": fact.predicate})
        return
    if fact.object.type not in predicate.objects:
        yield Issue("object_type_mismatch", fact.id, {"object_type": fact.object.type})
    if not fact.sources:
        yield Issue("missing_source_refs", fact.id, {})
    if asserted.valid_to is not None and asserted.valid_to < asserted.valid_from:
        yield Issue("interval_invalid", fact.id, {"valid_from": asserted.valid_from, "valid_to": asserted.valid_to})
    resolutions = sources.resolve(fact.sources)
    judged = [one for one in resolutions if one.reason != NO_LEDGER]
    if dangling := [one for one in judged if not one.is_resolved]:
        about = [{"source": one.source.token, "reason": one.reason} for one in dangling]
        yield Issue("dangling_source_ref", fact.id, {"sources": about})
    if quarantined := [one.source.token for one in judged if one.reason == QUARANTINED]:
        yield Issue("quarantined_source", fact.id, {"sources": quarantined})
    highest = highest_tier(resolutions)
    rank = TIERS.index(fact.confidence) if fact.confidence in TIERS else len(TIERS)
    if len(judged) == len(resolutions) and rank > TIERS.index(highest):
        yield Issue(
            "confidence_exceeds_source_cap", fact.id, {"confidence_tier": fact.confidence, "source_cap": highest}
        )
    if trouble(fact.digests, [one for one in judged if one.reason != QUARANTINED]) == "stale":
        yield Issue("stale_source", fact.id, {})
    for identity in fact.supersedes:
        if view.get(identity) is None:
            yield Issue("unresolved_supersedes", fact.id, {"target_fact_id": identity})
    for old in view.foreign(fact) if not upstream else ():
        yield Issue("foreign_supersedes", fact.id, {"target_fact_id": old.id})
    if fact.id in cycle:
        yield Issue("cyclic_supersedes", fact.id, {})


def _conflicts(facts: Sequence[Fact], sources: Sources) -> Iterator[Issue]:
    """Yield the pairs of a subject's facts that hold at the same time.

    One that supersedes another ends it, so the two are no pair. Facts whose sources are stale, missing or quarantined
    are not current, so they are no rivals.
    """
    sound = [fact for fact in facts if trouble(fact.digests, sources.resolve(fact.sources)) is None]
    for index, left in enumerate(sound):
        for right in map(sound.__getitem__, range(index + 1, len(sound))):
            # By start: all further facts begin even later.
            if left.valid_to is not None and right.valid_from >= left.valid_to:
                break
            if left.overlaps(right):
                about = {"other_fact_id": right.id, "subject": left.subject, "predicate": left.predicate}
                yield Issue("single_value_interval_conflict", left.id, about)


def in_cycles(view: View) -> frozenset[str]:
    """Return the ids of facts that supersede themselves through others, and of those between two such cycles."""
    supersedes = {fact.id: {one for one in fact.supersedes if view.get(one) is not None} for fact in view}
    superseded_by: dict[str, set[str]] = {identity: set() for identity in supersedes}
    for identity, targets in supersedes.items():
        for target in targets:
            superseded_by[target].add(identity)
    after, before = in_or_after_cycles(supersedes), in_or_after_cycles(superseded_by)
    return frozenset(after & before)


def receipt(view: View, issues: Sequence[Issue]) -> dict[str, Any]:
    """Return the result of a lint as JSON."""
    errors = sum(issue.severity == "error" for issue in issues)
    stale = len({issue.fact for issue in issues if issue.code == "stale_source"})
    counts = {"facts": len(view), "errors": errors, "warnings": len(issues) - errors, "staleFacts": stale}
    return {
        "kind": LINTED,
        "schema": SCHEMA,
        "ok": not errors,
        "counts": counts,
        "issues": [{"code": one.code, "fact_id": one.fact, "severity": one.severity, **one.about} for one in issues],
    }
