"""Whether the engine works at all, by its receipts: lanes, providers, limits, and blocks that hold no memory.

None of these figures depends on which memories are relevant, and in a sound engine nearly all of them are 0 under
every selection policy. The text lane alone is silent now and then: no stored memory has a word of the prompt.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from lab.canary.check import TIERS, reserved, runs_of, tier_of
from lab.canary.windows import Worst
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import MAX_TIERS, prompt_comment
from lab.systems.openclaw.recall.wrap import OPEN, POLICY
from lab.utf16 import js_length

NO_VECTOR = ("provider_unavailable", "embedding_input_too_long")
WITHOUT_EMBEDDINGS = "autoRecall enabled but embeddings are unavailable"
_REGISTERED = re.compile(r"\s*registered \(db=")
_LISTED = re.compile(r"\breceipts=(?:low|high)/(\d{1,3})\b")
_HIGH = ReceiptSettings(True, "high", 10)
# What stands before the first memory, and how its line begins at the least.
_BEFORE = js_length(f"{OPEN}\n{POLICY}\n") + len("1. [fact|unknown] ")


class Health:
    """Answered recalls, added up."""

    def __init__(self) -> None:
        self._n = Counter[str]()
        self._without_fts, self._without_vec, self._no_vector = Worst(), Worst(), Worst()
        self._items_most = self._listed_most = 0
        # Items selected, of recalls at the engine's limit and of all: since the engine was last started.
        self._at_limit, self._selected = Counter[int](), Counter[int]()
        self._listed_at_most: int | None = None

    def hear(self, sentence: str) -> None:
        """A sentence of the engine: one says what it was started with, one that it has no embeddings."""
        if _REGISTERED.match(sentence):
            self._close()
            bound = _LISTED.search(sentence)
            self._listed_at_most = int(bound[1]) if bound else None
        elif sentence.lstrip().startswith(WITHOUT_EMBEDDINGS):
            self._n["without_embeddings"] += 1

    def add(self, receipt: dict[str, Any]) -> None:
        """Count a sound receipt of a recall that was answered."""
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
        # Counts that are not shown may hide more.
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
            # Profile seed, which names its decisions, gives up the comment before a memory.
            bool(injected and budget["truncatedChars"]) and "decisions" not in receipt and _room(receipt, budget) <= 0
        )

    def _close(self) -> None:
        """Count recalls that report ``budget_cap`` at another item count than the usual limit, or exceed that limit."""
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
        """Recalls in which either lane found something, and shares of those in which one did not, also at worst."""
        n = self._n
        return {
            "with_hits": n["with_hits"],
            "without_fts_share": _share(n["without_fts"], n["with_hits"]),
            "without_vec_share": _share(n["without_vec"], n["with_hits"]),
            "worst_window_without_fts": self._without_fts.share,
            "worst_window_without_vec": self._without_vec.share,
        }

    def provider(self) -> dict[str, Any]:
        """Recalls whose prompt got no vector, by what the engine says of the provider of embeddings."""
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
        """What was selected and listed at most, and recalls that do not keep to the limit that others name."""
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
        """Recalls that took more of a tier than its quota and the wildcards allow."""
        return {"overrun_rate": _share(self._n["overrun"], self._n["quotas"])}

    def blocks(self) -> dict[str, Any]:
        """Blocks over the budget, cut ones, and those that hold nothing of a memory."""
        n = self._n
        return {
            "over": n["over"],
            "cut": n["cut"],
            "bare": n["bare"],
            "bare_rate": _share(n["bare"], n["blocks"]),
        }


def _overrun(receipt: dict[str, Any]) -> int:
    """Items beyond what the quotas reserve for their tiers, all scopes taken together."""
    beyond = 0
    for run in runs_of(receipt["tierCounts"]):
        chosen = {tier_of(count): count["selected"] for count in run}
        sizes = {tier_of(count): count["candidates"] for count in run}
        must, nice, unknown = reserved(receipt["quota"], sizes, sum(chosen.values()))
        floors = {"must": must, "nice": nice, "unknown": unknown}
        beyond += sum(max(0, chosen.get(tier, 0) - floors.get(tier, 0)) for tier in TIERS)
    return beyond


def _room(receipt: dict[str, Any], budget: dict[str, Any]) -> int:
    """UTF-16 units that a cut block has left for the text of memories, behind the comment and its own first lines."""
    comment = prompt_comment(_HIGH, receipt) if receipt["verbosity"] == "high" else ""
    return int(budget["afterChars"]) - (js_length(comment) + 1 if comment else 0) - _BEFORE


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
