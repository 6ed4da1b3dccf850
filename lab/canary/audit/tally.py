"""Aggregate recall receipts into counts and rates; no content of a receipt is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from lab.canary.audit.check import MODES, TIERS, reserved, runs_of, tier_of
from lab.canary.audit.health import Health
from lab.canary.audit.repeats import Repeats
from lab.canary.audit.status import unknown_reasons
from lab.canary.audit.windows import Windows
from lab.systems.openclaw.recall.receipt import REASONS

# The names of the last searched tier (E-17), including those of the tier loop.
POLICY_TIERS = (
    *TIERS,
    *(f"fallback:{tier}" for tier in TIERS),
    *("must+nice", "must+nice+unknown", "must+nice+unknown+ignore"),
)
_OTHER = "other"
# Names of reasons that are counted; logs come from outside.
_MOST_NAMES = 32


class Tally:
    """Counts over the sound receipts of automatic recall.

    Each receipt is one recall: ``skipped`` (there was no query), ``failed`` (a stage raised) or ``answered``.
    """

    def __init__(self) -> None:
        self._n = Counter[str]()
        self._skips, self._rejected, self._modes, self._policy, self._unknown = (Counter[str]() for _ in range(5))
        self._tiers = {tier: Counter[str]() for tier in TIERS}
        self._final = Counter[str]()
        self._repeats, self._windows, self.health = Repeats(), Windows(), Health()

    @property
    def answered(self) -> int:
        """The number of answered recalls so far."""
        return self._n["answered"]

    def add(self, receipt: dict[str, Any], session: str | None) -> None:
        """Count a receipt that passed :func:`lab.canary.audit.check.check_recall`, unknown reasons aside."""
        n = self._n
        n["receipts"] += 1
        self._rejected.update(reason for reason in receipt["rejected"] if reason in REASONS)
        for name in unknown_reasons(receipt):
            self._unknown[name if name in self._unknown or len(self._unknown) < _MOST_NAMES else _OTHER] += 1
        if receipt["skipped"]:
            n["skipped"] += 1
            if receipt["skipReason"] in REASONS:
                self._skips[receipt["skipReason"]] += 1
            return
        self._modes[receipt["selectionMode"]] += 1
        if "failed" in receipt:
            n["failed"] += 1
            return
        n["answered"] += 1
        n["empty"] += not receipt["finalCount"]
        n["injected"] += receipt["injectedCount"]
        n["final"] += receipt["finalCount"]
        self._repeats.add(session, receipt["scope"], receipt["fusedTop"], receipt["ftsTop"], receipt["vecTop"])
        self.health.add(receipt)
        self._count_tiers(receipt)
        self._count_lanes(receipt)
        self._count_scopes(receipt)
        if receipt.get("quota") is not None:
            self._count_quota(receipt)
        budget = receipt.get("budget")
        if budget is not None:
            n["budgets"] += 1
            n["truncated"] += budget["truncated"]
            n["cut"] += budget["truncatedChars"] > 0
            n["dropped"] += budget["droppedCount"]

    def _count_tiers(self, receipt: dict[str, Any]) -> None:
        counts, by_tier = receipt["tierCounts"], receipt["whySummary"]["byTier"]
        policy_tier = receipt.get("policyTier")
        if policy_tier is None and counts:
            of_fallback = ":" in counts[-1]["tier"]
            policy_tier = f"fallback:{tier_of(counts[-1])}" if of_fallback else tier_of(counts[-1])
        self._policy[policy_tier if policy_tier in POLICY_TIERS else _OTHER] += 1
        for count in counts:
            tier = self._tiers[tier_of(count)]
            tier.update(candidates=count["candidates"], selected=count["selected"])
            tier.update(searched=1, empty=not count["candidates"])
        self._final.update({tier: by_tier[tier] for tier in TIERS})
        self._windows.add(by_tier["must"], sum(by_tier[tier] for tier in TIERS))

    def _count_lanes(self, receipt: dict[str, Any]) -> None:
        n = self._n
        fts, vec = ({hit["id"] for hit in receipt[name]} for name in ("ftsTop", "vecTop"))
        n["no_fts"] += not fts
        n["no_vec"] += not vec
        for item in receipt["whyTheseIds"]:
            signals = item["signals"]
            n["explained"] += 1
            n["by_fts"] += signals == ["fts"]
            n["by_vec"] += signals == ["vec"]
            n["by_both"] += len(signals) == 2
            n["by_none"] += not signals
            n["among_top"] += item["id"] in fts or item["id"] in vec

    def _count_scopes(self, receipt: dict[str, Any]) -> None:
        n, summary = self._n, receipt["whySummary"]
        fallback = receipt.get("fallback") or {"eligible": False, "consulted": False, "contributed": 0}
        outside = summary["fromFallbackScope"]
        n["fallback_eligible"] += fallback["eligible"]
        n["fallback_consulted"] += fallback["consulted"]
        n["fallback_used"] += fallback["contributed"] > 0
        n["named"] += summary["fromPrimaryScope"] + outside
        n["strange"] += outside
        n["strange_turns"] += outside > 0
        n["unexplained"] += max(0, outside - fallback["contributed"])

    def _count_quota(self, receipt: dict[str, Any]) -> None:
        n, quota = self._n, receipt["quota"]
        n["quotas"] += 1
        n["wildcards"] += quota["wildcardUsed"]
        n["wildcard_turns"] += quota["wildcardUsed"] > 0
        primary = next(runs_of(receipt["tierCounts"]), [])
        chosen = {tier_of(count): count["selected"] for count in primary}
        sizes = {tier_of(count): count["candidates"] for count in primary}
        n["must_reached"] += chosen.get("must", 0) >= quota["mustMax"]
        n["must_above"] += chosen.get("must", 0) > quota["mustMax"]
        floor = reserved(quota, primary)["nice"]
        n["nice_there"] += sizes.get("nice", 0) > 0 and quota["niceMin"] > 0
        n["nice_met"] += floor > 0 and chosen.get("nice", 0) >= floor

    def as_json(self, failures: int) -> dict[str, Any]:
        """Return all figures; a rate without observations is None.

        ``failures`` is the number of warnings about failed recalls. Under profile ``seed``, a failed recall also writes
        a receipt, so the larger of the two counts is used.
        """
        n = self._n
        failed = max(failures, n["failed"])
        attempts = n["receipts"] - n["failed"] + failed
        items = sum(self._final.values())
        return {
            "recalls": {
                **_kept(n, receipts="receipts", skipped="skipped", failed="failed", answered="answered"),
                "empty": n["empty"],
                "empty_rate": _share(n["empty"], n["answered"]),
                "items_mean": _share(n["final"], n["answered"]),
                "injected_mean": _share(n["injected"], n["answered"]),
            },
            "errors": {"failed": failed, "attempts": attempts, "rate": _share(failed, attempts)},
            "skips": {"rate": _share(n["skipped"], n["receipts"])} | _rates(self._skips, REASONS[:2], n["receipts"]),
            "rejected": _rates(self._rejected, REASONS, n["receipts"]),
            **({"unknown_reasons": dict(sorted(self._unknown.items()))} if self._unknown else {}),
            "selection_mode": _rates(self._modes, MODES, self._modes.total()),
            "policy_tier": _rates(self._policy, (*POLICY_TIERS, _OTHER), n["answered"]),
            "tiers": {
                tier: {
                    **_kept(counts, searched="searched", candidates="candidates", selected="selected"),
                    "empty_rate": _share(counts["empty"], counts["searched"]),
                    "final": self._final[tier],
                    "final_share": _share(self._final[tier], items),
                }
                for tier, counts in self._tiers.items()
            },
            "lanes": {
                "items": n["explained"],
                "fts_share": _share(n["by_fts"] + n["by_both"], n["explained"]),
                "vec_share": _share(n["by_vec"] + n["by_both"], n["explained"]),
                "both_share": _share(n["by_both"], n["explained"]),
                "neither_share": _share(n["by_none"], n["explained"]),
                "listed_share": _share(n["among_top"], n["explained"]),
                "no_fts_rate": _share(n["no_fts"], n["answered"]),
                "no_vec_rate": _share(n["no_vec"], n["answered"]),
                **self.health.lanes(),
            },
            "provider": self.health.provider(),
            "limits": self.health.limits(),
            "quota": {
                "recalls": n["quotas"],
                "must_max_reached": _share(n["must_reached"], n["quotas"]),
                "must_max_exceeded": _share(n["must_above"], n["quotas"]),
                "nice_there": n["nice_there"],
                "nice_floor_met": _share(n["nice_met"], n["nice_there"]),
                "wildcard_rate": _share(n["wildcard_turns"], n["quotas"]),
                "wildcards_mean": _share(n["wildcards"], n["quotas"]),
                **self.health.quota(),
            },
            "must": self._windows.as_json(),
            "repeat": self._repeats.as_json(),
            "stale": self._repeats.stale_as_json(),
            "scope": {
                **_kept(n, items="named", outside="strange", unexplained="unexplained"),
                "outside_share": _share(n["strange"], n["named"]),
                "outside_rate": _share(n["strange_turns"], n["answered"]),
                "unexplained_share": _share(n["unexplained"], n["named"]),
                "fallback_eligible_rate": _share(n["fallback_eligible"], n["answered"]),
                "fallback_consulted_rate": _share(n["fallback_consulted"], n["answered"]),
                "fallback_used_rate": _share(n["fallback_used"], n["answered"]),
            },
            "budget": {
                "recalls": n["budgets"],
                "truncated_rate": _share(n["truncated"], n["budgets"]),
                "cut_rate": _share(n["cut"], n["budgets"]),
                "dropped_mean": _share(n["dropped"], n["budgets"]),
                **self.health.blocks(),
            },
        }


def _kept(counts: Counter[str], **names: str) -> dict[str, int]:
    return {shown: counts[name] for shown, name in names.items()}


def _rates(counts: Counter[str], names: Iterable[str], total: int) -> dict[str, Any]:
    return {name: {"count": counts[name], "rate": _share(counts[name], total)} for name in names}


def _share(part: int, total: int) -> float | None:
    return part / total if total else None
