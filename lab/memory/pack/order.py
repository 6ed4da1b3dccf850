"""The order in which a pack takes candidates: fused lanes, ranks, soft quotas (PK-2, PK-6)."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from lab.memory.pack.candidate import Candidate, Found
from lab.memory.pack.governance import QUARANTINED, TRUSTS, UNTRUSTED
from lab.memory.pack.settings import POLICY, RELEVANCE, Quotas, Settings
from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.retrieval.fusion import reciprocal_ranks

IMPORTANCE = {MUST: 0, NICE: 1, UNKNOWN: 2, IGNORE: 3}
# Profile seed orders trusted and unknown candidates by relevance; the sidecar takes all trusted ones first.
SEED_TRUST = {UNTRUSTED: 1, QUARANTINED: 2}
EVENT = "event"


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
