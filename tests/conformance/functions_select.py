"""Adapters for ordering, fusion, the two selection policies, and scopes with fallbacks (E-7, E-12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.retrieval.collation import id_order
from lab.retrieval.contract import Candidate, Hit, Lanes, Row
from lab.retrieval.fusion import fuse
from lab.systems.openclaw.recall.receipt import REASONS
from lab.systems.openclaw.recall.scope import scope_plan, select_in_scopes
from lab.systems.openclaw.select.outcome import Quota, Selection, TierCount, TierPlan, by_rank
from lab.systems.openclaw.select.policies import tier_first_v1, tier_quota_v1
from tests.conformance.functions_scope import policy_of
from tests.conformance.plugin_dates import created_at_ms
from tests.conformance.values import UNDEFINED

Value = dict[str, Any]


def locale_compare(record: Value) -> Any:
    """Return the sign of ``localeCompare``, or a list sorted by it."""
    given = record["input"]
    if "sort" in given:
        return sorted(given["sort"], key=id_order)
    return _sign(id_order(given["a"]), id_order(given["b"]))


def compare_hits(record: Value) -> Any:
    """Return the order of the hits under ``compareRecallHitsV1``, and its sign for the first two."""
    ranks = [by_rank(_candidate(hit)) for hit in record["input"]["hits"]]
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    return {"sortedIndexes": order, "signOfFirstTwo": _sign(*ranks[:2]) if len(ranks) > 1 else UNDEFINED}


def fuse_recall(record: Value) -> Any:
    """Run ``fuseRecall``."""
    given = record["input"]
    return _listed(fuse(*_lanes(given["fts"], given["vector"]), given["limit"]))


def tier_quota(record: Value) -> Any:
    """Run ``selectTierQuotaV1``; the selected hits are returned in their original form."""
    given = record["input"]
    buckets = [(bucket.get("plan", bucket).get("tier"), bucket["fused"]) for bucket in given["buckets"]]
    plans = [TierPlan(tier if isinstance(tier, str) else "", ()) for tier, _ in buckets]
    candidates_of = {
        id(plan): [(_candidate(hit), hit) for hit in hits] for plan, (_, hits) in zip(plans, buckets, strict=True)
    }
    original = {id(pick): hit for hits in candidates_of.values() for pick, hit in hits}
    selection = tier_quota_v1(
        plans,
        given["limit"],
        _quota(given["quotas"]),
        lambda plan: [pick for pick, _ in candidates_of[id(plan)]],
        strict_caps=False,
    )
    by_tier: dict[str, int] = {}
    for pick in selection.picked:
        by_tier[pick.tier] = by_tier.get(pick.tier, 0) + 1
    return {
        "selected": [original[id(pick.candidate)] for pick in selection.picked],
        "selectedByTier": by_tier,
        "quota": _shown_quota(selection),
    }


def tier_first(record: Value) -> Any:
    """Run ``runTierFirstV1`` over complete lists by label."""
    given = record["input"]
    lists = Lists(given["lists"], given["searchLimit"], unlimited=True)
    selection = tier_first_v1(_plans(given["plans"]), given["limit"], lambda plan: lists.search(_label(plan)))
    return {
        "searched": lists.searched,
        "selected": _listed([pick.candidate for pick in selection.picked]),
        "tierCounts": _shown_counts(selection.tier_counts),
        "rejected": selection.rejected,
        "ftsIds": lists.fts,
        "vecIds": lists.vec,
    }


def scoped_recall(record: Value) -> Any:
    """Run ``runScopedTieredRecall`` over lists by scope and label, truncated at the search limit."""
    given = record["input"]
    policy, plans = policy_of(given["scopePolicy"]), _plans(given["plans"])
    lists = Lists(given["lists"], given["searchLimit"])
    selection = given.get("selection") or {}
    mode = selection.get("mode", "tier_first_v1")
    quota = _quota(selection["quotas"]) if mode == "tier_quota_v1" else None

    def choose(scope: str | None, slots: int) -> Selection:
        def search(plan: TierPlan) -> list[Candidate]:
            return lists.search(f"{scope}|{_label(plan)}")

        if quota is None:
            return tier_first_v1(plans, slots, search)
        return tier_quota_v1(plans, slots, quota, search, strict_caps=False)

    allowed = given.get("allowFallback") is not False
    scoped = select_in_scopes(
        scope_plan(given["primaryScope"], policy, allow_fallback=allowed),
        given["limit"],
        choose,
        policy,
        None if allowed else given.get("fallbackSuppressedReason") or "disabled",
    )
    chosen = scoped.selection
    return {
        "searched": lists.searched,
        "selected": [[pick.candidate.id, pick.candidate.score] for pick in chosen.picked],
        "tierCounts": _shown_counts(chosen.tier_counts),
        "rejected": [reason for reason in REASONS if reason in chosen.rejected],
        "fallback": scoped.fallback,
        "selectionMode": mode,
        "quota": _shown_quota(chosen) if chosen.quota else None,
        "ftsIds": lists.fts,
        "vecIds": lists.vec,
    }


class Lists:
    """Recorded lists that replace a store; searches and returned ids are logged in order."""

    def __init__(self, lists: Value, limit: int, *, unlimited: bool = False) -> None:
        self.searched: list[str] = []
        self.fts: list[str] = []
        self.vec: list[str] = []
        self._lists, self._limit, self._unlimited = lists, limit, unlimited

    def search(self, name: str) -> list[Candidate]:
        """Return the fused candidates of a named tier."""
        self.searched.append(name)
        lanes = self._lists.get(name, {"fts": [], "vec": []})
        fts, vec = (lanes[lane] if self._unlimited else lanes[lane][: self._limit] for lane in ("fts", "vec"))
        self.fts += [hit[0] for hit in fts]
        self.vec += [hit[0] for hit in vec]
        return fuse(*_lanes(fts, vec), self._limit)


def _lanes(fts: Sequence[Sequence[Any]], vec: Sequence[Sequence[Any]]) -> tuple[Lanes, list[Row]]:
    """Convert lists of ``[id, score, distance(, createdAt)]`` to lanes over new rows, one per id."""
    numbers: dict[str, int] = {}
    rows: list[Row] = []
    for identity, _, _, *created in (*fts, *vec):
        if identity not in numbers:
            numbers[identity] = len(rows)
            rows.append(Row(identity, identity, "", "", created[0] if created else 0))
    text, near = ([Hit(numbers[hit[0]], hit[1], hit[2]) for hit in hits] for hits in (fts, vec))
    return Lanes(text, near), rows


def _candidate(hit: Value) -> Candidate:
    created: Any = created_at_ms(hit.get("createdAt", UNDEFINED))
    return Candidate(hit.get("id", ""), hit["score"], created)


def _listed(candidates: Sequence[Candidate]) -> list[list[Any]]:
    return [[candidate.id, candidate.score, candidate.distance] for candidate in candidates]


def _plans(raw: Sequence[Value]) -> list[TierPlan]:
    return [TierPlan(plan["tier"], tuple(plan["labels"]), plan.get("missReason")) for plan in raw]


def _label(plan: TierPlan) -> str:
    return ",".join(plan.labels)


def _quota(raw: Value) -> Quota:
    return Quota(raw["mustMax"], raw["niceMin"], raw["unknownMax"])


def _shown_quota(selection: Selection) -> Value | None:
    quota = selection.quota
    return quota and dict(zip(("mustMax", "niceMin", "unknownMax", "wildcardUsed"), quota[:4], strict=True))


def _shown_counts(counts: Sequence[TierCount]) -> list[Value]:
    return [count._asdict() | {"labels": list(count.labels)} for count in counts]


def _sign(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)
