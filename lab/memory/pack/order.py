"""Decide which candidates a pack takes, and in which order: fused lanes, ranks, soft quotas (PK-2, PK-6).

Quarantined, past and superseded candidates are excluded at any budget (PK-3). A slot is reserved for evidence that
disagrees with what the pack includes, found by references or by rules over clauses (seed 003, PK-7).
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from itertools import combinations, islice
from typing import Any, NamedTuple

from lab.memory import supersession
from lab.memory.pack.candidate import OFF, POLICY, RELEVANCE, Candidate, Found, Quotas, Settings
from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.retrieval.fusion import reciprocal_ranks
from lab.retrieval.sentence_words import Sentence, clauses
from lab.systems.plans import is_past, is_plan

TRUSTED, UNKNOWN_TRUST, UNTRUSTED, QUARANTINED = TRUSTS = ("trusted", "unknown", "untrusted", "quarantined")
# Reasons, as a trace names them. Those of trust are the sidecar's.
NO_TEXT, PAST = "missing_summary", "plan_past"
IS_SUPERSEDED, CYCLE = "superseded", "supersession_cycle_fail_open"
TRUST_REASONS = {
    QUARANTINED: "trust_quarantined_excluded",
    UNKNOWN_TRUST: "trust_unknown_fail_open",
}
TRUST_ALLOWED = "trust_allowed"
IMPORTANCE = {MUST: 0, NICE: 1, UNKNOWN: 2, IGNORE: 3}
# Profile seed orders trusted and unknown candidates by relevance; the sidecar takes all trusted ones first.
SEED_TRUST = {UNTRUSTED: 1, QUARANTINED: 2}
EVENT = "event"
# Two clauses speak of one thing if they share at least two words of the query, and half of its words. They differ in a
# value only if they also share this share of the words of the shorter one.
SHARED, HALF, ALIKE = 2, 0.5, 0.6
# So many clauses of a candidate are compared, and so many of all that are included, or of all others.
MOST_CLAUSES, MOST_OF_ALL = 64, 1024
DECLARED, NEGATED, CHANGED = "declared", "negation", "changed_value"


def trust_reason(candidate: Candidate, settings: Settings) -> str | None:
    """Return the reason that the trust policy gives for a candidate; None if the policy is off."""
    if settings.trust_policy == OFF:
        return None
    return TRUST_REASONS.get(candidate.trust, TRUST_ALLOWED)


def exclusions(candidates: Sequence[Candidate], settings: Settings, now_ms: int) -> dict[str, str]:
    """Return, by ref, why candidates are excluded at any budget.

    A candidate that is excluded for its trust supersedes nothing. A past plan does, because the plan that it replaced
    is no longer planned. The sidecar's profile ignores plans and supersession here, because its search has already
    removed superseded records.
    """
    reasons: dict[str, str] = {}
    for one in candidates:
        if settings.trust_policy != OFF and one.trust == QUARANTINED:
            reasons[one.ref] = TRUST_REASONS[QUARANTINED]
        elif not one.text.strip():
            reasons[one.ref] = NO_TEXT
        elif not settings.is_upstream and is_plan(one.kind) and is_past(one.due_ms, now_ms):
            reasons[one.ref] = PAST
    if not settings.is_upstream:
        kept = [one for one in candidates if reasons.get(one.ref) in (None, PAST)]
        reasons = dict.fromkeys(superseded(kept)[0], IS_SUPERSEDED) | reasons
    return reasons


def superseded(candidates: Sequence[Candidate]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the refs that other candidates supersede, and those in a cycle, which stay."""
    return supersession.superseded({one.ref: one.supersedes for one in candidates})


class Ordered(NamedTuple):
    """Candidates in the order in which they are taken, the refs of events above their quota, and what quotas did.

    ``ranks`` are the places that the candidates have without quotas, 0 first.
    """

    candidates: list[Candidate]
    capped: frozenset[str]
    hits: list[dict[str, Any]]
    ranks: Mapping[str, int]


def merged(founds: Sequence[Found]) -> list[Candidate]:
    """Return the candidates of all lanes, best first, each ref once.

    The scores of one lane stay. Those of several lanes are fused by reciprocal ranks, because their scales differ.
    """
    filled = [found for found in founds if found.candidates]
    lanes = [{one.ref: one for one in found.candidates} for found in filled]
    fused = reciprocal_ranks(lanes)
    first: dict[str, Candidate] = {}
    for lane in lanes:
        for one in lane.values():
            known = first.setdefault(one.ref, one)
            first[one.ref] = known._replace(retrievers=tuple(dict.fromkeys((*known.retrievers, *one.retrievers))))
    if len(filled) < 2:
        return list(first.values())
    order = sorted(fused, key=lambda ref: -fused[ref])
    return [first[ref]._replace(score=fused[ref]) for ref in order]


def ordered(candidates: Sequence[Candidate], settings: Settings, slots: int, out: Container[str]) -> Ordered:
    """Return candidates in the order of the settings; those in ``out`` take no part in quotas of ``slots`` items."""
    ranked = sorted(enumerate(candidates), key=lambda pair: _rank(pair[1], settings, pair[0]))
    items = [one for _, one in ranked]
    ranks = {one.ref: rank for rank, one in enumerate(items)}
    if settings.quotas is None:
        return Ordered(items, frozenset(), [], ranks)
    return Ordered(*_with_quotas(items, settings.quotas, slots, out), ranks)


