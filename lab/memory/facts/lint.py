"""Check the facts of a file (TF-10): shape, evidence, supersession, and values that contradict each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lab.memory.facts.model import SCHEMA, TIERS, Fact
from lab.memory.facts.predicates import PREDICATES
from lab.memory.facts.sources import NO_LEDGER, QUARANTINED, Sources, highest_tier, trouble
from lab.memory.facts.view import View, holds

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
        for right in sound[index + 1 :]:
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
    return _without_ends(supersedes, superseded_by) & _without_ends(superseded_by, supersedes)


def _without_ends(after: Mapping[str, set[str]], before: Mapping[str, set[str]]) -> frozenset[str]:
    """Return the nodes of a graph that are left when all without a predecessor are removed, again and again."""
    count = {node: len(before[node]) for node in after}
    ends = [node for node, number in count.items() if not number]
    while ends:
        for node in after[ends.pop()]:
            count[node] -= 1
            if not count[node]:
                ends.append(node)
    return frozenset(node for node, number in count.items() if number)


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
