"""Health of the engine according to its receipts: lanes, embedding provider, limits, and blocks without a memory.

These figures do not depend on relevance. In a healthy engine, nearly all of them are 0 under every selection policy.
Only the text lane is sometimes empty, when no stored memory contains a word of the prompt.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from lab.base.utf16 import js_length
from lab.canary.audit.check import TIERS, reserved, runs_of, tier_of
from lab.canary.audit.status import NO_VECTOR
from lab.canary.audit.windows import Worst
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import MAX_TIERS, prompt_comment
from lab.systems.openclaw.recall.wrap import OPEN, POLICY

WITHOUT_EMBEDDINGS = "autoRecall enabled but embeddings are unavailable"
_REGISTERED = re.compile(r"\s*registered \(db=")
_LISTED = re.compile(r"\breceipts=(?:low|high)/(\d{1,3})\b")
_HIGH = ReceiptSettings(True, "high", 10)
# The length of the text before the first memory, plus the shortest beginning of a memory's line, in UTF-16 units.
_BEFORE = js_length(f"{OPEN}\n{POLICY}\n") + len("1. [fact|unknown] ")


class Health:
    """Health counts of the answered recalls."""

    def __init__(self) -> None:
        self._n = Counter[str]()
        self._without_fts, self._without_vec, self._no_vector = Worst(), Worst(), Worst()
        self._items_most = self._listed_most = 0
        # Recalls since the last start of the engine by number of selected items: those with budget_cap, and all.
        self._at_limit, self._selected = Counter[int](), Counter[int]()
        self._listed_at_most: int | None = None

    def add_message(self, sentence: str) -> None:
        """Process a plain message of the engine: its start, or that it has no embeddings."""
        if _REGISTERED.match(sentence):
            self._close()
            bound = _LISTED.search(sentence)
            self._listed_at_most = int(bound[1]) if bound else None
        elif sentence.lstrip().startswith(WITHOUT_EMBEDDINGS):
            self._n["without_embeddings"] += 1

    def add(self, receipt: dict[str, Any]) -> None:
        """Count the receipt of an answered recall; it must have passed the checks."""
        n = self._n
        n["recalls"] += 1
        for reason in NO_VECTOR:
            n[reason] += reason in receipt["rejected"]
        no_vector = any(reason in receipt["rejected"] for reason in NO_VECTOR)
        n["no_vector"] += no_vector
        self._no_vector.add(no_vector)
        if receipt["ftsTop"] or receipt["vecTop"] or receipt["finalCount"]:
            n["with_hits"] += 1
            n["without_fts"] += not receipt["ftsTop"]
            n["without_vec"] += not receipt["vecTop"]
            self._without_fts.add(not receipt["ftsTop"])
            self._without_vec.add(not receipt["vecTop"])
        self._count_limits(receipt)
        if receipt.get("quota") is not None and "policyTier" not in receipt:
            n["quotas"] += 1
            n["overrun"] += _overrun(receipt) > receipt["quota"]["wildcardUsed"]
        if receipt.get("budget") is not None:
            self._count_block(receipt, receipt["budget"])

    def _count_limits(self, receipt: dict[str, Any]) -> None:
        listed = max(len(receipt[name]) for name in ("ftsTop", "vecTop", "fusedTop", "whyTheseIds"))
        self._listed_most = max(self._listed_most, listed)
        self._n["listed_over"] += self._listed_at_most is not None and listed > max(1, self._listed_at_most)
        self._items_most = max(self._items_most, receipt["finalCount"])
        counts = receipt["tierCounts"]
        # A truncated list of tier counts would give too small a sum.
        if len(counts) < MAX_TIERS:
            selected = sum(count["selected"] for count in counts)
            self._selected[selected] += 1
            self._at_limit[selected] += "budget_cap" in receipt["rejected"]

    def _count_block(self, receipt: dict[str, Any], budget: dict[str, Any]) -> None:
        n, injected = self._n, receipt["injectedCount"]
        n["blocks"] += 1
        limit = budget.get("maxChars")
        n["over"] += budget["enabled"] and type(limit) is int and budget["afterChars"] > limit
        n["cut"] += budget["truncatedChars"] > 0
        n["bare"] += bool(receipt["finalCount"] and not injected) or (
            # Not under profile seed (its receipts have "decisions"), which drops the comment before any memory.
            bool(injected and budget["truncatedChars"])
            and "decisions" not in receipt
            and _remaining_chars(receipt, budget) <= 0
        )

    def _close(self) -> None:
        """Count the recalls that exceed the usual item limit, or report ``budget_cap`` at another number of items."""
        most = self._at_limit.most_common(1)
        if most and most[0][1]:
            limit = most[0][0]
            self._n["at_limit"] += sum(self._at_limit.values())
            self._n["uneven"] += sum(
                count if selected > limit else self._at_limit[selected]
                for selected, count in self._selected.items()
                if selected != limit
            )
        self._at_limit.clear()
        self._selected.clear()

    def lanes(self) -> dict[str, Any]:
        """Return the number of recalls with hits, and the shares without hits of one lane, overall and worst window."""
        n = self._n
        return {
            "with_hits": n["with_hits"],
            "without_fts_share": _share(n["without_fts"], n["with_hits"]),
            "without_vec_share": _share(n["without_vec"], n["with_hits"]),
            "worst_window_without_fts": self._without_fts.share,
            "worst_window_without_vec": self._without_vec.share,
        }

    def provider(self) -> dict[str, Any]:
        """Return the number and share of recalls whose prompt could not be embedded, by reason."""
        n = self._n
        return {
            "failed": n["no_vector"],
            "rate": _share(n["no_vector"], n["recalls"]),
            "worst_window": self._no_vector.share,
            "unavailable": n["provider_unavailable"],
            "too_long": n["embedding_input_too_long"],
            "starts_without": n["without_embeddings"],
        }

    def limits(self) -> dict[str, Any]:
        """Return the largest numbers of selected and listed items, and the recalls that violate the usual limit."""
        self._close()
        n = self._n
        return {
            "items_most": self._items_most,
            "at_limit": n["at_limit"],
            "uneven": n["uneven"],
            "uneven_rate": _share(n["uneven"], n["recalls"]),
            "listed_most": self._listed_most,
            "listed_over": n["listed_over"],
        }

    def quota(self) -> dict[str, Any]:
        """Return the share of recalls with more items of a tier than its quota and the wildcards allow."""
        return {"overrun_rate": _share(self._n["overrun"], self._n["quotas"])}

    def blocks(self) -> dict[str, Any]:
        """Return the numbers of blocks over the budget, truncated blocks, and blocks without a memory's text."""
        n = self._n
        return {
            "over": n["over"],
            "cut": n["cut"],
            "bare": n["bare"],
            "bare_rate": _share(n["bare"], n["blocks"]),
        }


def _overrun(receipt: dict[str, Any]) -> int:
    """Return the number of items above the reserved slots of their tiers, summed over all scopes."""
    beyond = 0
    for run in runs_of(receipt["tierCounts"]):
        chosen = {tier_of(count): count["selected"] for count in run}
        floors = reserved(receipt["quota"], run)
        beyond += sum(max(0, chosen.get(tier, 0) - floors.get(tier, 0)) for tier in TIERS)
    return beyond


def _remaining_chars(receipt: dict[str, Any], budget: dict[str, Any]) -> int:
    """Return how many UTF-16 units of a truncated block remain for memories, after the comment and the first lines."""
    comment = prompt_comment(_HIGH, receipt) if receipt["verbosity"] == "high" else ""
    return int(budget["afterChars"]) - (js_length(comment) + 1 if comment else 0) - _BEFORE


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