def _rank(one: Candidate, settings: Settings, index: int) -> tuple[float, ...]:
    if settings.rank == RELEVANCE:
        return (-one.score, index)
    ranks = dict(zip(TRUSTS, range(len(TRUSTS)), strict=True)) if settings.is_upstream else SEED_TRUST
    trust = ranks.get(one.trust, 0)
    if settings.rank == POLICY:
        return (trust, IMPORTANCE.get(one.importance, 2), -one.score, -len(one.retrievers), -one.ts_ms, index)
    return (trust, -one.score, index)


def _with_quotas(
    items: list[Candidate], quotas: Quotas, slots: int, out: Container[str]
) -> tuple[list[Candidate], frozenset[str], list[dict[str, Any]]]:
    """Move reserved preferences and decisions to the front, and name the events above their share."""
    front: list[Candidate] = []
    hits: list[dict[str, Any]] = []
    for kind, least in (("preference", quotas.preference_min), ("decision", quotas.decision_min)):
        most = min(least, slots - len(front))
        reserved = [one for one in items if kind_of(one) == kind and one.ref not in out][: max(0, most)]
        if reserved:
            hits.append({"kind": kind, "action": "reserved", "refs": [one.ref for one in reserved]})
            front += reserved
    moved = {one.ref for one in front}
    order = front + [one for one in items if one.ref not in moved]
    events = [one.ref for one in order if kind_of(one) == EVENT and one.ref not in out]
    capped = events[math.floor(max(0, slots) * quotas.event_max_ratio) :]
    if capped:
        hits.append({"kind": EVENT, "action": "capped", "refs": capped})
    return order, frozenset(capped), hits


def kind_of(candidate: Candidate) -> str:
    """Return the kind of a candidate as quotas compare it."""
    return candidate.kind.strip().lower()


def quota_hits(hits: Sequence[dict[str, Any]], included: Container[str]) -> list[dict[str, Any]]:
    """Return the effects of the quotas; a reservation counts only for candidates that were then included."""
    kept = [
        hit if hit["action"] != "reserved" else {**hit, "refs": [ref for ref in hit["refs"] if ref in included]}
        for hit in hits
    ]
    return [hit for hit in kept if hit["refs"]]


class Dissent(NamedTuple):
    """A candidate that disagrees with an included one, how (:data:`DECLARED` and so on), and how well they match."""

    candidate: Candidate
    against: str
    how: str
    likeness: float


def dissents(included: Sequence[Candidate], others: Sequence[Candidate], terms: frozenset[str]) -> list[Dissent]:
    """Return the ``others`` that disagree with an included candidate, the closest match first.

    ``terms`` are the stems of the query. Each is paired with the included candidate that it matches most closely.
    """
    spoken = [(ref, claim) for ref, said in _claims(included, terms).items() for claim in said]
    own = _claims(others, terms)
    contradicted = {ref: one.ref for one in included for ref in one.contradicts}
    refs = {one.ref for one in included}
    found: list[Dissent] = []
    for other in others:
        named = next((ref for ref in (*other.contradicts, *other.supersedes) if ref in refs), None)
        named = named or contradicted.get(other.ref)
        if named is not None:
            found.append(Dissent(other, named, DECLARED, 1.0))
            continue
        pairs = [
            (likeness, ref, how)
            for claim in own[other.ref]
            for ref, said in spoken
            for how, likeness in (compared(claim, said, terms),)
            if how
        ]
        if pairs:
            likeness, ref, how = max(pairs, key=lambda pair: pair[0])
            found.append(Dissent(other, ref, how, likeness))
    return sorted(found, key=lambda one: (one.how != DECLARED, -one.likeness))


def is_balanced(included: Sequence[Candidate], terms: frozenset[str]) -> bool:
    """Return whether two included candidates already disagree, so that no slot is needed."""
    refs = {one.ref for one in included}
    if any(refs.intersection((*one.contradicts, *one.supersedes)) - {one.ref} for one in included):
        return True
    spoken = _claims(included, terms)
    return any(
        compared(claim, said, terms)[0]
        for one, other in combinations(spoken, 2)
        for claim in spoken[one]
        for said in spoken[other]
    )


def _claims(candidates: Sequence[Candidate], terms: frozenset[str]) -> dict[str, list[Sentence]]:
    """Return, by ref, the first clauses of candidates that are about the subject of the query."""
    found: dict[str, list[Sentence]] = {}
    left = MOST_OF_ALL
    for one in candidates:
        about = (clause for clause in clauses(one.text) if _covers(clause.stems, terms))
        found[one.ref] = list(islice(about, min(MOST_CLAUSES, left)))
        left -= len(found[one.ref])
    return found


def _covers(found: frozenset[str], terms: frozenset[str]) -> bool:
    return len(found & terms) >= max(SHARED, HALF * len(terms))


def compared(first: Sentence, second: Sentence, terms: frozenset[str]) -> tuple[str, float]:
    """Return how two clauses disagree ("": they do not), and their similarity, from 0 to 1.

    They disagree if only one of them denies something, or if they share most words and no number.
    """
    if not _covers(first.stems & second.stems, terms):
        return "", 0.0
    shorter = min(len(first.stems - first.values), len(second.stems - second.values))
    alike = len((first.stems & second.stems) - first.values - second.values) / max(1, shorter)
    if first.is_negated != second.is_negated:
        return NEGATED, alike
    changed = bool(first.values and second.values) and first.values.isdisjoint(second.values)
    return (CHANGED, alike) if changed and alike >= ALIKE else ("", alike)
