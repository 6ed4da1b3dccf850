"""Aggregate recall receipts into counts and rates; no content of a receipt is kept.

Windows hold consecutive recalls, in the order of the log. The windows of must saturation do not overlap; the first,
last, lowest and highest show how the share changes. The worst window is a sliding one: it shows a temporary failure in
a long log, which the overall share would hide.

Repeats are those between the recalls of a session:

* The repeat rate is defined in :mod:`lab.measures.definitions.repeat_rate`: the share of a turn's items that occurred
  in any earlier recall turn of the window. Turns without items, and the first turn with items, are excluded.
* A streak is the number of consecutive recalls that list the same id.
* An answer is stale if the hits of both lanes, including their scores, equal those of an earlier recall in the window,
  so that the result did not depend on the query. In a healthy store, that happens only for queries with the same words;
  a frozen index, a cache or a constant embedder causes it always.
* The distinct share is the share of distinct ids among all listed ids, over windows of :data:`DISTINCT_OVER` recalls.

Figures of health cover lanes, embedding provider, limits, and blocks without a memory. These figures do not depend on
relevance. In a healthy engine, nearly all of them are 0 under every selection policy. Only the text lane is sometimes
empty, when no stored memory contains a word of the prompt.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.base.utf16 import js_length
from lab.canary.audit.check import MODES, TIERS, reserved, runs_of, tier_of
from lab.canary.audit.status import NO_VECTOR, unknown_reasons
from lab.canary.audit.windows import Windows, Worst
from lab.measures.inputs import WINDOW
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.block import OPEN, POLICY
from lab.systems.openclaw.recall.receipt import MAX_TIERS, REASONS, prompt_comment

MOST_SESSIONS = 4096
DISTINCT_OVER = 100
# Different memories found, from which they are not counted on.
MOST_FOUND = 1000
Hits = Sequence[dict[str, Any]]
WITHOUT_EMBEDDINGS = "autoRecall enabled but embeddings are unavailable"
_REGISTERED = regex(r"\s*registered \(db=")
_LISTED = regex(r"\breceipts=(?:low|high)/(\d{1,3})\b")
_HIGH = ReceiptSettings(True, "high", 10)
# The length of the text before the first memory, plus the shortest beginning of a memory's line, in UTF-16 units.
_BEFORE = js_length(f"{OPEN}\n{POLICY}\n") + len("1. [fact|unknown] ")
# The names of the last searched tier (E-17), including those of the tier loop.
POLICY_TIERS = (
    *TIERS,
    *(f"fallback:{tier}" for tier in TIERS),
    *("must+nice", "must+nice+unknown", "must+nice+unknown+ignore"),
)
_OTHER = "other"
# Names of reasons that are counted; logs come from outside.
_MOST_NAMES = 32


class _Session(NamedTuple):
    turns: deque[frozenset[str]]
    started: list[bool]
    streaks: dict[str, int]
    # Hashes of the hits of the vector lane, and of both lanes.
    vectors: deque[int]
    answers: deque[int]


class Repeats:
    """The items of the last turns of each session; beyond ``most_sessions``, the least recent session is forgotten."""

    def __init__(self, most_sessions: int = MOST_SESSIONS) -> None:
        self._most = most_sessions
        self._open = OrderedDict[tuple[str, str], _Session]()
        self._turns = self._forgotten = self._streak = 0
        self._rates = 0.0
        self._by = {"session": 0, "scope": 0}
        self._vectors = self._stale_vectors = self._answers = self._stale_answers = 0
        self._worst, self._worst_vectors = Worst(), Worst()
        self._ids, self._found = set[str](), set[str]()
        self._listed = self._recalls = self._windows = self._filled = 0
        self._distinct = self._dominance = 0.0

    def add(self, session: str | None, scope: str, ids: Sequence[str], fts: Hits = (), vec: Hits = ()) -> None:
        """Add a recall turn with the hits of its lanes. Without a session, the scope is used instead."""
        kind = "scope" if session is None else "session"
        self._by[kind] += 1
        state = self._session(kind, scope if session is None else session)
        listed = frozenset(ids)
        if listed and state.started[0]:
            self._turns += 1
            self._rates += len(listed & frozenset().union(*state.turns)) / len(listed)
        state.started[0] |= bool(listed)
        state.turns.append(listed)
        self._count_dominance(state.turns)
        self._count_streaks(state.streaks, listed)
        self._count_stale(state, fts, vec)
        self._count_distinct(listed)
        if len(self._found) < MOST_FOUND:
            self._found |= listed.union(hit["id"] for hits in (fts, vec) for hit in hits)

    def _session(self, kind: str, name: str) -> _Session:
        state = self._open.get((kind, name))
        if state is None:
            recent = (deque[Any](maxlen=WINDOW) for _ in range(3))
            turns, vectors, answers = recent
            state = self._open[kind, name] = _Session(turns, [False], {}, vectors, answers)
            if len(self._open) > self._most:
                self._open.popitem(last=False)
                self._forgotten += 1
        else:
            self._open.move_to_end((kind, name))
        return state

    def _count_streaks(self, streaks: dict[str, int], listed: frozenset[str]) -> None:
        streaks_now = {identifier: streaks.get(identifier, 0) + 1 for identifier in listed}
        streaks.clear()
        streaks.update(streaks_now)
        self._streak = max(self._streak, *streaks_now.values()) if streaks_now else self._streak

    def _count_dominance(self, turns: Iterable[frozenset[str]]) -> None:
        """Count the share of the slots of the last turns that the most frequent item fills, as RepeatDominance does."""
        times = Counter[str](item for turn in turns for item in turn)
        if times:
            self._filled += 1
            self._dominance += max(times.values()) / times.total()

    def _count_stale(self, state: _Session, fts: Hits, vec: Hits) -> None:
        if not fts and not vec:
            return
        vectors = hash(tuple((hit["id"], hit["score"], hit["distance"]) for hit in vec))
        answer = hash((vectors, *((hit["id"], hit["score"]) for hit in fts)))
        self._answers += 1
        self._stale_answers += answer in state.answers
        self._worst.add(answer in state.answers)
        state.answers.append(answer)
        if vec:
            self._vectors += 1
            self._stale_vectors += vectors in state.vectors
            self._worst_vectors.add(vectors in state.vectors)
            state.vectors.append(vectors)

    def _count_distinct(self, listed: frozenset[str]) -> None:
        if not listed:
            return
        self._ids |= listed
        self._listed += len(listed)
        self._recalls += 1
        if self._recalls == DISTINCT_OVER:
            self._windows += 1
            self._distinct += len(self._ids) / self._listed
            self._ids.clear()
            self._listed = self._recalls = 0

    def sums(self) -> dict[str, tuple[float, float]]:
        """Return the sum and the count of each mean so far."""
        return {
            "repeat.rate": (self._rates, self._turns),
            "stale.rate": (self._stale_answers, self._answers),
            "stale.vec_rate": (self._stale_vectors, self._vectors),
        }

    def as_json(self) -> dict[str, Any]:
        """Return the mean repeat rate over turns, with the numbers behind it."""
        return {
            "rate": self._rates / self._turns if self._turns else None,
            "window": WINDOW,
            "turns": self._turns,
            "dominance": self._dominance / self._filled if self._filled else None,
            "longest_streak": self._streak,
            "distinct_share": self._distinct / self._windows if self._windows else None,
            "distinct_over": DISTINCT_OVER,
            "distinct_windows": self._windows,
            "by": dict(self._by),
            "sessions_forgotten": self._forgotten,
            "memories": len(self._found),
        }

    def stale_as_json(self) -> dict[str, Any]:
        """Return the rates of stale answers among recalls with hits, and of stale vector hits among those with any."""
        return {
            "rate": self._stale_answers / self._answers if self._answers else None,
            "recalls": self._answers,
            "vec_rate": self._stale_vectors / self._vectors if self._vectors else None,
            "vec_recalls": self._vectors,
            "worst_window": self._worst.share,
            "vec_worst_window": self._worst_vectors.share,
            "window": WINDOW,
        }


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

    def sums(self) -> dict[str, tuple[float, float]]:
        """Return the part and the count of each share so far."""
        n = self._n
        return {
            "lanes.without_fts_share": (n["without_fts"], n["with_hits"]),
            "lanes.without_vec_share": (n["without_vec"], n["with_hits"]),
            "provider.rate": (n["no_vector"], n["recalls"]),
            "quota.overrun_rate": (n["overrun"], n["quotas"]),
            "budget.bare_rate": (n["bare"], n["blocks"]),
        }

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

    def sums(self) -> dict[str, tuple[float, float]]:
        """Return the part and the count of each share so far, by its path in the audit; they only grow."""
        n = self._n
        return {
            "errors.rate": (n["failed"], n["receipts"]),
            "recalls.empty_rate": (n["empty"], n["answered"]),
            **self.health.sums(),
            "lanes.neither_share": (n["by_none"], n["explained"]),
            **self._repeats.sums(),
            "quota.nice_floor_met": (n["nice_met"], n["nice_there"]),
            "must.share": self._windows.sums(),
        }

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
